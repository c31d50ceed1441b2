"""Settings changed on a page or in the shell, stored in the database."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute


class ChangedSetting(NamedTuple):
    """`value` is written as after `--set`."""

    name: str
    value: str
    changed_at: int
    changed_by: str


def changed_settings() -> dict[str, ChangedSetting]:
    rows = execute("SELECT name, value, changed_at, changed_by FROM setting")
    return {row[0]: ChangedSetting(*row) for row in rows}


def change_setting(actor: Actor, name: str, value: str, before: str) -> None:
    """Store a validated value. `before` is the current value, for the audit."""
    with acting(actor) as act:
        execute(
            "INSERT INTO setting (name, value, changed_at, changed_by) VALUES (?, ?, ?, ?) ON CONFLICT (name) "
            "DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at, changed_by = excluded.changed_by",
            (name, value, clock.now(), actor.name),
        )
        act.note("setting.changed", Subject("setting", name, name), {"value": {"old": before, "new": value}})


def reset_setting(actor: Actor, name: str, after: str) -> None:
    """Delete a stored value. `after` is the value from settings file, environment or default, for the audit."""
    with acting(actor) as act:
        row = execute("DELETE FROM setting WHERE name = ? RETURNING value", (name,)).fetchone()
        if row:
            act.note("setting.reset", Subject("setting", name, name), {"value": {"old": row[0], "new": after}})
