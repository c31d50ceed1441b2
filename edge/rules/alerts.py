"""Alerts of rules: search, acknowledgement and retention. The engine writes them."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, find_scalar, scalar
from edge.database.deletes import delete_some
from edge.errors import Conflict, Invalid, NotFound
from edge.muster.musters import Obstacle
from edge.rules.conditions import CONDITIONS, Condition
from edge.texts import N_, fill
from edge.tracking.shown_positions import is_asset_shown

MOST_KEPT = 50_000
MOST_OPEN = 1_000  # of one rule: 50 rules fill at most `MOST_KEPT`, so none displaces open alerts of another one
MOST_AT_ONCE = 5_000  # acknowledged in one transaction of some 50 ms
MOST_NOTE = 500  # characters

# Why the muster of a rule did not start.
NOT_STARTED = {
    Obstacle.OPEN: N_("The muster %(name)s was not started: it is still open from before"),
    Obstacle.DRILL: N_("The muster %(name)s was not started: its drill is still open"),
    Obstacle.PEOPLE: N_("The muster %(name)s was not started: its plan has no people"),
    Obstacle.MANY: N_("The muster %(name)s was not started: its plan has too many people"),
    Obstacle.POINTS: N_("The muster %(name)s was not started: its plan has no muster point"),
    Obstacle.REMOVED: N_("A muster was not started: its plan was deleted"),
}


class Alert(NamedTuple):
    """An alert. `subject_id` is an asset, a location for MORE and FEWER, a reader for OFFLINE, or 0 for UNHEALTHY."""

    no: int
    rule_no: int
    rule_name: str
    kind: Condition
    subject_id: int
    subject_name: str
    subject_key: str
    place_name: str
    amount: int
    occurred_at: int
    made_at: int
    over_at: int | None
    acknowledged_at: int | None
    acknowledged_by: str | None
    note: str | None
    not_started: str

    @property
    def obstacles(self) -> list[tuple[Obstacle, str]]:
        """Musters that did not start: the reason, and the name of the plan."""
        pairs = (line.partition(" ") for line in self.not_started.splitlines())
        return [(Obstacle(reason), name) for reason, _, name in pairs]

    @property
    def values(self) -> dict[str, str | int]:
        """Values for the text of the condition."""
        return {"subject": self.subject_name, "place": self.place_name, "amount": self.amount}

    @property
    def sentence(self) -> str:
        return CONDITIONS[self.kind].alert % self.values


class AlertFilter(NamedTuple):
    q: str = ""
    is_open: bool = True  # False: acknowledged ones, too
    rule_no: int | None = None


_FROM = f"""
FROM alert a JOIN rule r ON r.no = a.rule_no WHERE a.organization_id = :organization_id
  AND {is_asset_shown("a.subject_id")}
"""
_SELECT = f"""
SELECT {
    ", ".join(
        "r.name" if name == "rule_name" else "r.kind" if name == "kind" else f"a.{name}" for name in Alert._fields
    )
}
{_FROM}
"""
_OPEN = "a.acknowledged_at IS NULL"


def list_alerts(organization_id: int, query: AlertFilter, limit: int, before: int | None = None) -> list[Alert]:
    """Return alerts, newest first. `before` is the number of the last one of the page before."""
    where = _conditions(query) if before is None else f"{_conditions(query)} AND a.no < :before"
    rows = execute(
        f"{_SELECT} AND {where} ORDER BY a.no DESC LIMIT :limit",
        {**query._asdict(), "organization_id": organization_id, "limit": limit, "before": before},
    )
    return [_alert(row) for row in rows]


def count_alerts(organization_id: int, query: AlertFilter) -> int:
    """Return the number of alerts that `list_alerts` lists on all pages."""
    return scalar(
        f"SELECT count(*) {_FROM} AND {_conditions(query)}", {**query._asdict(), "organization_id": organization_id}
    )


def _conditions(query: AlertFilter) -> str:
    conditions = [_OPEN if query.is_open else "1"]
    if query.q:
        fields = ("a.subject_name", "a.subject_key", "a.place_name", "r.name", "ifnull(a.note, '')")
        conditions.append("(" + " OR ".join(f"instr(casefold({field}), casefold(:q))" for field in fields) + ")")
    if query.rule_no is not None:
        conditions.append("a.rule_no = :rule_no")
    return " AND ".join(conditions)


def find_alert(organization_id: int, no: int) -> Alert:
    """Return an alert. Raises NotFound."""
    row = execute(f"{_SELECT} AND a.no = :no", {"organization_id": organization_id, "no": no}).fetchone()
    if row is None:
        raise NotFound("no such alert")
    return _alert(row)


def _alert(row: tuple[object, ...]) -> Alert:
    alert = Alert._make(row)
    return alert._replace(kind=Condition(alert.kind))


def acknowledge(actor: Actor, no: int, note: str) -> None:
    """Acknowledge an alert with a note. Raises NotFound, Invalid, and Conflict if it is acknowledged."""
    note = _checked(note)
    with acting(actor) as act:
        alert = find_alert(actor.organization_id, no)
        if alert.acknowledged_at is not None:
            raise Conflict(fill(N_("%(name)s has already acknowledged this alert"), name=alert.acknowledged_by))
        execute(
            "UPDATE alert SET acknowledged_at = ?, acknowledged_by = ?, note = ? WHERE no = ?",
            (clock.now(), actor.name, note or None, no),
        )
        act.note("alert.acknowledged", Subject("alert", no, alert.sentence), {"note": note} if note else {})


def acknowledge_all(actor: Actor, query: AlertFilter, newest_no: int, note: str) -> int:
    """Acknowledge the open alerts of a list with one note, the newest `MOST_AT_ONCE` first. Returns their number.

    `newest_no` is the newest alert on the page: later ones, which the person has not seen, stay open. Raises Invalid,
    and Conflict if none is left.
    """
    note = _checked(note)
    query = query._replace(is_open=True)
    given = {
        "organization_id": actor.organization_id,
        "newest_no": newest_no,
        "limit": MOST_AT_ONCE,
        "now": clock.now(),
        "by": actor.name,
        "note": note or None,
    }
    with acting(actor) as act:
        number = execute(
            "UPDATE alert SET acknowledged_at = :now, acknowledged_by = :by, note = :note WHERE no IN "
            f"(SELECT a.no {_FROM} AND {_conditions(query)} AND a.no <= :newest_no ORDER BY a.no DESC LIMIT :limit)",
            query._asdict() | given,
        ).rowcount
        if not number:
            raise Conflict(N_("These alerts have already been acknowledged"))
        detail = {"search": query.q, "rule": query.rule_no, "note": note}
        act.note(
            "alert.acknowledged_all",
            Subject("alert", newest_no, f"{number} alerts"),
            {name: value for name, value in detail.items() if value},
        )
    return number


def _checked(note: str) -> str:
    note = note.strip()
    if len(note) > MOST_NOTE:
        raise Invalid.one("note", "too_long", fill(N_("Enter at most %(most)s characters"), most=MOST_NOTE))
    return note


def close_excess(rule_no: int) -> None:
    """Acknowledge the oldest alerts of a rule above `MOST_OPEN` in the name of the service."""
    execute(
        "UPDATE alert SET acknowledged_at = ?, acknowledged_by = 'edge', note = ? WHERE no IN (SELECT no FROM alert "
        "WHERE rule_no = ? AND acknowledged_at IS NULL ORDER BY made_at DESC, no DESC LIMIT -1 OFFSET ?)",
        (clock.now(), f"More than {MOST_OPEN} open alerts of this rule", rule_no, MOST_OPEN),
    )


def newest() -> int | None:
    """Return the time of the newest alert."""
    return find_scalar("SELECT max(made_at) FROM alert")


def drop_old(before: int, limit: int = 500) -> int:
    """Delete alerts made before a time (µs). Returns their number."""
    return delete_some("alert", "no", "made_at < ? ORDER BY made_at", (before,), limit)


def drop_over(keep: int = MOST_KEPT, limit: int = 500) -> int:
    """Delete alerts above a number, acknowledged ones first. Returns their number.

    The organization with the most loses its own, so that none displaces those of others.
    """
    counts = execute("SELECT organization_id, count(*) FROM alert GROUP BY organization_id").fetchall()
    excess = sum(number for _, number in counts) - keep
    if excess <= 0:
        return 0
    crowded, _ = max(counts, key=itemgetter(1))
    own = "organization_id = ? ORDER BY acknowledged_at IS NULL, no"
    return delete_some("alert", "no", own, (crowded,), min(excess, limit))
