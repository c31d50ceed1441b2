"""Every audited write, and what the audit keeps of it: who, when, what, to which record, and what changed.

`acting` is the one way by which master data, readers, people, keys, devices and sessions are written. It opens the
transaction, and it refuses to commit a write that left no line here, so that there is never one without the other.
What is created counts for the quotas of whoever acts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import orjson

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.database.connection import database, execute, execute_many, writing
from edge.database.group_commit import write_in_group

Result = TypeVar("Result")

LONGEST_VALUE = 1000  # characters of one value; what is longer is cut, since metadata may be 64 KiB

ADD_LINE = (
    "INSERT INTO audit (organization_id, at, actor_kind, actor_id, actor_name, device_name, action, subject_kind, "
    "subject_id, subject_name, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_ADDING = ("created", "attached")

_thread = threading.local()


class Subject(NamedTuple):
    """The record that was acted on, by the name it had at the time."""

    kind: str
    id: int | str
    name: str


class Noted(NamedTuple):
    """A line of the audit, but for who acted; see `Act.note`."""

    action: str
    subject: Subject
    detail: Mapping[str, Any]


class Act:
    """One actor's write, while its transaction is open."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.organization_id = actor.organization_id

    def note(self, action: str, subject: Subject, detail: Mapping[str, Any] | None = None) -> None:
        """`action` is `kind.participle`, such as `asset.created`; no secret and no hash of one goes into `detail`."""
        self.note_all([Noted(action, subject, detail or {})])

    def note_all(self, lines: Iterable[Noted]) -> None:
        """As `note`, for many records in one statement."""
        added = 0
        created: set[str] = set()

        def rows() -> Iterator[tuple[Any, ...]]:
            nonlocal added
            for line in lines:
                row = self.row(line)
                kind, _, participle = line.action.partition(".")
                if participle in _ADDING:
                    added += quotas.ROW + len(row[-1])
                    created.add(kind)
                yield row

        execute_many(ADD_LINE, rows())
        _thread.notes = _notes() + 1
        if added:
            quotas.charge(self.actor, added)
        for kind in created:
            quotas.check_cap(self.actor, kind)

    def row(self, line: Noted) -> tuple[Any, ...]:
        """The values of `ADD_LINE`."""
        actor, subject, told = self.actor, line.subject, dict(line.detail)
        if actor.sender_id:
            told["done_by"] = actor.name
        return (
            *(actor.organization_id or None, clock.now()),
            *(actor.kind, actor.sender_id or actor.id or None, actor.sender_name or actor.name),
            *(actor.device_name or None, line.action),
            *(subject.kind, str(subject.id), subject.name, orjson.dumps(shortened(told)).decode()),
        )

    def note_changes(self, action: str, subject: Subject, differences: Mapping[str, Any]) -> None:
        """As `note`, unless nothing differs: a client that sends the same values all day must not fill the audit."""
        if differences:
            self.note(action, subject, differences)
        else:
            _thread.notes = _notes() + 1

    def count(self, action: str, subject: Subject, detail: Mapping[str, Any]) -> None:
        """As `note`, for what strangers can repeat: all of one hour makes one line, which counts the `attempts`."""
        found = execute(
            "SELECT no, detail FROM audit WHERE subject_id = ? AND at > ? AND action = ? AND organization_id IS ? "
            "ORDER BY at DESC LIMIT 1",
            (str(subject.id), clock.now() - clock.HOUR, action, self.organization_id or None),
        ).fetchone()
        if found is None:
            self.note(action, subject, {**detail, "attempts": 1})
            return
        attempts = orjson.loads(found[1])["attempts"] + 1
        told = orjson.dumps(shortened({**detail, "attempts": attempts})).decode()
        execute("UPDATE audit SET detail = ? WHERE no = ?", (told, found[0]))
        _thread.notes = _notes() + 1


@contextmanager
def acting(actor: Actor) -> Iterator[Act]:
    """One durable transaction of an audited write; nested, it joins the outer one.

    Raises RuntimeError, and writes nothing, when rows changed without a line in the audit.
    """
    with writing():
        changes, notes = _changes(), _notes()
        yield Act(actor)
        if _changes() != changes and _notes() == notes:
            raise RuntimeError("a write would have left no line in the audit")


def act_in_group(actor: Actor, do: Callable[[Act], Result]) -> Result:
    """As `acting`, but in one commit with the small writes of other requests; see `group_commit`."""

    def acted() -> Result:
        with acting(actor) as act:
            return do(act)

    return write_in_group(acted)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What differs, as `{"name": {"old": …, "new": …}}`."""
    return {name: {"old": before[name], "new": after[name]} for name in after if before[name] != after[name]}


def given(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a new record that are not empty."""
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def shortened(value: Any) -> Any:
    """Long texts are cut, with a note of their full length."""
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        return f"{value[:LONGEST_VALUE]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        return {name: shortened(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(one) for one in value]
    return value


def _changes() -> int:
    changes: int = database.connection().total_changes
    return changes


def _notes() -> int:
    """How many lines this thread has written, whichever transaction they were in."""
    return getattr(_thread, "notes", 0)
