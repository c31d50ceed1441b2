"""Assets and locations: one module for both, and the declaration of a kind.

The functions expect validated values. Every write is one transaction and is recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Act, Subject, act_in_group, acting, changed, non_empty
from edge.database.connection import execute, insert, update
from edge.database.ids import new_id
from edge.database.lists import Page, SortTerm, order_by
from edge.errors import NotFound
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
from edge.records.kept_elsewhere import check_home
from edge.records.listing import ListQuery, Source, read_page, view
from edge.records.tagging import tag_text
from edge.records.tags import NewTag, Owner, TagRow
from edge.validation.bodies import OWN_FIELDS, fields_of

Row = TypeVar("Row", bound=Any)
DEFAULT_SORT = (SortTerm("external_key"),)
Changes = Mapping[str, Any]  # columns to set, with validated values


class RecordFilter(NamedTuple):
    """Filters of a list. Empty filters and None match everything. Only locations have parents."""

    external_keys: Sequence[str] = ()
    parent_ids: Sequence[int] = ()
    parent_external_keys: Sequence[str] = ()
    is_active: bool | None = None
    include_deleted: bool = False
    q: str = ""


def _audited(kind: str) -> Iterator[tuple[str, str, Callable[[Any], Any] | None]]:
    """Yield the name of each audited field, its column, and the function that makes its value readable."""
    for one in fields_of(kind):
        if one.name != "parent_id":
            convert = clock.rfc3339 if one.is_time else bool if one.type == "boolean" else None
            yield one.name.removesuffix("_external_key"), one.name, convert


_AUDITED = {kind: list(_audited(kind)) for kind in OWN_FIELDS}


@dataclass(frozen=True)
class Kind(Generic[Row]):
    """Assets or locations.

    `columns`: an SQL expression for each field of a row but the tags; `listed` replaces some of them in lists. `new`:
    values of a new record. `prepare` gets the actor, the current row (None for a new record) and the columns to write;
    it changes them or raises. `check_delete` raises if the record must stay. `guard` surrounds a change. `affected`
    returns the number of other records that a new key concerns.
    """

    owner: Owner
    keys: KeySeries
    row: type[Row]
    alias: str
    tables: str
    columns: Mapping[str, str]
    new: Changes
    prepare: Callable[[Actor, Row | None, dict[str, Any]], None]
    listed: Mapping[str, str] = field(default_factory=dict)
    check_delete: Callable[[int], None] = lambda _: None
    guard: Callable[[Actor, Iterable[int]], AbstractContextManager[None]] = lambda *_: nullcontext()
    affected: Callable[[int], int] = lambda _: 0

    @cached_property
    def stored(self) -> list[str]:
        """Columns of its table that are fields of a row."""
        return [column for column in self.columns if column != "parent_external_key"]

    @cached_property
    def source(self) -> Source:
        """Table and columns of lists."""
        columns = list({**self.columns, **self.listed}.values())
        return Source(columns, self.tables, self.alias, f"{self.alias}.id", tagged=self.owner)

    @cached_property
    def select_live(self) -> str:
        """SQL that selects the live records of an organization."""
        columns = ", ".join((*self.columns.values(), tags.tags_as_json(self.owner, f"{self.alias}.id")))
        live = f"{self.alias}.organization_id = ? AND {self.alias}.deleted_at IS NULL"
        return f"SELECT {columns} FROM {self.tables} WHERE {live}"

    @cached_property
    def _select_one(self) -> str:
        return f"{self.select_live} AND {self.alias}.id = ?"

    def row_of(self, selected: Sequence[Any]) -> Row:
        """Return a row from the columns of `select_live`."""
        row: Row = self.row._make((*selected[:-1], tags.from_json(selected[-1])))
        return row

    def get(self, organization_id: int, record_id: int) -> Row:
        """Return a live record, also outside its window. Raises NotFound."""
        row = execute(self._select_one, (organization_id, record_id)).fetchone()
        if row is None:
            raise NotFound(f"{self.owner} not found")
        return self.row_of(row)

    def list_page(
        self,
        organization_id: int,
        filters: RecordFilter,
        *,
        limit: int,
        offset: int = 0,
        sort: Sequence[SortTerm] = DEFAULT_SORT,
    ) -> Page[Row]:
        """Return a page of the live records within their window, including deleted ones if the filter asks for them."""
        query = ListQuery(organization_id, f"{self.alias}.organization_id", include_deleted=filters.include_deleted)
        query.active(self.alias, filters.is_active)
        query.any_of(self.columns["external_key"], filters.external_keys)
        query.any_of(self.columns.get("parent_id", ""), filters.parent_ids)
        query.any_of(self.columns.get("parent_external_key", ""), filters.parent_external_keys)
        order = order_by(sort, self.columns, self.source.id_column)
        with view(query, filters.q):
            match = search.match(self.owner, organization_id, filters.q) if filters.q else None
            rows, total = read_page(self.source, query, match, order, limit, offset)
        return Page([self.row._make(row) for row in rows], total)

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
        search.index_records(self.owner, organization_id, [(row, row.tags)])
        return row

    def create(self, actor: Actor, *, tags: Sequence[NewTag] = (), **fields: Any) -> Row:
        """Create a record with these columns and tags. Without `external_key` or `valid_from`, a key is generated and
        the window begins now (interface: Auto-mint).

        Raises Conflict if the key or a tag is taken, Invalid for a bad parent or window.
        """

        def add(act: Act) -> Row:
            organization_id, now = act.organization_id, moment()
            columns = {**self.new, **fields}
            columns["valid_from"] = now if columns.get("valid_from") is None else columns["valid_from"]
            check_window(columns["valid_from"], columns.get("valid_to"))
            self.prepare(actor, None, columns)
            key = choose_key(self.keys, organization_id, columns.get("external_key"))
            columns |= {"external_key": key, "key_number": key_number(self.keys, key), "created_at": now}
            columns |= {"updated_at": now, "id": new_id(), "organization_id": organization_id}
            insert(self.owner, columns)
            tagging.attach_all(act, self.owner, columns["id"], tags, now)
            row = self.get(organization_id, columns["id"])
            noted = {**self.audited(row), "tags": [tag_text(tag) for tag in row.tags]}
            act.note(f"{self.owner}.created", self.subject(row), non_empty(noted))
            return self.indexed(organization_id, row)

        return act_in_group(actor, add)

    def patch(self, actor: Actor, record_id: int, changes: Changes, check: Callable[[Row], None] | None = None) -> Row:
        """Change some columns. `check` gets the current row inside the transaction and raises to refuse the change.

        Raises NotFound, Invalid for an unknown parent, Conflict for a cycle or if the home of the record is another
        box, Forbidden if it is a person and would not be one.
        """
        with self._changing(actor, record_id) as (act, current):
            if check:
                check(current)
            values = {**keep_microseconds(changes, current), "updated_at": next_update(current.updated_at)}
            check_window(values.get("valid_from", current.valid_from), values.get("valid_to", current.valid_to))
            self.prepare(actor, current, values)
            with self.guard(actor, [record_id]):
                update(self.owner, record_id, values)
            row = self.get(actor.organization_id, record_id)
            differences = changed(self.audited(current), self.audited(row))
            act.note_changes(f"{self.owner}.changed", self.subject(row), differences)
            return self.indexed(actor.organization_id, row)

    def rename(self, actor: Actor, record_id: int, external_key: str) -> tuple[Row, int]:
        """Change the external key. Returns the row and the number of live descendants, or 0 if the key is the same.

        Raises NotFound, Conflict if the key is taken, Forbidden if it is a person and would not be one.
        """
        with self._changing(actor, record_id) as (act, current):
            if external_key == current.external_key:
                return current, 0
            key = choose_key(self.keys, actor.organization_id, external_key)
            row = current._replace(external_key=key, updated_at=next_update(current.updated_at))
            values = {"external_key": key, "key_number": key_number(self.keys, key), "updated_at": row.updated_at}
            with self.guard(actor, [record_id]):
                update(self.owner, record_id, values)
            act.note(f"{self.owner}.renamed", self.subject(row), changed(self.audited(current), self.audited(row)))
            return self.indexed(actor.organization_id, row), self.affected(record_id)

    def edit(
        self,
        actor: Actor,
        record_id: int,
        changes: Changes,
        external_key: str,
        check: Callable[[Row], None] | None = None,
    ) -> Row:
        """Patch and rename in one transaction."""
        with acting(actor):
            self.patch(actor, record_id, changes, check)
            return self.rename(actor, record_id, external_key)[0]

    def delete(self, actor: Actor, record_id: int) -> None:
        """Soft-delete a record and its tags. The key and the tags become available again.

        Raises NotFound, and Conflict if a location has live descendants, assets or pending moves.
        """
        with self._changing(actor, record_id) as (act, current):
            self.check_delete(record_id)
            deleted_at = next_update(current.updated_at)
            update(self.owner, record_id, {"deleted_at": deleted_at, "updated_at": deleted_at})
            tags.remove_all(self.owner, record_id, deleted_at)
            noted = non_empty({"tags": [tag_text(tag) for tag in current.tags]})
            act.note(f"{self.owner}.deleted", self.subject(current), noted)
            self.indexed(actor.organization_id, current._replace(deleted_at=deleted_at, tags=()))

    def attach_tag(self, actor: Actor, record_id: int, tag: NewTag) -> TagRow:
        """Attach a tag. Raises NotFound, and Conflict if a live record has the tag."""
        with self._changing(actor, record_id) as (act, current):
            (added,) = tagging.attach_all(act, self.owner, record_id, [tag], moment())
            act.note("tag.attached", self.subject(current), {"tag": tag_text(added)})
            self.indexed(actor.organization_id, current._replace(tags=[*current.tags, added]))
        return added

    def detach_tag(self, actor: Actor, record_id: int, tag_id: int) -> None:
        """Detach a tag. Raises NotFound if the record does not have it."""
        with self._changing(actor, record_id) as (act, current):
            removed = tags.remove(self.owner, record_id, tag_id, moment())
            act.note("tag.detached", self.subject(current), {"tag": tag_text(removed)})
            left = [tag for tag in current.tags if tag.id != tag_id]
            self.indexed(actor.organization_id, current._replace(tags=left))

    @contextmanager
    def _changing(self, actor: Actor, record_id: int) -> Iterator[tuple[Act, Row]]:
        """Open a transaction that changes a live record. Raises NotFound, and Conflict if its home is another box."""
        with acting(actor) as act:
            current = self.get(actor.organization_id, record_id)
            check_home(record_id)
            yield act, current
