"""Who receives events: webhooks, brokers, and the live stream of an organization; and how far each of them has got.

Every change that somebody makes to a destination is audited. The progress of deliveries is not; see `event_progress`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, given
from edge.database.connection import execute
from edge.errors import Conflict, Invalid, NotFound
from edge.events import log
from edge.events.log import Filter
from edge.events.progress import MOST_ATTEMPTS, Attempt
from edge.outbound import Network

MOST = 20  # of one organization
TROUBLE_AFTER = clock.HOUR  # a receiver may be restarted
STREAM_NAME = "Live stream"


class DestinationKind(StrEnum):
    WEBHOOK = "webhook"
    MQTT = "mqtt"
    STREAM = "stream"


class NewDestination(NamedTuple):
    """`secret` is sealed (see `edge.people.secrets`), `topic` a template."""

    kind: DestinationKind
    name: str
    url: str
    secret: bytes
    wanted: Filter
    network: Network = Network.INTERNET
    topic: str = ""


class Destination(NamedTuple):
    """See the table `event_destination`."""

    no: int
    organization_id: int
    kind: DestinationKind
    name: str
    url: str
    topic: str
    event_kinds: Sequence[str]
    location_id: int | None
    network: Network
    secret: bytes
    created_at: int
    disabled_at: int | None
    disabled_reason: str | None
    seq: int
    failures: int
    failing_since: int | None
    next_try_at: int
    last_error: str | None
    last_success_at: int | None
    delivered: int
    lost: int
    is_test_wanted: bool

    @property
    def wanted(self) -> Filter:
        return Filter(frozenset(self.event_kinds), self.location_id)


_SELECT = f"SELECT {', '.join(Destination._fields)} FROM event_destination "


def add(actor: Actor, new: NewDestination) -> Destination:
    """It receives what happens from now on.

    Raises Conflict for a name that is taken or one destination too many, Invalid for a location that does not exist.
    """
    organization_id = actor.organization_id
    with acting(actor) as act:
        if new.wanted.location_id is not None and not _has_location(organization_id, new.wanted.location_id):
            raise Invalid.one("location_id", "fk_not_found", "There is no such location")
        present = list_destinations(organization_id)
        if new.name == STREAM_NAME and new.kind is not DestinationKind.STREAM:
            raise Conflict(f"{STREAM_NAME} is the name of what listens at GET /events; choose another name")
        if any(row.name == new.name for row in present):
            raise Conflict(f"There is a destination {new.name} already; choose another name")
        if len(present) >= MOST:
            raise Conflict(f"There are {MOST} destinations already; remove one first")
        values = (
            *(organization_id, new.kind, new.name, new.url, new.topic, " ".join(sorted(new.wanted.kinds))),
            *(new.wanted.location_id, new.network, new.secret, clock.now(), log.newest()),
        )
        no = execute(
            "INSERT INTO event_destination (organization_id, kind, name, url, topic, event_kinds, location_id, "
            "network, secret, created_at, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING no",
            values,
        ).fetchone()[0]
        row = get(organization_id, no)
        act.note("event_destination.created", _subject(row), _told(row))
    return row


def open_stream(actor: Actor) -> None:
    """Have events logged for live streams, if they are not logged yet. Raises Conflict where somebody disabled that."""
    found = _stream(actor.organization_id)
    if found is None:
        with acting(actor):
            found = _stream(actor.organization_id)
            if found is None:
                wanted = Filter(frozenset(log.KINDS))
                add(actor, NewDestination(DestinationKind.STREAM, STREAM_NAME, "", b"", wanted))
    if found and found.disabled_at:
        raise Conflict(f'Live streams are disabled here. To have them again: edge events enable "{STREAM_NAME}"')


def remove(actor: Actor, no: int) -> None:
    """What it did not receive yet is never delivered. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute("DELETE FROM event_destination WHERE no = ?", (no,))
        act.note("event_destination.deleted", _subject(row))


def enable(actor: Actor, no: int) -> None:
    """Resume after it was disabled, with what is still in the log. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute(
            "UPDATE event_destination SET disabled_at = NULL, disabled_reason = NULL, failures = 0, "
            "failing_since = NULL, next_try_at = 0, last_error = NULL WHERE no = ?",
            (no,),
        )
        execute("UPDATE event_retry SET since = ?, next_try_at = 0 WHERE destination_no = ?", (clock.now(), no))
        act.note("event_destination.enabled", _subject(row))


def disable(actor: Actor, no: int) -> None:
    """Deliver nothing until it is enabled again. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute("UPDATE event_destination SET disabled_at = ?, disabled_reason = NULL WHERE no = ?", (clock.now(), no))
        act.note("event_destination.disabled", _subject(row))


def change_secret(actor: Actor, no: int, secret: bytes) -> None:
    """The old one stops working at once. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute("UPDATE event_destination SET secret = ?, next_try_at = 0 WHERE no = ?", (secret, no))
        act.note("event_destination.secret_changed", _subject(row))


def ask_for_test(actor: Actor, no: int) -> None:
    """Have a test event sent soon, ahead of all others; its attempt shows the result. Raises NotFound, Conflict."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        if row.disabled_at is not None:
            raise Conflict(f"{row.name} is disabled; enable it first")
        execute("UPDATE event_destination SET is_test_wanted = 1 WHERE no = ?", (no,))
        act.note("event_destination.tested", _subject(row))


def get(organization_id: int, no: int) -> Destination:
    found = _rows("WHERE organization_id = ? AND no = ?", (organization_id, no))
    if not found:
        raise NotFound("no such event destination")
    return found[0]


def list_destinations(organization_id: int) -> list[Destination]:
    return _rows("WHERE organization_id = ? ORDER BY name", (organization_id,))


def list_attempts(organization_id: int, no: int, limit: int = MOST_ATTEMPTS) -> list[Attempt]:
    """Newest first. Raises NotFound."""
    get(organization_id, no)
    found = execute(
        "SELECT at, milliseconds, event_id, event_kind, is_delivered, told FROM event_attempt "
        "WHERE destination_no = ? ORDER BY no DESC LIMIT ?",
        (no, limit),
    )
    return [Attempt(*row)._replace(is_delivered=bool(row[4])) for row in found]


def count_waiting(row: Destination) -> int:
    """How many events may still have to be delivered, whatever their kind."""
    waiting = log.count_between(row.organization_id, row.seq, log.newest())
    retries: int = execute("SELECT count(*) FROM event_retry WHERE destination_no = ?", (row.no,)).fetchone()[0]
    return waiting + retries


def enabled() -> list[Destination]:
    """Of all organizations: for the service, which delivers for all of them."""
    return _rows("WHERE disabled_at IS NULL ORDER BY no", ())


def find_enabled(no: int) -> Destination | None:
    """For the service, as `enabled`."""
    found = _rows("WHERE no = ? AND disabled_at IS NULL", (no,))
    return found[0] if found else None


def all_destinations() -> list[Destination]:
    """Of all organizations, including disabled ones: for those who look after the box."""
    return _rows("ORDER BY organization_id, name", ())


def troubles() -> list[str]:
    """Destinations that were given up or have taken nothing for a while: one sentence each, by name."""
    told = []
    for row in all_destinations():
        if row.disabled_reason:
            told.append(f"{row.name} was disabled: {row.disabled_reason}")
        elif row.failing_since and not row.disabled_at and row.failing_since < clock.now() - TROUBLE_AFTER:
            told.append(f"{row.name} has taken no events since {clock.rfc3339(row.failing_since)}: {row.last_error}")
    return told


def _has_location(organization_id: int, location_id: int) -> bool:
    sql = "SELECT 1 FROM location WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
    return execute(sql, (location_id, organization_id)).fetchone() is not None


def _stream(organization_id: int) -> Destination | None:
    found = _rows("WHERE organization_id = ? AND kind = 'stream'", (organization_id,))
    return found[0] if found else None


def _rows(where: str, values: Sequence[object]) -> list[Destination]:
    found = execute(_SELECT + where, values).fetchall()
    return [
        row._replace(
            kind=DestinationKind(row.kind),
            event_kinds=tuple(str(row.event_kinds).split()),
            network=Network(row.network),
            is_test_wanted=bool(row.is_test_wanted),
        )
        for row in map(Destination._make, found)
    ]


def _subject(row: Destination) -> Subject:
    return Subject("event_destination", row.no, row.name)


def _told(row: Destination) -> dict[str, object]:
    """For the audit, without the secret, and without the query of the URL, where some receivers have a secret."""
    kinds, url = list(row.event_kinds), row.url.partition("?")[0]
    facts = {"kind": row.kind, "url": url, "topic": row.topic, "events": kinds, "location_id": row.location_id}
    return given({**facts, "network": row.network})
