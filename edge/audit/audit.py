"""Audited writes. Each leaves an entry in the audit trail: actor, time, action, record and changes.

`acting` is the only way to write master data, readers, people, keys, devices and sessions. It opens the transaction and
refuses to commit a write without an audit entry. New records count toward the actor's quota.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.database.connection import database, execute, execute_many, writing
from edge.database.group_commit import write_in_group
from edge.validation import json_text

Result = TypeVar("Result")

MOST_REPEATS = 50  # entries of one actor about one action on one record within an hour; further ones are merged
MOST_EARLIER = 10  # different details that a merged entry keeps besides the newest
MAX_VALUE_CHARS = 1000  # characters; longer values are cut, since metadata may be 64 KiB

INSERT_ENTRY = (
    "INSERT INTO audit (organization_id, at, actor_kind, actor_id, actor_name, device_name, action, subject_kind, "
    "subject_id, subject_name, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_REPEATS = (
    "SELECT count(*), max(no) FROM audit WHERE subject_id = ? AND subject_kind = ? AND at > ? AND action = ? "
    "AND actor_kind = ? AND actor_id IS ? AND organization_id IS ? "
    "AND (?8 IS NULL OR json_remove(detail, '$.attempts') = ?8)"
)
_CREATING_ACTIONS = ("created", "attached")
# Toggled without a trace elsewhere in the record. Other repeats are not merged: each has the value before it.
_SESSION_ACTIONS = {"person.signed_in", "person.signed_out"}
_TOGGLING_ACTIONS = {"asset.marked_lost", "asset.unmarked_lost", "asset.lent", "asset.returned", *_SESSION_ACTIONS}

_thread = threading.local()


class Subject(NamedTuple):
    """The record acted on, with its name at the time."""

    kind: str
    id: int | str
    name: str


class Entry(NamedTuple):
    """An audit entry without its actor; see `Act.note`."""

    action: str
    subject: Subject
    detail: Mapping[str, Any]


class Act:
    """A write in progress by one actor, inside its open transaction."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.organization_id = actor.organization_id

    def note(
        self, action: str, subject: Subject, detail: Mapping[str, Any] | None = None, *, is_toggle: bool = False
    ) -> None:
        """Record an action such as `asset.created` (`kind.participle`). After many toggles, count them instead.

        `detail` must not contain a secret or its hash. `is_toggle`: a change that its author may repeat for ever.
        """
        entry, is_toggle = Entry(action, subject, detail or {}), is_toggle or action in _TOGGLING_ACTIONS
        if not (is_toggle and self.actor.kind in quotas.LIMITED and self._merge(entry, MOST_REPEATS)):
            self.note_all([entry])

    def note_all(self, entries: Iterable[Entry]) -> None:
        """Record several actions with one statement. Raises OverQuota, Conflict."""
        added_bytes = changed_bytes = 0
        created: Counter[str] = Counter()

        def rows() -> Iterator[tuple[Any, ...]]:
            nonlocal added_bytes, changed_bytes
            for entry in entries:
                row = self.row(entry)
                kind, _, participle = entry.action.partition(".")
                if participle in _CREATING_ACTIONS:
                    added_bytes += quotas.ROW_BYTES + len(row[-1])
                elif entry.action not in _SESSION_ACTIONS:  # an organization without quota can still sign in
                    changed_bytes += quotas.ENTRY_BYTES + len(row[-1])
                if participle in (*_CREATING_ACTIONS, "restored"):
                    created[kind] += 1
                yield row

        execute_many(INSERT_ENTRY, rows())
        _thread.notes = _notes() + 1
        quotas.charge(self.actor, added_bytes)
        quotas.charge_changes(self.actor, changed_bytes)
        for kind, number in created.items():
            quotas.check_cap(self.actor, kind, added=number)

    def row(self, entry: Entry) -> tuple[Any, ...]:
        """Return the values of `INSERT_ENTRY`."""
        actor, subject, detail = self.actor, entry.subject, dict(entry.detail)
        if actor.sender_id:
            detail["done_by"] = actor.name
        return (
            *(actor.organization_id or None, clock.now()),
            *(actor.kind, actor.sender_id or actor.id or None, actor.sender_name or actor.name),
            *(actor.device_name or None, entry.action),
            *(subject.kind, str(subject.id), subject.name, json_text.text(shortened(detail))),
        )

    def note_changes(
        self, action: str, subject: Subject, differences: Mapping[str, Any], *, is_toggle: bool = False
    ) -> None:
        """Record changed fields, if any.

        Without changes no entry is written, so clients that resend the same values do not fill the trail.
        """
        if differences:
            self.note(action, subject, differences, is_toggle=is_toggle)
        else:
            _thread.notes = _notes() + 1

    def count(self, action: str, subject: Subject, detail: Mapping[str, Any]) -> None:
        """Like `note`, but merges repeated events within one hour into one entry with an `attempts` counter.

        Details that differ from the newest are kept in `earlier`, up to `MOST_EARLIER`.
        """
        if not self._merge(Entry(action, subject, detail), 1, is_same=False):
            self.note_all([Entry(action, subject, {**detail, "attempts": 1})])

    def _merge(self, entry: Entry, most: int, *, is_same: bool = True) -> bool:
        """Count a repeat in the newest entry of this actor if the last hour has `most` of them. Raises OverQuota.

        `is_same`: only entries with this detail count, so none takes the place of another.
        """
        organization, at, kind, actor_id, _, _, action, *subject, _, detail = self.row(entry)
        same = (*reversed(subject), at - clock.HOUR, action, kind, actor_id, organization, detail if is_same else None)
        number, no = execute(_REPEATS, same).fetchone()
        if number < most:
            return False
        newest = json_text.decode(execute("SELECT detail FROM audit WHERE no = ?", (no,)).fetchone()[0])
        attempts, earlier = newest.pop("attempts", 1), newest.pop("earlier", [])
        if newest != json_text.decode(detail) and newest not in earlier and len(earlier) < MOST_EARLIER:
            earlier.append(newest)
        kept = {"earlier": earlier} if earlier else {}
        counted = entry._replace(detail={**entry.detail, **kept, "attempts": attempts + 1})
        execute("UPDATE audit SET detail = ? WHERE no = ?", (self.row(counted)[-1], no))
        if action not in _SESSION_ACTIONS:
            quotas.charge_changes(self.actor, quotas.ENTRY_BYTES)
        _thread.notes = _notes() + 1
        return True


@contextmanager
def acting(actor: Actor) -> Iterator[Act]:
    """Open a durable transaction for an audited write, or join the one that is open.

    Raises RuntimeError, and rolls back, if rows changed without an audit entry.
    """
    with writing():
        changes, notes = _changes(), _notes()
        yield Act(actor)
        if _changes() != changes and _notes() == notes:
            raise RuntimeError("a write would have left no line in the audit")


def act_in_group(actor: Actor, do: Callable[[Act], Result]) -> Result:
    """Like `acting`, but commits together with the small writes of other requests; see `group_commit`."""

    def acted() -> Result:
        with acting(actor) as act:
            return do(act)

    return write_in_group(acted)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that differ, as `{"name": {"old": …, "new": …}}`."""
    return {name: {"old": before[name], "new": after[name]} for name in after if before[name] != after[name]}


def non_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty, for the entry of a new record."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def shortened(value: Any) -> Any:
    """Cut long texts inside `value` and note their full length."""
    if isinstance(value, str) and len(value) > MAX_VALUE_CHARS:
        return f"{value[:MAX_VALUE_CHARS]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        return {name: shortened(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(one) for one in value]
    return value


def _changes() -> int:
    changes: int = database.connection().total_changes
    return changes


def _notes() -> int:
    """Return the number of entries this thread has written in all its transactions."""
    return getattr(_thread, "notes", 0)
