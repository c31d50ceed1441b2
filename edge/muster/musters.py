"""Musters: start, tick by hand, end. Who is safe follows from positions until the end, which stores the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor, service
from edge.audit.audit import Act, Subject, acting
from edge.clock import SECOND
from edge.database.connection import column, execute, execute_many, reading
from edge.database.deletes import delete_some
from edge.errors import Conflict, Invalid, NotFound
from edge.muster import plans, whereabouts
from edge.muster.plans import MOST_PEOPLE, Plan
from edge.muster.whereabouts import Person, Point
from edge.texts import N_
from edge.tracking import report

MOST_NOTE = 2_000  # characters
AHEAD = 10 * SECOND  # reads may be ahead of the clock by this much
FARTHEST = clock.HOUR  # the newest read is no clock if it is farther ahead


class Obstacle(StrEnum):
    """Why a muster cannot start."""

    OPEN = "open"
    DRILL = "drill"
    PEOPLE = "people"
    MANY = "many"
    POINTS = "points"
    REMOVED = "removed"


MESSAGES = {
    Obstacle.OPEN: N_("This muster is open already"),
    Obstacle.DRILL: N_("A drill of this muster is open. End it first"),
    Obstacle.PEOPLE: N_("This plan has no people. Check it, and which assets are people"),
    Obstacle.MANY: N_("This plan has too many people for a muster"),
    Obstacle.POINTS: N_("This plan has no muster point"),
}


class Muster(NamedTuple):
    """A muster. `people`: their number."""

    id: int
    organization_id: int
    plan_id: int | None
    name: str
    is_drill: bool
    started_at: int
    started_by: str
    ended_at: int | None
    ended_by: str | None
    note: str | None
    people: int

    @property
    def is_open(self) -> bool:
        return self.ended_at is None


class State(NamedTuple):
    """A muster with its people, now or as stored at its end. `points` is empty after the end, except for names."""

    one: Muster
    people: Sequence[Person]
    points: Sequence[Point]

    @property
    def missing(self) -> list[Person]:
        return [person for person in self.people if not person.is_safe]

    @property
    def safe(self) -> list[Person]:
        return [person for person in self.people if person.is_safe]

    @property
    def version(self) -> str:
        """A digest of who is missing, with which an end names what was on the screen."""
        return _digest(person.asset_id for person in self.missing)


def _digest(asset_ids: Iterable[int]) -> str:
    return blake2b(repr(sorted(asset_ids)).encode(), digest_size=12).hexdigest()


_MUSTERS = """
SELECT m.id, m.organization_id, m.plan_id, m.name, m.is_drill, m.started_at, m.started_by, m.ended_at, m.ended_by,
       m.note, (SELECT count(*) FROM muster_person WHERE muster_id = m.id)
FROM muster m WHERE m.organization_id = ?
"""


def open_musters(organization_id: int) -> list[Muster]:
    rows = execute(f"{_MUSTERS} AND m.ended_at IS NULL ORDER BY m.started_at, m.id", (organization_id,))
    return [_muster(row) for row in rows]


def ended_musters(organization_id: int, limit: int, before: int | None = None) -> list[Muster]:
    """Return ended musters, newest first."""
    sql = f"{_MUSTERS} AND m.ended_at < ? ORDER BY m.ended_at DESC, m.id DESC LIMIT ?"
    return [_muster(row) for row in execute(sql, (organization_id, before or 1 << 62, limit))]


def find_muster(organization_id: int, muster_id: int) -> Muster:
    """Return a muster. Raises NotFound."""
    row = execute(f"{_MUSTERS} AND m.id = ?", (organization_id, muster_id)).fetchone()
    if row is None:
        raise NotFound("no such muster")
    return _muster(row)


def _muster(row: tuple[object, ...]) -> Muster:
    one = Muster._make(row)
    return one._replace(is_drill=bool(one.is_drill))


def find_state(organization_id: int, muster_id: int) -> State:
    """Return a muster with its people. Raises NotFound."""
    with reading():
        one = find_muster(organization_id, muster_id)
        places = execute(
            "SELECT location_id, name FROM muster_point WHERE muster_id = ? ORDER BY name, location_id", (muster_id,)
        ).fetchall()
        if not one.is_open:
            return State(one, _stored(muster_id), [Point(number, name, ()) for number, name in places])
        points = whereabouts.points_at(organization_id, places)
        connected = set(column("SELECT reader_id FROM muster_reader WHERE muster_id = ?", (muster_id,)))
        return State(one, whereabouts.people_now(muster_id, one.started_at, points, connected), points)


def find_person(organization_id: int, muster_id: int, asset_id: int) -> Person:
    """Return a person of a muster. Raises NotFound."""
    state = find_state(organization_id, muster_id)
    person = next((one for one in state.people if one.asset_id == asset_id), None)
    if person is None:
        raise NotFound("no such person")
    return person


def _stored(muster_id: int) -> list[Person]:
    rows = execute(
        "SELECT asset_id, asset_key, name, ifnull(result, 'missing'), ifnull(how, ''), ifnull(place, ''), seen_at, "
        "ticked_by, ticked_at FROM muster_person WHERE muster_id = ? ORDER BY name, asset_id",
        (muster_id,),
    )
    return [Person(*row) for row in rows]


def start(actor: Actor, plan_id: int, *, is_drill: bool) -> int:
    """Start a muster and return its id. Raises NotFound, and Conflict if one is open or nobody is chosen."""
    with acting(actor) as act:
        plan = plans.find_plan(actor.organization_id, plan_id)
        people = plans.people_of(plan)
        if obstacle := _obstacle(plan, len(people)):
            raise Conflict(MESSAGES[obstacle])
        return _start(act, plan, people, actor.name or actor.kind, is_drill=is_drill)


def start_by_rule(organization_id: int, plan_id: int, rule_name: str) -> Obstacle | None:
    """Start the muster of a plan, in the caller's transaction. Returns why it cannot start, or None."""
    obstacle = find_obstacle(organization_id, plan_id)
    if obstacle is None:
        start(service(organization_id)._replace(name=rule_name), plan_id, is_drill=False)
    return obstacle


def find_obstacle(organization_id: int, plan_id: int) -> Obstacle | None:
    """Return why the muster of a plan cannot start now, or None."""
    try:
        plan = plans.find_plan(organization_id, plan_id)
    except NotFound:
        return Obstacle.REMOVED
    return _obstacle(plan, len(plans.people_of(plan)))


def name_of_plan(organization_id: int, plan_id: int) -> str:
    """Return the name of a plan, "" if it was deleted."""
    row = execute(
        "SELECT name FROM muster_plan WHERE id = ? AND organization_id = ?", (plan_id, organization_id)
    ).fetchone()
    return row[0] if row else ""


def _obstacle(plan: Plan, people: int) -> Obstacle | None:
    if plan.open_muster_id is not None:
        is_drill = find_muster(plan.organization_id, plan.open_muster_id).is_drill
        return Obstacle.DRILL if is_drill else Obstacle.OPEN
    if not people:
        return Obstacle.PEOPLE
    if people > MOST_PEOPLE:
        return Obstacle.MANY
    return None if plan.points else Obstacle.POINTS


def _start(act: Act, plan: Plan, people: Sequence[tuple[int, str, str]], by: str, *, is_drill: bool) -> int:
    now = clock.now()
    newest = report.newest_scan()
    # If reads are ahead of the clock, it is behind: those that are known already must not count as later ones.
    started_at = newest if now + AHEAD < newest <= now + FARTHEST else now
    muster_id: int = execute(
        "INSERT INTO muster (organization_id, plan_id, name, is_drill, started_at, started_by) "
        "VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
        (plan.organization_id, plan.id, plan.name, is_drill, started_at, by),
    ).fetchone()[0]
    points = whereabouts.points_at(plan.organization_id, plan.points)
    execute_many(
        "INSERT INTO muster_point (muster_id, location_id, name) VALUES (?, ?, ?)",
        [(muster_id, point.location_id, point.name) for point in points],
    )
    execute_many(
        "INSERT INTO muster_reader (muster_id, reader_id) VALUES (?, ?)",
        [(muster_id, reader_id) for reader_id in whereabouts.connected_readers(points, now)],
    )
    known = report.current_positions([asset_id for asset_id, _, _ in people])
    execute_many(
        "INSERT INTO muster_person (muster_id, asset_id, asset_key, name, seen_before) VALUES (?, ?, ?, ?, ?)",
        [
            (muster_id, asset_id, key, name, known[asset_id].last_seen_at if asset_id in known else 0)
            for asset_id, key, name in people
        ],
    )
    quotas.charge(act.actor, quotas.LINE_BYTES * len(people), is_scan=True)
    quotas.check_cap(act.actor, "muster")
    detail = {"people": len(people), "drill": is_drill}
    act.note("muster.started", Subject("muster", muster_id, plan.name), detail)
    return muster_id


def tick(actor: Actor, muster_id: int, asset_id: int) -> None:
    """Mark a person as safe by hand. Twice is once. Raises NotFound, and Conflict after the end."""
    _set_tick(actor, muster_id, asset_id, is_ticked=True)


def untick(actor: Actor, muster_id: int, asset_id: int) -> None:
    """Take a tick back. Raises NotFound, and Conflict after the end."""
    _set_tick(actor, muster_id, asset_id, is_ticked=False)


def _set_tick(actor: Actor, muster_id: int, asset_id: int, *, is_ticked: bool) -> None:
    with acting(actor) as act:
        one = find_muster(actor.organization_id, muster_id)
        if not one.is_open:
            raise Conflict(N_("This muster has ended"))
        values = (clock.now(), actor.name) if is_ticked else (None, None)
        row = execute(
            "UPDATE muster_person SET ticked_at = ?, ticked_by = ? WHERE muster_id = ? AND asset_id = ? "
            "AND (ticked_at IS NULL) = ? RETURNING name",
            (*values, muster_id, asset_id, is_ticked),
        ).fetchone()
        if row:
            action = "muster.ticked" if is_ticked else "muster.unticked"
            act.note(action, Subject("muster", muster_id, one.name), {"person": row[0]})
        elif not execute(
            "SELECT 1 FROM muster_person WHERE muster_id = ? AND asset_id = ?", (muster_id, asset_id)
        ).fetchone():
            raise NotFound("no such person")


def end(actor: Actor, muster_id: int, version: str, note: str) -> None:
    """Store the result. Raises NotFound, Invalid, and Conflict if others are missing than the person saw.

    Nobody missing is no conflict.
    """
    note = note.strip()
    if len(note) > MOST_NOTE:
        raise Invalid.one("note", "too_long", f"Enter at most {MOST_NOTE:,} characters")
    with acting(actor) as act:
        state = find_state(actor.organization_id, muster_id)
        if not state.one.is_open:
            raise Conflict(N_("This muster has ended already"))
        if state.version != version and state.missing:
            raise Conflict(N_("Other people are missing now. Check the list again"))
        execute_many(
            "UPDATE muster_person SET result = ?, how = ?, place = ?, seen_at = ? WHERE muster_id = ? AND asset_id = ?",
            [(one.result, one.how, one.place, one.seen_at, muster_id, one.asset_id) for one in state.people],
        )
        execute(
            "UPDATE muster SET ended_at = ?, ended_by = ?, note = ? WHERE id = ?",
            (clock.now(), actor.name or actor.kind, note or None, muster_id),
        )
        counts = {"safe": len(state.safe), "missing": len(state.missing)}
        act.note("muster.ended", Subject("muster", muster_id, state.one.name), counts)


def drop_old(organization_id: int, before: int) -> int:
    """Delete the oldest muster that ended, or was started and never ended, before a time. Returns 1 or 0."""
    old = "organization_id = ? AND ifnull(ended_at, started_at) < ? ORDER BY id"
    return delete_some("muster", "id", old, (organization_id, before), 1)
