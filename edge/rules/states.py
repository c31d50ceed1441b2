"""States of lasting conditions, and the alerts they raise. All functions run in the engine's transaction."""

from __future__ import annotations

from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute, insert
from edge.muster import musters
from edge.rules import alerts
from edge.rules.channels import outbox
from edge.rules.channels.outbox import Message
from edge.rules.conditions import ASSET, ASSET_AT, OF_NUMBER, Condition
from edge.rules.rule_assets import BELOW, MATCHES, count_present, values_of
from edge.rules.rules import Rule, numbers

MOST_STATES = 500_000  # of all organizations
LATE = 15 * 60 * clock.SECOND  # from the occurrence to the alert
MOST_FIRED = 1_000  # for each rule and round


class Occurrence(NamedTuple):
    """Something that raises an alert. Two with the same `cause` are the same."""

    cause: str
    subject_id: int
    subject_name: str
    subject_key: str
    at: int
    place_name: str = ""
    amount: int = 0
    over_at: int | None = None


class Held(NamedTuple):
    """A lasting condition without an alert. `amount` is the number of assets when it began."""

    subject_id: int
    since: int
    due_at: int
    amount: int


def fire(rule: Rule, one: Occurrence) -> int | None:
    """Store an alert and return its number; None if this occurrence has one."""
    place = one.place_name or rule.place_name
    columns = one._asdict() | {"place_name": place, "organization_id": rule.organization_id, "rule_no": rule.no}
    columns |= {"occurred_at": columns.pop("at"), "made_at": clock.now()}
    row = insert("alert", columns, "ON CONFLICT DO NOTHING RETURNING no").fetchone()
    if row is None:
        return None
    alerts.close_excess(rule.no)
    sentence = rule.declared.alert % {"subject": one.subject_name, "place": place, "amount": one.amount}
    if clock.now() - one.at <= LATE:  # what is known hours later is no emergency
        sentence = ". ".join([sentence, *_start_musters(rule, row[0])])
    asset_id = one.subject_id if is_of_asset(rule) else None
    _notify(rule, row[0], sentence, asset_id, one.at, is_over=False)
    return int(row[0])


def _start_musters(rule: Rule, alert_no: int) -> list[str]:
    """Start the musters of a rule. Returns why others did not start, which the alert says, too."""
    failed = []
    for plan_id in numbers(rule.fields.musters):
        if obstacle := musters.start_by_rule(rule.organization_id, plan_id, rule.name):
            failed.append((obstacle, musters.name_of_plan(rule.organization_id, plan_id)))
    if failed:
        lines = "\n".join(f"{obstacle} {name}" for obstacle, name in failed)
        execute("UPDATE alert SET not_started = ? WHERE no = ?", (lines, alert_no))
    return [alerts.NOT_STARTED[obstacle] % {"name": name} for obstacle, name in failed]


def _notify(rule: Rule, alert_no: int, sentence: str, asset_id: int | None, at: int, *, is_over: bool) -> None:
    now = clock.now()
    message = Message(
        *(f"{rule.name}: {sentence}", sentence, rule.no, alert_no, asset_id, at),
        is_over=is_over,
        is_late=now - at > LATE,
    )
    for number in numbers(rule.fields.channels):
        outbox.enqueue(rule.organization_id, number, message, now)


def _end(rule: Rule, where: str, values: tuple[int | str, ...], at: int) -> None:
    """Mark an open alert as over, and send the second message."""
    row = execute(
        f"UPDATE alert SET over_at = ? WHERE rule_no = ? AND over_at IS NULL AND {where} RETURNING no",
        (at, rule.no, *values),
    ).fetchone()
    if row and rule.fields.channels:
        alert = alerts.find_alert(rule.organization_id, row[0])
        asset_id = alert.subject_id if is_of_asset(rule) else None
        _notify(rule, alert.no, alert.sentence, asset_id, at, is_over=True)


def room() -> dict[int, int]:
    """Return how many more states each organization with rules may have. Counting 500,000 takes about 50 ms.

    Each has an equal share, so that the rules of one do not keep those of others from working.
    """
    rows = execute(
        "SELECT r.organization_id, sum((SELECT count(*) FROM rule_state s WHERE s.rule_no = r.no)) FROM rule r "
        "WHERE r.deleted_at IS NULL GROUP BY r.organization_id"
    ).fetchall()
    share = MOST_STATES // max(1, len(rows))
    return {organization_id: max(0, share - used) for organization_id, used in rows}


def hold(rule: Rule, subject_id: int, since: int, amount: int = 0) -> None:
    """Record that a condition begins. Does nothing if it lasts already."""
    execute(
        "INSERT INTO rule_state (rule_no, subject_id, since, due_at, is_due, amount) VALUES (?, ?, ?, ?, 1, ?) "
        "ON CONFLICT DO NOTHING",
        (rule.no, subject_id, since, since + rule.fields.span, amount),
    )


def release(rule: Rule, subject_id: int, at: int) -> Held | None:
    """Record that a condition ends. Returns it if it was due by then and has no alert yet."""
    row = execute(
        "DELETE FROM rule_state WHERE rule_no = ? AND subject_id = ? RETURNING since, due_at, amount, is_due, alert_no",
        (rule.no, subject_id),
    ).fetchone()
    if row is None:
        return None
    since, due_at, amount, is_due, alert_no = row
    if alert_no is not None:
        _end(rule, "no = ?", (alert_no,), at)
    return Held(subject_id, since, due_at, amount) if is_due and due_at <= _latest_due(rule, at) else None


def withdraw(rule: Rule, cause: str, at: int) -> None:
    """Mark the alert of an occurrence as over, if there is one."""
    _end(rule, "cause = ?", (cause,), at)


_SEEN = f"""
SELECT p.asset_id, p.last_seen_at, 0 FROM position p JOIN asset a ON a.id = p.asset_id
WHERE p.organization_id = :organization_id AND p.last_seen_at <= :before AND {MATCHES}
  AND NOT EXISTS (SELECT 1 FROM rule_state s WHERE s.rule_no = :rule_no AND s.subject_id = p.asset_id) LIMIT :limit
"""
_SEEN_AGAIN = """
SELECT s.subject_id, p.last_seen_at FROM rule_state s JOIN position p ON p.asset_id = s.subject_id
WHERE s.rule_no = :rule_no AND p.last_seen_at > :before LIMIT :limit
"""


_LOW = f"""
SELECT v.asset_id, v.battery_at, v.battery FROM asset_value v JOIN asset a ON a.id = v.asset_id
WHERE v.organization_id = :organization_id AND v.battery <= :number AND {MATCHES}
  AND NOT EXISTS (SELECT 1 FROM rule_state s WHERE s.rule_no = :rule_no AND s.subject_id = v.asset_id) LIMIT :limit
"""
_CHARGED = """
SELECT s.subject_id, ifnull(v.battery_at, :now) FROM rule_state s LEFT JOIN asset_value v ON v.asset_id = s.subject_id
WHERE s.rule_no = :rule_no AND (v.battery IS NULL OR v.battery >= :number + :margin) LIMIT :limit
"""
_FAULT = """
SELECT 0, since, 0 FROM box_fault WHERE NOT EXISTS (SELECT 1 FROM rule_state WHERE rule_no = :rule_no)
"""
_NO_FAULT = "SELECT subject_id, :now FROM rule_state WHERE rule_no = :rule_no AND NOT EXISTS (SELECT 1 FROM box_fault)"
CHARGED_MARGIN = 5  # percent above the limit


class Sweep(NamedTuple):
    """SQL for a condition without events: where it begins, with time and amount, and where it ends, with the time."""

    begun: str
    ended: str


SWEEPS = {
    Condition.UNSEEN: Sweep(_SEEN, _SEEN_AGAIN),
    Condition.BATTERY: Sweep(_LOW, _CHARGED),
    Condition.UNHEALTHY: Sweep(_FAULT, _NO_FAULT),
}


def is_of_asset(rule: Rule) -> bool:
    """Return True if the subject of the rule's alerts is an asset."""
    return rule.declared.subject in (ASSET, ASSET_AT)


def begun(rule: Rule, now: int, limit: int = MOST_FIRED) -> list[tuple[int, int, int]]:
    """Return the subjects for which the condition begins, with the time and the amount."""
    return execute(SWEEPS[rule.kind].begun, _bound(rule, now, limit)).fetchall()


def ended(rule: Rule, now: int) -> list[tuple[int, int]]:
    """Return the subjects for which the condition ends, with the time."""
    return execute(SWEEPS[rule.kind].ended, _bound(rule, now, MOST_FIRED)).fetchall()


def _bound(rule: Rule, now: int, limit: int) -> dict[str, Any]:
    more = {"rule_no": rule.no, "now": now, "before": now - rule.fields.span, "limit": limit, "margin": CHARGED_MARGIN}
    return values_of(rule) | more


def has_due(rule: Rule, now: int) -> bool:
    sql = "SELECT 1 FROM rule_state WHERE rule_no = ? AND is_due = 1 AND due_at <= ? LIMIT 1"
    return execute(sql, (rule.no, _latest_due(rule, now))).fetchone() is not None


def _latest_due(rule: Rule, at: int) -> int:
    """Return the latest `due_at` of a condition that is met at a time."""
    return at - 1 if rule.declared.is_longer else at


def due(rule: Rule, now: int) -> list[Held]:
    """Return the conditions that have lasted long enough for an alert."""
    rows = execute(
        "SELECT subject_id, since, due_at, amount FROM rule_state WHERE rule_no = ? AND is_due = 1 AND due_at <= ? "
        "ORDER BY due_at, subject_id LIMIT ?",
        (rule.no, _latest_due(rule, now), MOST_FIRED),
    )
    return [Held(*row) for row in rows]


def mark_fired(rule: Rule, subject_id: int, alert_no: int | None) -> None:
    execute(
        "UPDATE rule_state SET is_due = 0, alert_no = ? WHERE rule_no = ? AND subject_id = ?",
        (alert_no, rule.no, subject_id),
    )


_SEED_STAYS = f"""
{BELOW} INSERT INTO rule_state (rule_no, subject_id, since, due_at, is_due, amount)
SELECT :rule_no, p.asset_id, p.since, p.since + :span, p.since + :span >= :now, 0
FROM rule_asset p JOIN asset a ON a.id = p.asset_id
WHERE p.location_id IN (SELECT id FROM below) AND {MATCHES} LIMIT :limit
"""
_SEED_OFFLINE = """
INSERT INTO rule_state (rule_no, subject_id, since, due_at, is_due, amount)
SELECT :rule_no, r.id, :now, :now, 0, 0 FROM event_reader e JOIN reader r ON r.id = e.reader_id
WHERE e.is_offline = 1 AND r.organization_id = :organization_id AND (:reader_id IS NULL OR r.id = :reader_id)
"""


_SEED_SWEPT = """
INSERT INTO rule_state (rule_no, subject_id, since, due_at, is_due, amount)
WITH begun (subject_id, since, amount) AS ({})
SELECT :rule_no, subject_id, since, since + :span, 0, amount FROM begun
"""


def seed(rule: Rule, now: int) -> None:
    """Store the conditions that are already met, which raise no alert."""
    values: dict[str, Any] = {**values_of(rule), "rule_no": rule.no, "now": now}
    execute("DELETE FROM rule_state WHERE rule_no = ?", (rule.no,))
    if rule.kind is Condition.STAYS:
        execute(_SEED_STAYS, {**values, "limit": room()[rule.organization_id]})
    elif rule.kind is Condition.OFFLINE:
        execute(_SEED_OFFLINE, values)
    elif rule.kind in SWEEPS:
        sql = _SEED_SWEPT.format(SWEEPS[rule.kind].begun)
        execute(sql, _bound(rule, now, room()[rule.organization_id]))
    elif rule.kind in OF_NUMBER and is_beyond(rule, count_present(rule)):
        hold(rule, location_of(rule), now)
        mark_fired(rule, location_of(rule), None)
    execute("UPDATE rule SET is_seeded = 1 WHERE no = ?", (rule.no,))


def is_beyond(rule: Rule, number: int) -> bool:
    """Return True if a number of assets meets the condition."""
    limit = rule.fields.number
    return number > limit if rule.kind is Condition.MORE else number < limit


def location_of(rule: Rule) -> int:
    return rule.fields.location_id or 0
