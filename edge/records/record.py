"""Writes that assets and locations share. Each is one transaction and is recorded in the audit log.

`assets` and `locations` declare their kind: table, keys, and the checks that only one of them has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Act, Subject, act_in_group, changed, non_empty
from edge.database.connection import insert, update
from edge.database.ids import new_id
from edge.records import search, tagging, tags
from edge.records.external_keys import (
    KeySeries,
    check_window,
    choose_key,
    keep_microseconds,
    key_number,
    moment,
    next_update,
)
from edge.records.kept_elsewhere import changing
from edge.records.tagging import tag_text
from edge.records.tags import NewTag, Owner, TagRow
from edge.validation.bodies import OWN_FIELDS, fields_of

Row = TypeVar("Row", bound=Any)
SORTED_BY = ("external_key", "name", "created_at", "updated_at")
Changes = Mapping[str, Any]  # columns to set, with validated values


def _audited(kind: str) -> Iterator[tuple[str, str, Callable[[Any], Any] | None]]:
    """Yield the name of each audited field, its column, and the function that makes its value readable."""
    for field in fields_of(kind):
        if field.name != "parent_id":
            convert = clock.rfc3339 if field.is_time else bool if field.type == "boolean" else None
            yield field.name.removesuffix("_external_key"), field.name, convert


_AUDITED = {kind: list(_audited(kind)) for kind in OWN_FIELDS}


class Kind(NamedTuple, Generic[Row]):
    """Assets or locations.

    `get` reads a live record. `prepare` gets the actor, the current
    row (None for a new record) and the columns to write; it changes them or raises. `check_delete` raises if the record
    must stay. `guard` surrounds a change.
    """

    owner: Owner
    keys: KeySeries
    get: Callable[[int, int], Row]
    prepare: Callable[[Actor, Row | None, dict[str, Any]], None]
    check_delete: Callable[[int], None] = lambda _: None
    guard: Callable[[Actor, Iterable[int]], AbstractContextManager[None]] = lambda *_: nullcontext()

    def subject(self, row: Row) -> Subject:
        return Subject(self.owner, row.id, f"{row.name} ({row.external_key})")

    def audited(self, row: Row) -> dict[str, Any]:
        """Return the fields that the audit log records. It names the parent of a location by its key."""
        shown = {}
        for name, column, convert in _AUDITED[self.owner]:
            value = getattr(row, column)
            shown[name] = convert(value) if convert and value is not None else value
        return shown

    def indexed(self, organization_id: int, row: Row) -> Row:
        """Update the search index. Returns the row."""
        search.index_record(self.owner, organization_id, row, row.tags)
        return row


def create(kind: Kind[Row], actor: Actor, fields: Mapping[str, Any], new_tags: Sequence[NewTag]) -> Row:
    """Create a record. Without `external_key` or `valid_from`, a key is generated and the window begins now.

    Raises Conflict if the key or a tag is taken, Invalid for a bad window.
    """

    def add(act: Act) -> Row:
        organization_id, now = act.organization_id, moment()
        columns = {**fields, "valid_from": now if fields.get("valid_from") is None else fields["valid_from"]}
        check_window(columns["valid_from"], columns.get("valid_to"))
        kind.prepare(actor, None, columns)
        key = choose_key(kind.keys, organization_id, columns.get("external_key"))
        columns |= {"external_key": key, "key_number": key_number(kind.keys, key), "created_at": now, "updated_at": now}
        columns |= {"id": new_id(), "organization_id": organization_id}
        insert(kind.owner, columns)
        tagging.attach_all(act, kind.owner, columns["id"], new_tags, now)
        row = kind.get(organization_id, columns["id"])
        noted = {**kind.audited(row), "tags": [tag_text(tag) for tag in row.tags]}
        act.note(f"{kind.owner}.created", kind.subject(row), non_empty(noted))
        return kind.indexed(organization_id, row)

    return act_in_group(actor, add)


def patch(
    kind: Kind[Row],
    actor: Actor,
    record_id: int,
    changes: Mapping[str, Any],
    check: Callable[[Row], None] | None = None,
) -> Row:
    """Change some columns. `check` gets the current row inside the transaction and raises to refuse the change.

    Raises NotFound, and Conflict if the home of the record is another box.
    """
    with changing(actor, record_id, kind.get) as (act, current):
        if check:
            check(current)
        values = {**keep_microseconds(changes, current), "updated_at": next_update(current.updated_at)}
        check_window(values.get("valid_from", current.valid_from), values.get("valid_to", current.valid_to))
        kind.prepare(actor, current, values)
        with kind.guard(actor, [record_id]):
            update(kind.owner, record_id, values)
        row = kind.get(actor.organization_id, record_id)
        act.note_changes(f"{kind.owner}.changed", kind.subject(row), changed(kind.audited(current), kind.audited(row)))
        return kind.indexed(actor.organization_id, row)


def rename(kind: Kind[Row], actor: Actor, record_id: int, external_key: str) -> tuple[Row, bool]:
    """Change the external key. Returns the row, and False if it had this key. Raises NotFound, Conflict."""
    with changing(actor, record_id, kind.get) as (act, current):
        if external_key == current.external_key:
            return current, False
        key = choose_key(kind.keys, actor.organization_id, external_key)
        row = current._replace(external_key=key, updated_at=next_update(current.updated_at))
        values = {"external_key": key, "key_number": key_number(kind.keys, key), "updated_at": row.updated_at}
        with kind.guard(actor, [record_id]):
            update(kind.owner, record_id, values)
        act.note(f"{kind.owner}.renamed", kind.subject(row), changed(kind.audited(current), kind.audited(row)))
        return kind.indexed(actor.organization_id, row), True


def delete(kind: Kind[Row], actor: Actor, record_id: int) -> None:
    """Soft-delete a record and its tags. The key and the tags become available again. Raises NotFound, Conflict."""
    with changing(actor, record_id, kind.get) as (act, current):
        kind.check_delete(record_id)
        deleted_at = next_update(current.updated_at)
        update(kind.owner, record_id, {"deleted_at": deleted_at, "updated_at": deleted_at})
        tags.remove_all(kind.owner, record_id, deleted_at)
        noted = non_empty({"tags": [tag_text(tag) for tag in current.tags]})
        act.note(f"{kind.owner}.deleted", kind.subject(current), noted)
        kind.indexed(actor.organization_id, current._replace(deleted_at=deleted_at, tags=()))


def attach_tag(kind: Kind[Row], actor: Actor, record_id: int, tag: NewTag) -> TagRow:
    """Attach a tag. Raises NotFound, and Conflict if a live record has the tag."""
    with changing(actor, record_id, kind.get) as (act, current):
        added = tagging.attach(act, kind.subject(current), kind.owner, record_id, tag)
        kind.indexed(actor.organization_id, current._replace(tags=[*current.tags, added]))
    return added


def detach_tag(kind: Kind[Row], actor: Actor, record_id: int, tag_id: int) -> None:
    """Detach a tag. Raises NotFound if the record does not have it."""
    with changing(actor, record_id, kind.get) as (act, current):
        tagging.detach(act, kind.subject(current), kind.owner, record_id, tag_id)
        kind.indexed(actor.organization_id, current._replace(tags=[tag for tag in current.tags if tag.id != tag_id]))
