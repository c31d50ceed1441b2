"""Expected lists: create, start, sign off, delete.

A list is prepared until an operator starts it. From then on passages and scans tick its items off. At sign-off the
result is stored and does not change again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import column, execute, execute_many, reading
from edge.doors import doors
from edge.doors.passage_rule import Direction
from edge.errors import Conflict, FieldError, Invalid, NotFound
from edge.expected_lists.ticks import COUNTED_FOR, RESULTS, Line, Place, lines_of, version_of
from edge.records import locations, lookup
from edge.texts import N_, Count, fill, shortened
from edge.tracking import carriers, tracked_people
from edge.validation import values

MOST_ITEMS = 5_000  # in a list
MOST_FAULTS = 20  # codes that an error names


class ExpectedList(NamedTuple):
    """A list. `place` is the name of its door or location, `items` the number of expected assets."""

    id: int
    organization_id: int
    name: str
    door_id: int | None
    direction: int | None
    location_id: int | None  # for a door: the location of the door
    place: str
    created_at: int
    created_by: str | None
    started_at: int | None
    signed_at: int | None
    signed_by: str | None
    items: int

    @property
    def is_open(self) -> bool:
        return self.started_at is not None and self.signed_at is None

    @property
    def counts_until(self) -> int | None:
        return None if self.started_at is None else self.started_at + COUNTED_FOR


class State(NamedTuple):
    """A list with its lines: current ones, or those that were signed off. `more`: number of surplus without a line."""

    one: ExpectedList
    lines: Sequence[Line]
    more: int = 0

    @property
    def version(self) -> str:
        return version_of(self.lines, self.more)

    def of(self, result: str) -> list[Line]:
        return [line for line in self.lines if line.result == result]

    def count(self, result: str) -> int:
        return sum(line.result == result for line in self.lines) + (self.more if result == "surplus" else 0)

    @property
    def expected(self) -> int:
        return self.count("ticked") + self.count("missing")


def create(
    actor: Actor,
    name: str,
    codes: Sequence[str],
    *,
    door_id: int | None = None,
    direction: Direction | None = None,
    location_id: int | None = None,
    with_contents: bool = False,
    file_lines: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """Create a list from external keys or tags and return its id. Repeated codes count once.

    `with_contents` adds the assets that these carry. `file_lines`: the lines of codes that are from a file.

    Raises Invalid, which names unknown codes, NotFound and Conflict.
    """
    name = values.name("name", name)
    asset_ids = _assets(
        actor.organization_id, codes, file_lines, with_contents=with_contents
    )  # before the lock: up to 1 s
    with acting(actor) as act:
        _check_place(actor.organization_id, door_id, direction, location_id)
        list_id: int = execute(
            "INSERT INTO expected_list (organization_id, name, door_id, direction, location_id, created_at, "
            "created_by) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (actor.organization_id, name, door_id, direction, location_id, clock.now(), actor.person_id),
        ).fetchone()[0]
        execute_many(
            "INSERT INTO expected_item (list_id, asset_id) VALUES (?, ?)", [(list_id, one) for one in asset_ids]
        )
        quotas.charge(actor, quotas.LINE_BYTES * len(asset_ids))
        quotas.check_cap(actor, "open expected_list")
        act.note("expected_list.created", Subject("expected_list", list_id, name), {"items": len(asset_ids)})
    return list_id


def start(actor: Actor, list_id: int, at: int | None = None) -> None:
    """Start a list, now or at an earlier time. Raises NotFound, and Conflict if another one is open at the same place.

    A handheld without a connection starts a list earlier than the request arrives: its scans since then count.
    """
    with acting(actor) as act:
        one = find_list(actor.organization_id, list_id)
        if one.started_at is not None:
            raise Conflict(N_("this list has been started already"))
        other = execute(
            "SELECT name FROM expected_list WHERE organization_id = ? AND started_at IS NOT NULL AND signed_at IS NULL "
            "AND (door_id = ? AND direction = ? OR door_id IS NULL AND ? IS NULL AND location_id = ?)",
            (one.organization_id, one.door_id, one.direction, one.door_id, one.location_id),
        ).fetchone()
        if other:
            raise Conflict(fill(N_("%(list)s is open at %(place)s. Sign it off first"), list=other[0], place=one.place))
        now = clock.now()
        started_at = now if at is None else max(one.created_at, min(at, now))
        execute("UPDATE expected_list SET started_at = ? WHERE id = ?", (started_at, list_id))
        act.note("expected_list.started", Subject("expected_list", list_id, one.name))


def sign_off(actor: Actor, list_id: int, version: str, device: str = "") -> None:
    """Store the result that the person saw. Raises NotFound, and Conflict if it has changed since.

    The last reports of other devices than `device`, with which it is signed off, stay with it.
    """
    with acting(actor) as act:
        state = find_state(actor.organization_id, list_id)
        if state.one.started_at is None:
            raise Conflict(N_("this list has not been started"))
        if state.one.signed_at is not None:
            raise Conflict(N_("this list has been signed off already"))
        if state.version != version:
            raise Conflict(N_("the list changed while you looked at it. Check it again"))
        quotas.charge(actor, quotas.LINE_BYTES * len(state.lines), is_scan=True)
        execute_many(
            "INSERT INTO expected_line (list_id, no, result, asset_id, asset_key, name, how, seen_at, other) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(list_id, no, *line) for no, line in enumerate(state.lines)],
        )
        execute("DELETE FROM expected_item WHERE list_id = ?", (list_id,))
        execute("DELETE FROM expected_list_device WHERE list_id = ? AND device = ?", (list_id, device))
        execute(
            "UPDATE expected_list SET signed_at = ?, signed_by = ? WHERE id = ?",
            (clock.now(), actor.person_id, list_id),
        )
        counts = {result: state.count(result) for result in RESULTS}
        act.note("expected_list.signed_off", Subject("expected_list", list_id, state.one.name), counts)


def remove(actor: Actor, list_id: int) -> None:
    """Delete a list that is not signed off. Raises NotFound and Conflict."""
    with acting(actor) as act:
        one = find_list(actor.organization_id, list_id)
        if one.signed_at is not None:
            raise Conflict(N_("a signed list cannot be deleted"))
        execute("DELETE FROM expected_item WHERE list_id = ?", (list_id,))
        execute("DELETE FROM expected_list WHERE id = ?", (list_id,))
        act.note("expected_list.deleted", Subject("expected_list", list_id, one.name), {"items": one.items})


# Reading ------------------------------------------------------------------------------------------------------

_LISTS = """
SELECT one.id, one.organization_id, one.name, one.door_id, one.direction, ifnull(one.location_id, door.location_id),
       ifnull(door.name, location.name), one.created_at, creator.name, one.started_at, one.signed_at, signer.name,
       CASE WHEN one.signed_at IS NULL THEN (SELECT count(*) FROM expected_item WHERE list_id = one.id)
       ELSE (SELECT count(*) FROM expected_line WHERE list_id = one.id AND result IN ('ticked', 'missing')) END
FROM expected_list one
LEFT JOIN door ON door.id = one.door_id LEFT JOIN location ON location.id = one.location_id
LEFT JOIN person creator ON creator.id = one.created_by LEFT JOIN person signer ON signer.id = one.signed_by
WHERE one.organization_id = ?
"""


def open_lists(organization_id: int) -> list[ExpectedList]:
    """Return the lists that are not signed off, open ones first, then prepared ones, newest first."""
    sql = f"{_LISTS} AND one.signed_at IS NULL ORDER BY one.started_at IS NULL, one.created_at DESC, one.id DESC"
    return [ExpectedList(*row) for row in execute(sql, (organization_id,))]


def signed_lists(organization_id: int, limit: int, before: int | None = None) -> list[ExpectedList]:
    """Return signed lists, newest first."""
    sql = f"{_LISTS} AND one.signed_at < ? ORDER BY one.signed_at DESC, one.id DESC LIMIT ?"
    return [ExpectedList(*row) for row in execute(sql, (organization_id, before or 1 << 62, limit))]


def find_list(organization_id: int, list_id: int) -> ExpectedList:
    """Return a list. Raises NotFound."""
    row = execute(f"{_LISTS} AND one.id = ?", (organization_id, list_id)).fetchone()
    if row is None:
        raise NotFound("no such list")
    return ExpectedList(*row)


def find_state(organization_id: int, list_id: int) -> State:
    """Return a list with its lines. Raises NotFound."""
    with reading():
        return _state(find_list(organization_id, list_id))


def states_at_door(organization_id: int, door_id: int) -> list[State]:
    """Return the open lists of a door, at most one for each direction."""
    sql = (
        f"{_LISTS} AND one.door_id = ? AND one.started_at IS NOT NULL AND one.signed_at IS NULL ORDER BY one.direction"
    )
    with reading():
        return [_state(ExpectedList(*row)) for row in execute(sql, (organization_id, door_id)).fetchall()]


def _state(one: ExpectedList) -> State:
    if one.signed_at is not None:
        rows = execute(
            "SELECT result, asset_id, asset_key, name, how, seen_at, other FROM expected_line WHERE list_id = ? "
            "ORDER BY no",
            (one.id,),
        )
        return State(one, [Line(*row) for row in rows])
    items = column("SELECT asset_id FROM expected_item WHERE list_id = ?", (one.id,))
    place = None
    if one.started_at is not None:
        place = Place(one.id, one.organization_id, one.door_id, one.direction, one.location_id, one.started_at)
    return State(one, *lines_of(place, items, one.organization_id))


def _check_place(
    organization_id: int, door_id: int | None, direction: Direction | None, location_id: int | None
) -> None:
    if (door_id is None) == (location_id is None) or (door_id is None) != (direction is None):
        raise Invalid.one("place", "invalid_value", N_("Choose a door or a location"))
    if direction not in (None, Direction.IN, Direction.OUT):
        raise Invalid.one("place", "invalid_value", N_("Choose in or out"))
    try:
        if door_id is not None:
            door = doors.find_door(organization_id, door_id)
            if door.site is not None:
                raise Conflict(fill(N_("this door belongs to %(site)s. Create the list there"), site=door.site))
        if location_id is not None:
            locations.get(organization_id, location_id)
    except NotFound as error:
        raise Invalid.one("place", "fk_not_found", N_("This place does not exist")) from error


def _assets(
    organization_id: int, codes: Sequence[str], file_lines: Mapping[str, int], *, with_contents: bool
) -> list[int]:
    """Return the assets of codes. Raises Invalid."""
    codes = [code.strip() for code in codes if code.strip()]
    if not codes:
        raise Invalid.one("codes", "required", N_("Enter at least one asset key or tag"))
    if len(codes) > MOST_ITEMS:
        raise _too_many()
    assets: dict[int, None] = {}
    unknown = []
    for code in dict.fromkeys(codes):
        record = lookup.by_code(organization_id, code) if len(code) <= values.MAX_TEXT else None
        if record is None or record.kind != "asset" or tracked_people.among([record.id]):
            unknown.append(code)
            continue
        assets[record.id] = None
        if with_contents:
            on_it = [asset_id for asset_id, _ in carriers.on(organization_id, record.id)]
            people = tracked_people.among(on_it)
            assets.update((asset_id, None) for asset_id in on_it if asset_id not in people)
    if unknown:
        raise Invalid(list(_unknown(unknown, file_lines)))
    if len(assets) > MOST_ITEMS:
        raise _too_many()
    return list(assets)


def _unknown(codes: Sequence[str], file_lines: Mapping[str, int]) -> Iterator[FieldError]:
    typed = [code[: values.MAX_NAME] for code in codes if code not in file_lines]
    of_file = [f"{file_lines[code]}: {code[: values.MAX_NAME]}" for code in codes if code in file_lines]
    for field, names, text in (
        ("codes", typed, N_("No asset has the key or tag %(codes)s")),
        ("file", of_file, N_("No asset has the key or tag in these lines. %(codes)s")),
    ):
        if names:
            yield FieldError(field, "fk_not_found", fill(text, codes=shortened(names, MOST_FAULTS)), None)


def _too_many() -> Invalid:
    message = fill(N_("A list can have at most %(number)s items"), number=Count(MOST_ITEMS))
    return Invalid.one("codes", "too_large", message)
