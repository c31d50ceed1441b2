"""State of outputs: whether an open alert or a test has them switched on, and what the broker acknowledged.

An output has no queue of commands: its state follows from the alerts, so a crash at any point loses none.
"""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.clock import SECOND
from edge.database.connection import execute, writing
from edge.events.family import Destination
from edge.rules.outputs.forms import LONGEST_ON
from edge.rules.outputs.outputs import KIND

TEST_SECONDS = 3
LATE = 5 * 60 * SECOND  # from the occurrence to the alert: too late for a horn or a gate
CLOCK_STEP = 5 * SECOND  # an alert that is further in the future was made before the clock was set back
MOST_READ = 100  # newest alerts of each rule
MAX_ERROR = 300

_NEWEST = """
SELECT made_at, occurred_at FROM alert
WHERE rule_no = ? AND acknowledged_at IS NULL AND made_at > ? AND made_at <= ? AND no > ? ORDER BY made_at DESC LIMIT ?
"""


class LastCommand(NamedTuple):
    topic: str
    payload: str


def rules_of_outputs() -> dict[int, list[tuple[int, int]]]:
    """Return the enabled rules that switch each output, each with the alert after which it does."""
    switching: dict[int, list[tuple[int, int]]] = {}
    rows = execute(
        "SELECT no, after_alert, outputs FROM rule "
        "WHERE outputs != '' AND deleted_at IS NULL AND disabled_at IS NULL ORDER BY no"
    )
    for no, after_alert, numbers in rows:
        for number in numbers.split():
            switching.setdefault(int(number), []).append((no, after_alert))
    return switching


def on_until(row: Destination, rules: list[tuple[int, int]], now: int) -> int:
    """Return the time until which an output is switched on; at most `now` if it is off.

    Alerts from before the output or the rule was changed do not count.
    """
    if row.disabled_at is not None:
        return 0
    until = 0
    if row.tested_at is not None and row.tested_at <= now + CLOCK_STEP:
        until = row.tested_at + TEST_SECONDS * SECOND
    seconds = row.settings["seconds"]
    lasting = (seconds or LONGEST_ON) * SECOND
    for rule_no, after_alert in rules:
        values = (rule_no, now - lasting, now + CLOCK_STEP, max(row.position, after_alert), MOST_READ)
        for made_at, occurred_at in execute(_NEWEST, values):
            if seconds == 0 or made_at - occurred_at <= LATE:
                until = max(until, made_at + lasting)
                break
    return until


def record(key: int, now: int, *, is_on: bool) -> None:
    """Store that the broker has acknowledged a command."""
    with writing():
        execute(
            "UPDATE destination SET is_on = ?, last_success_at = ?, failing_since = NULL, last_error = NULL "
            "WHERE id = ?",
            (is_on, now, key),
        )


def record_failure(key: int, error: str, now: int) -> None:
    with writing():
        execute(
            "UPDATE destination SET failing_since = ifnull(failing_since, ?), last_error = ? WHERE id = ?",
            (now, error[:MAX_ERROR], key),
        )


def last_commands() -> list[LastCommand]:
    rows = execute("SELECT topic, payload FROM output_last_command ORDER BY made_at")
    return [LastCommand(*row) for row in rows]


def drop_last_command(one: LastCommand) -> None:
    """Delete a command that the broker has acknowledged, unless another one has replaced it."""
    with writing():
        execute("DELETE FROM output_last_command WHERE topic = ? AND payload = ?", one)


def drop_old_commands(now: int) -> None:
    """Delete commands that no broker has taken for a day."""
    if execute("SELECT 1 FROM output_last_command WHERE made_at < ?", (now - clock.DAY,)).fetchone():
        with writing():
            execute("DELETE FROM output_last_command WHERE made_at < ?", (now - clock.DAY,))


def is_needed() -> bool:
    """Return True if there is an output, or a last command to send."""
    return KIND.exists() or bool(last_commands())
