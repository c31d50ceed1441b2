"""Readers and their antennas: topic, format, location, signal threshold and clock setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting, changed, non_empty
from edge.audit.kinds import Kind
from edge.database.connection import execute, insert, update
from edge.database.ids import new_id
from edge.errors import Conflict, Invalid
from edge.formats.reads import UNREADABLE_ANTENNA
from edge.people.topic_owners import check_owned
from edge.readers import kept_messages, output_topics, unassigned_topics
from edge.readers.antenna_kinds import all_kinds
from edge.readers.clocks import AUTO, check_clock
from edge.readers.sled_owners import Owner, all_owners
from edge.records import locations
from edge.texts import N_, fill
from edge.tracking.rssi_offsets import all_offsets
from edge.tracking.signal_strength import AntennaKind
from edge.validation.topics import check_filter, overlap
from edge.validation.values import MAX_NAME

REPLAYED = frozenset({"topic", "format", "mapping", "location_id"})  # changes that trigger a replay of kept messages
TAKEN = N_(
    "topic %(topic)s overlaps with the topic of the reader %(name)s (%(other)s); each reader needs its own topic"
)
TAKEN_ELSEWHERE = N_(
    "topic %(topic)s overlaps with the topic of a reader of another organization; each reader needs its own topic"
)
WRITABLE = frozenset(
    {"name", "topic", "status_topic", "format", "mapping", "location_id", "min_rssi", "clock_setting", "is_enabled"}
)


class ReaderRow(NamedTuple):
    id: int
    organization_id: int
    name: str
    topic: str
    status_topic: str | None
    format: str
    mapping: str | None
    location_id: int | None
    min_rssi: float | None
    clock_setting: str
    is_enabled: bool
    created_at: int
    updated_at: int
    deleted_at: int | None


KIND = Kind(
    "reader",
    "reader",
    f"SELECT {', '.join(ReaderRow._fields)} FROM reader",
    ReaderRow._make,
    key="id",
    order="name",
    live="deleted_at IS NULL",
)
get_reader, list_readers, subject_of = KIND.get, KIND.list_of, KIND.subject


class AntennaRow(NamedTuple):
    reader_id: int
    port: int
    location_id: int | None
    min_rssi: float | None
    is_enabled: bool


class UsedTopics(NamedTuple):
    """The topics of a reader, which those of others must not overlap."""

    organization_id: int
    name: str
    topics: Sequence[str]


class Placement(Struct, frozen=True):
    """Settings of an antenna or a reader. `min_rssi`: signal threshold in dBm. `rssi_offset`: in dB.

    `kind` and `rssi_offset` are read-only here; the modules `antenna_kinds` and `rssi_offsets` change them.
    """

    location_id: int | None
    min_rssi: float | None
    is_enabled: bool
    kind: AntennaKind = AntennaKind.ZONE
    rssi_offset: float = 0.0


class Route(Struct, frozen=True):
    """A reader for ingest. A deleted location is None. `antennas`: placement by port. `owners`: of a sled.

    `has_places`: some of its antennas have locations of their own.
    """

    reader_id: int
    organization_id: int
    topic: str
    status_topic: str | None
    format: str
    mapping: str | None
    clock_setting: str
    placement: Placement
    antennas: Mapping[int, Placement]
    owners: Sequence[Owner] = ()
    has_places: bool = False

    def placement_of(self, antenna: int | None) -> Placement:
        """Return the settings for reads by an antenna. An unreadable one may be any of those with a location."""
        if antenna == UNREADABLE_ANTENNA and self.has_places:
            return replace(self.placement, location_id=None)
        return self.antennas.get(antenna or 0, self.placement)


def add_reader(
    actor: Actor,
    *,
    name: str,
    topic: str,
    format: str,  # noqa: A002  the name of the field in the API and database
    mapping: str | None = None,
    location_id: int | None = None,
    min_rssi: float | None = None,
    clock_setting: str = AUTO,
    status_topic: str | None = None,
) -> ReaderRow:
    """Add a reader and request a replay of its kept messages.

    Raises Conflict for a name in use or an overlapping topic, and Invalid for a bad topic, clock or location.
    """
    check_filter(topic)
    check_clock(clock_setting)
    with acting(actor) as act:
        organization_id = actor.organization_id
        _check_free_name(organization_id, name)
        _check_topic(organization_id, topic)
        if status_topic:
            check_filter(status_topic)
            _check_topic(organization_id, status_topic)
        _check_location(organization_id, location_id)
        moment = clock.now()
        row = ReaderRow(
            new_id(),
            organization_id,
            name,
            topic,
            status_topic,
            format,
            mapping,
            location_id,
            min_rssi,
            clock_setting,
            True,
            moment,
            moment,
            None,
        )
        insert("reader", row._asdict())
        for own_topic in filter(None, (topic, status_topic)):
            unassigned_topics.forget(own_topic)
        kept_messages.request_for_reader(organization_id, row.id)
        act.note("reader.created", subject_of(row), non_empty(_audited_fields(row)))
    return row


def change_reader(
    actor: Actor, reader_id: int, changes: Mapping[str, Any], check: Callable[[ReaderRow], None] | None = None
) -> ReaderRow:
    """Change fields listed in WRITABLE. Raises NotFound, and Conflict or Invalid like `add_reader`.

    `check` is called with the current row inside the transaction and may raise to reject the change.
    """
    if unknown := set(changes) - WRITABLE:
        raise ValueError(f"not writable: {sorted(unknown)}")
    with acting(actor) as act:
        before = get_reader(actor.organization_id, reader_id)
        if check:
            check(before)
        for topic in [changes[field] for field in ("topic", "status_topic") if changes.get(field)]:
            check_filter(topic)
            _check_topic(actor.organization_id, topic, except_id=reader_id)
            unassigned_topics.forget(topic)
        if "clock_setting" in changes:
            check_clock(changes["clock_setting"])
        if "name" in changes:
            _check_free_name(actor.organization_id, changes["name"], except_id=reader_id)
        if "location_id" in changes:
            _check_location(actor.organization_id, changes["location_id"])
        after = before._replace(**changes, updated_at=clock.now())
        update("reader", reader_id, {**changes, "updated_at": after.updated_at})
        if {"format", "mapping"} & set(changes):  # diagnostics of the old format no longer apply
            execute("DELETE FROM ignored_message WHERE reader_id = ?", (reader_id,))
            execute("DELETE FROM mapped_field WHERE reader_id = ?", (reader_id,))
        if set(changes) & REPLAYED:
            kept_messages.request_for_reader(actor.organization_id, reader_id)
        act.note_changes("reader.changed", subject_of(after), changed(_audited_fields(before), _audited_fields(after)))
    return after


def remove_reader(actor: Actor, reader_id: int) -> None:
    """Soft-delete a reader: topic and name become available, recorded history stays. Raises NotFound."""
    KIND.remove(actor, reader_id)


def list_antennas(organization_id: int, reader_id: int) -> list[AntennaRow]:
    """Return the antennas with their own settings, by port. Raises NotFound."""
    get_reader(organization_id, reader_id)
    sql = f"SELECT {', '.join(AntennaRow._fields)} FROM antenna WHERE reader_id = ? ORDER BY port"
    return [AntennaRow(*row) for row in execute(sql, (reader_id,))]


def set_antenna(actor: Actor, reader_id: int, port: int, placement: Placement) -> None:
    """Set the settings of one antenna, which override those of its reader. Raises NotFound, Invalid."""
    if port < 0:
        raise Invalid.one("port", "too_small", N_("port must be 0 or more"), min=0)
    with acting(actor) as act:
        row = get_reader(actor.organization_id, reader_id)
        _check_location(actor.organization_id, placement.location_id)
        before = _audited_antenna(actor.organization_id, reader_id, port)
        own = (reader_id, port, placement.location_id, placement.min_rssi, placement.is_enabled)
        execute("DELETE FROM antenna WHERE reader_id = ? AND port = ?", own[:2])
        insert("antenna", AntennaRow(*own)._asdict())
        kept_messages.request_for_reader(actor.organization_id, reader_id)
        after = _audited_antenna(actor.organization_id, reader_id, port)
        act.note("antenna.changed", subject_of(row), {"port": port, **changed(before, after)})


def remove_antenna(actor: Actor, reader_id: int, port: int) -> None:
    """Reset an antenna to the settings of its reader. Raises NotFound."""
    with acting(actor) as act:
        row = get_reader(actor.organization_id, reader_id)
        before = _audited_antenna(actor.organization_id, reader_id, port)
        execute("DELETE FROM antenna WHERE reader_id = ? AND port = ?", (reader_id, port))
        kept_messages.request_for_reader(actor.organization_id, reader_id)
        act.note("antenna.reset", subject_of(row), {"port": port, "old": non_empty(before)})


def _audited_fields(row: ReaderRow) -> dict[str, Any]:
    """Return the fields of a reader that the audit records."""
    values = row._asdict()
    audited = ("name", "topic", "status_topic", "format", "mapping", "min_rssi", "clock_setting")
    location = _location_name(row.organization_id, row.location_id)
    return {**{name: values[name] for name in audited}, "location": location, "is_enabled": bool(row.is_enabled)}


def _audited_antenna(organization_id: int, reader_id: int, port: int) -> dict[str, Any]:
    for row in list_antennas(organization_id, reader_id):
        if row.port == port:
            location = _location_name(organization_id, row.location_id)
            return {"location": location, "min_rssi": row.min_rssi, "is_enabled": bool(row.is_enabled)}
    return {"location": None, "min_rssi": None, "is_enabled": None}


def _location_name(organization_id: int, location_id: int | None) -> str | None:
    sql = "SELECT name || ' (' || external_key || ')' FROM location WHERE id = ? AND organization_id = ?"
    row = execute(sql, (location_id, organization_id)).fetchone()
    return row[0] if row else None


def routes() -> list[Route]:
    """Return the live readers of all organizations. For ingest only."""
    kinds, offsets, owners = all_kinds(), all_offsets(), all_owners()
    antennas: dict[int, dict[int, tuple[Placement, bool]]] = {}
    for reader_id, port, location_id, min_rssi, is_enabled, has_location in execute(_ANTENNAS):
        own_settings = Placement(location_id, min_rssi, bool(is_enabled))
        antennas.setdefault(reader_id, {})[port] = own_settings, bool(has_location)
    all_routes = []
    for reader_id, owner, topic, status_topic, name, mapping, clock_setting, *placement in execute(_READERS):
        location_id, min_rssi, is_enabled = placement
        kind, offset = kinds.of(reader_id, None, location_id), offsets.of(reader_id, None)
        whole = Placement(location_id, min_rssi, bool(is_enabled), kind, offset)
        own = {port: _inherit(*settings, whole) for port, settings in antennas.get(reader_id, {}).items()}
        has_places = any(has_location for _, has_location in antennas.get(reader_id, {}).values())
        named = {port for named_id, port in (*kinds.antennas, *offsets.antennas) if named_id == reader_id}
        own |= dict.fromkeys(named - set(own), whole)
        own = {
            port: replace(one, kind=kinds.of(reader_id, port, one.location_id), rssi_offset=offsets.of(reader_id, port))
            for port, one in own.items()
        }
        settings = (topic, status_topic, name, mapping, clock_setting)
        all_routes.append(Route(reader_id, owner, *settings, whole, own, owners.get(reader_id, ()), has_places))
    return all_routes


def _inherit(antenna: Placement, has_location: bool, whole: Placement) -> Placement:
    """Return the antenna's settings, with defaults from its reader. A disabled reader disables all its antennas.

    `has_location`: the antenna has a location of its own, which may have been deleted.
    """
    min_rssi = whole.min_rssi if antenna.min_rssi is None else antenna.min_rssi
    location_id = antenna.location_id if has_location else whole.location_id
    return Placement(location_id, min_rssi, antenna.is_enabled and whole.is_enabled)


_ANTENNAS = """
SELECT antenna.reader_id, antenna.port, location.id, antenna.min_rssi, antenna.is_enabled,
       antenna.location_id IS NOT NULL
FROM antenna LEFT JOIN location ON location.id = antenna.location_id AND location.deleted_at IS NULL
"""
_READERS = """
SELECT reader.id, reader.organization_id, reader.topic, reader.status_topic, reader.format, reader.mapping,
       reader.clock_setting, location.id, reader.min_rssi, reader.is_enabled
FROM reader LEFT JOIN location ON location.id = reader.location_id AND location.deleted_at IS NULL
WHERE reader.deleted_at IS NULL
"""


def check_name(name: str) -> None:
    """Raise Invalid unless a reader can have this name."""
    if not 1 <= len(name) <= MAX_NAME or name != name.strip():
        message = fill(N_("name must have 1 to %(most)s characters and no leading or trailing spaces"), most=MAX_NAME)
        raise Invalid.one("name", "invalid_value", message)


def _check_free_name(organization_id: int, name: str, except_id: int = 0) -> None:
    check_name(name)
    if any(row.name == name and row.id != except_id for row in list_readers(organization_id)):
        raise Conflict(fill(N_("a reader called %(name)s already exists"), name=name))


def used_topics(except_id: int = 0) -> Iterator[UsedTopics]:
    """Yield the topics of the live readers of all organizations. To compare topics only."""
    for row in KIND.where("id <> ?", except_id):
        yield UsedTopics(row.organization_id, row.name, [topic for topic in (row.topic, row.status_topic) if topic])


def _check_topic(organization_id: int, topic: str, except_id: int = 0) -> None:
    check_topic(organization_id, topic, used_topics(except_id))


def check_topic(organization_id: int, topic: str, used: Iterable[UsedTopics]) -> None:
    """Raise Conflict if the topic overlaps a topic of another reader, another organization or an output."""
    check_owned(organization_id, topic)
    for owner, name, others in used:
        for other in others:
            if overlap(topic, other):
                is_own = owner == organization_id
                raise Conflict(
                    fill(TAKEN, topic=topic, name=name, other=other) if is_own else fill(TAKEN_ELSEWHERE, topic=topic)
                )
    if any(overlap(topic, other) for other in output_topics.command_topics()):
        raise Conflict(
            fill(N_("topic %(topic)s overlaps with the topic of an output; choose another topic"), topic=topic)
        )


def _check_location(organization_id: int, location_id: int | None) -> None:
    if location_id is None:
        return
    live = "SELECT 1 FROM location WHERE organization_id = ? AND id = ? AND deleted_at IS NULL"
    if not execute(live, (organization_id, location_id)).fetchone():
        raise Invalid.one("location_id", "fk_not_found", N_("location_id does not name a location"))


def add_reader_with_location(actor: Actor, location_name: str, **values: Any) -> ReaderRow:
    """Add a reader and a location with this name in one transaction. An empty name adds only the reader.

    `values`: arguments of `add_reader`. Raises like `add_reader`, and Invalid if `values` contains a location.
    """
    if not location_name:
        return add_reader(actor, **values)
    if values.get("location_id"):
        raise Invalid.one("location_name", "invalid_value", N_("Choose a location or enter a new one, not both"))
    with acting(actor):
        location = locations.create(actor, name=location_name)
        return add_reader(actor, **{**values, "location_id": location.id})
