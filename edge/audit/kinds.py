"""Kinds of small records of an organization, such as channels, outputs, doors and rules.

Each kind is declared once. The declaration provides reading, the check of names, and audited writes; the functions next
to it are special to the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, changed
from edge.database.connection import execute, insert, update
from edge.errors import Conflict, NotFound
from edge.texts import N_, fill

Row = TypeVar("Row")
ALL = "1"  # a condition that all rows meet


@dataclass(frozen=True)
class Kind(Generic[Row]):
    """A kind of record. All names are constants of this program, and its table has `organization_id` and `created_at`.

    `select`: SQL up to its WHERE. `row` makes a row of the selected columns. `key`: column and attribute of its number.
    `live`: condition of rows that were not removed; with one, removed rows stay in the table with `deleted_at`.
    `own`: condition of its rows in a table of several kinds. `taken`: the error for a name that is in use, with
    `%(name)s`. `audited`: its name in the audit, by default that of the table. `detail` returns the fields of a row for
    the audit.
    """

    table: str
    noun: str
    select: str
    row: Callable[[Sequence[Any]], Row]
    key: str = "no"
    order: str = "name COLLATE NOCASE"
    live: str = ALL
    own: str = ALL
    taken: str = ""
    audited: str = ""
    detail: Callable[[Row], Mapping[str, Any]] = lambda _: {}

    @property
    def kind(self) -> str:
        """Its name in the audit."""
        return self.audited or self.table

    @property
    def numbered(self) -> str:
        """SQL up to the number of one record."""
        return f"{self.own} AND {self.key}"

    def get(self, organization_id: int, number: int | str) -> Row:
        """Return a record. Raises NotFound."""
        mine = f"{self.table}.organization_id = ? AND {self.table}.{self.key} = ?"
        rows = self.where(mine, organization_id, number)
        if not rows:
            raise NotFound(f"no such {self.noun}")
        return rows[0]

    def list_of(self, organization_id: int) -> list[Row]:
        """Return the records of an organization in the order of their list."""
        return self.where(f"{self.table}.organization_id = ?", organization_id)

    def where(self, condition: str, *bound: object, order: str = "") -> list[Row]:
        """Return the records that meet a condition, of all organizations unless the condition names one."""
        found = execute(
            f"{self.select} WHERE ({condition}) AND {self.own} AND {self.live} ORDER BY {order or self.order}", bound
        )
        return [self.row(one) for one in found.fetchall()]

    def check_name(self, organization_id: int, name: str, number: int | str | None = None) -> None:
        """Raise Conflict if another record has this name; case does not count."""
        same = f"organization_id = ? AND name = ? COLLATE NOCASE AND {self.key} IS NOT ? AND {self.own} AND {self.live}"
        if execute(f"SELECT 1 FROM {self.table} WHERE {same}", (organization_id, name, number)).fetchone():
            raise Conflict(fill(self.taken, name=name))

    def check_enabled(self, organization_id: int, number: int | str) -> None:
        """Raise Conflict if a record is disabled, and NotFound."""
        row: Any = self.get(organization_id, number)
        if row.disabled_at is not None:
            raise Conflict(fill(N_("%(name)s is disabled; enable it first"), name=row.name))

    def add(self, actor: Actor, columns: Mapping[str, object], **detail: Any) -> Row:
        """Add a record; `detail` goes to the audit, too. Raises Conflict if the name is taken or there are too many."""
        with acting(actor) as act:
            if self.taken:
                self.check_name(actor.organization_id, str(columns["name"]))
            values = {"organization_id": actor.organization_id, **columns, "created_at": clock.now()}
            number = insert(self.table, values, f"RETURNING {self.key}").fetchone()[0]
            row = self.get(actor.organization_id, number)
            act.note(f"{self.kind}.created", self.subject(row), {**self.detail(row), **detail})
        return row

    def change(self, actor: Actor, number: int | str, columns: Mapping[str, object], **differences: Any) -> Row:
        """Change columns of a record; the audit shows the details that differ, and `differences`. Raises NotFound and
        Conflict.
        """
        with acting(actor) as act:
            before = self.get(actor.organization_id, number)
            if self.taken and "name" in columns:
                self.check_name(actor.organization_id, str(columns["name"]), number)
            update(self.table, number, columns, self.numbered)
            row = self.get(actor.organization_id, number)
            differences = changed(self.detail(before), self.detail(row)) | differences
            act.note_changes(f"{self.kind}.changed", self.subject(row), differences)
        return row

    def mark(self, actor: Actor, number: int | str, participle: str, columns: Mapping[str, object]) -> Row:
        """Set columns for an action such as `disabled`, and note it. Returns the record before. Raises NotFound."""
        with acting(actor) as act:
            row = self.get(actor.organization_id, number)
            update(self.table, number, columns, self.numbered)
            act.note(f"{self.kind}.{participle}", self.subject(row))
        return row

    def remove(self, actor: Actor, number: int | str, participle: str = "deleted") -> Row:
        """Remove a record and return it. Raises NotFound."""
        if self.live != ALL:
            return self.mark(actor, number, participle, {"deleted_at": clock.now()})
        with acting(actor) as act:
            row = self.get(actor.organization_id, number)
            execute(f"DELETE FROM {self.table} WHERE {self.numbered} = ?", (number,))
            act.note(f"{self.kind}.{participle}", self.subject(row))
        return row

    def subject(self, row: Any) -> Subject:
        """Return the record as the audit names it."""
        return Subject(self.kind, getattr(row, self.key), row.name)
