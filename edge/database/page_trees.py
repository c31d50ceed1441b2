"""Assigns the pages of a database file to tables and indexes, even where parent pages are damaged."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from edge.database.page_file import (
    CHILD,
    INDEX_INTERIOR,
    INDEX_LEAF,
    INTERIOR,
    OF_TABLES,
    ROOT,
    TABLE_LEAF,
    PageFile,
    Unreadable,
    Value,
    values,
)

Key = tuple[tuple[int, int | float | bytes], ...]
Row = tuple[int | None, list[Value]]  # (rowid, values); rowid is None in indexes and tables without rowids

SCHEMA = "sqlite_schema"
_LOWEST: Key = ()
_HIGHEST: Key = ((9, 0),)
_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,), "BLOB": (bytes,)}


class Column(NamedTuple):
    """A column in storage order; `type` is empty where SQLite allows any."""

    name: str
    type: str
    is_nullable: bool
    is_generated: bool = False


class Tree(NamedTuple):
    """A stored table or index. `least` is the number of columns of its oldest rows."""

    name: str
    table: str
    is_index: bool
    has_rowids: bool
    columns: list[Column]
    key_length: int  # number of key columns, for a table without rowids
    rowid_column: int | None
    least: int

    def fits(self, row: Row) -> bool:
        """Return True if a row has a valid number of values, with valid types."""
        rowid, values = row
        if not self.least <= len(values) <= len(self.columns) or (rowid is None) == self.has_rowids:
            return False
        for position, (value, column) in enumerate(zip(values, self.columns, strict=False)):
            if position == self.rowid_column:
                if value is not None:
                    return False
            elif value is None:
                if not column.is_nullable:
                    return False
            elif column.type and not isinstance(value, _TYPES[column.type]):
                return False
        return True

    def key(self, row: Row) -> Key:
        """Return the sort key of a row."""
        rowid, values = row
        return ((1, rowid),) if rowid is not None else tuple(_in_order(value) for value in values[: self.key_length])


def _in_order(value: Value) -> tuple[int, int | float | bytes]:
    """Return a sort key in SQLite's order of types; all keys here compare as bytes."""
    if value is None:
        return 0, 0
    if isinstance(value, str):
        return 2, value.encode()
    return (3, value) if isinstance(value, bytes) else (1, value)


_SCHEMA_TREE = Tree(
    SCHEMA, SCHEMA, False, True,
    [Column("type", "TEXT", False), Column("name", "TEXT", False), Column("tbl_name", "TEXT", False),
     Column("rootpage", "INTEGER", True), Column("sql", "TEXT", True)],
    0, None, 5,
)  # fmt: skip


def known_trees(connection: sqlite3.Connection) -> dict[str, Tree]:
    """Return all tables and indexes in the schema of `connection`, by name."""
    trees = {SCHEMA: _SCHEMA_TREE}
    names = connection.execute("SELECT type, name, tbl_name FROM sqlite_schema WHERE rootpage > 0").fetchall()
    for kind, name, table in names:
        trees[name] = _table(connection, name) if kind == "table" else _index(connection, name, table)
    return trees


def _table(connection: sqlite3.Connection, name: str) -> Tree:
    has_rowids = not _is_without_rowid(connection, name)
    rows = [row for row in connection.execute(f"PRAGMA table_xinfo({name})") if row[6] != _VIRTUAL]
    keys = sorted((row for row in rows if row[5]), key=lambda row: row[5])
    if not has_rowids:
        rows = [*keys, *(row for row in rows if not row[5])]
    columns = [
        Column(row[1], row[2] if row[2] in _TYPES else "", not row[3] and not row[5], row[6] > 1) for row in rows
    ]
    is_numbered = has_rowids and len(keys) == 1 and keys[0][2] == "INTEGER"
    # Columns added by migrations have a default or are nullable; older rows end before them.
    needed = [place for place, row in enumerate(rows, 1) if row[5] or (row[3] and row[4] is None and row[6] < _VIRTUAL)]
    return Tree(
        *(name, name, not has_rowids, has_rowids, columns, len(keys)),
        rows.index(keys[0]) if is_numbered else None,
        max(needed, default=1),
    )


_VIRTUAL = 2  # generated column, not stored


def _index(connection: sqlite3.Connection, name: str, table: str) -> Tree:
    of_table = {column.name: column for column in _table(connection, table).columns}
    columns = [
        of_table.get(row[2] or "", Column("rowid", "INTEGER", False) if row[1] == -1 else Column("", "", True))
        for row in connection.execute(f"PRAGMA index_xinfo({name})")
    ]
    # Index rows have all columns.
    return Tree(name, table, True, False, columns, len(columns), None, len(columns))


def _is_without_rowid(connection: sqlite3.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (name,)).fetchone()[0])


class TreePage(NamedTuple):
    """A page of a tree and its key range; None where a bound is unknown."""

    number: int
    above: Key | None
    up_to: Key | None


class Forest:
    """The pages of a file in groups; the pages of a group belong to the same tree."""

    def __init__(self, file: PageFile) -> None:
        self.file = file
        free = file.free_pages()
        self.kinds = bytearray(file.count + 1)
        for number in range(1, file.count + 1):
            if number not in free and not file.is_map(number):
                self.kinds[number] = file.kind(number)
        self._parents = self._claims()
        self.groups: dict[int, list[int]] = defaultdict(list)
        for number in range(1, file.count + 1):
            if self.kinds[number] and number not in self._parents:
                self.groups[self.group_of(number)].append(number)

    def group_of(self, number: int) -> int:
        """Return the highest known ancestor of a page: the root of its tree, unless a page between is damaged."""
        seen = {number}
        while (above := self._above(number)) is not None and above not in seen:
            seen.add(above)
            number = above
        return number

    def is_table(self, group: int) -> bool:
        """Return True if the group's pages have rowids."""
        return self.kinds[self.groups[group][0]] in OF_TABLES

    def pages(self, group: int, *, is_whole: bool) -> Iterator[TreePage]:
        """Yield the pages of a group, including damaged ones. `is_whole`: the group starts with its tree's root."""
        for top in self.groups[group]:
            ends = (_LOWEST, _HIGHEST) if is_whole and top == group else (None, None)
            waiting, seen = [TreePage(top, *ends)], set()
            while waiting:
                page = waiting.pop()
                if page.number in seen:
                    continue
                seen.add(page.number)
                yield page
                if self.kinds[page.number] in INTERIOR:
                    waiting.extend(self._children(page))

    def rows(self, number: int) -> Iterator[Row | None]:
        """Yield the rows of a page, None for an unreadable one."""
        if self.kinds[number] not in (*INTERIOR, 0) or self.kinds[number] == INDEX_INTERIOR:
            for cell in self.file.cells(number):
                try:
                    yield (cell.rowid, values(cell.payload)) if cell else None
                except Unreadable:
                    yield None

    def is_leaf(self, number: int) -> bool:
        return self.kinds[number] in (INDEX_LEAF, TABLE_LEAF)

    def lost(self) -> Iterator[int]:
        """Yield damaged pages that belonged to a tree."""
        for number in range(2, self.file.count + 1):
            mapped = self.file.parent(number)
            if not self.kinds[number] and (number in self._parents or (mapped and mapped.kind in (ROOT, CHILD))):
                yield number

    def sample(self, group: int, most: int = 200) -> list[Row]:
        """Return some rows of the group."""
        rows: list[Row] = []
        for page in self.pages(group, is_whole=False):
            rows += [row for row in self.rows(page.number) if row][:20]
            if len(rows) >= most:
                break
        return rows

    def _above(self, number: int) -> int | None:
        if number in self._parents:
            return self._parents[number]
        mapped = self.file.parent(number)
        return mapped.page if mapped and mapped.kind == CHILD and not self.kinds[mapped.page] else None

    def _claims(self) -> dict[int, int]:
        """Return each page's parent according to interior pages. Deleted pages may contradict the others."""
        claims: dict[int, int] = {}
        for number in range(1, self.file.count + 1):
            if self.kinds[number] in INTERIOR:
                for page in self._children(TreePage(number, None, None)):
                    mapped = self.file.parent(page.number)
                    if page.number not in claims or (mapped and mapped.page == number):
                        claims[page.number] = number
        return claims

    def _children(self, page: TreePage) -> Iterator[TreePage]:
        kind = self.kinds[page.number]
        above, is_readable = page.above, True
        for cell in self.file.cells(page.number):
            key = self._key_of(cell.rowid, cell.payload) if cell else None
            if cell and self._is_child(cell.child, kind):
                yield TreePage(cell.child, above if is_readable else None, key)
            above, is_readable = key, key is not None
        last = self.file.last_child(page.number)
        if self._is_child(last, kind):
            yield TreePage(last, above, page.up_to)

    def _key_of(self, rowid: int | None, payload: bytes) -> Key | None:
        """Return the key of a cell. An index record sorts as the key at its start."""
        if rowid is not None:
            return ((1, rowid),)
        try:
            return tuple(_in_order(value) for value in values(payload))
        except Unreadable:
            return None

    def _is_child(self, number: int, kind: int) -> bool:
        if not 1 < number <= self.file.count:
            return False
        return not self.kinds[number] or (self.kinds[number] in OF_TABLES) == (kind in OF_TABLES)


class Coverage:
    """Key ranges that were read completely; a key missing from them was deleted."""

    def __init__(self) -> None:
        self._ranges: list[tuple[Key, Key]] = []
        self._is_merged = True

    def add_leaf(self, leaf: TreePage, keys: list[Key]) -> None:
        """Add a page that was read completely. Its first and last keys replace unknown bounds."""
        above = leaf.above if leaf.above is not None else min(keys, default=None)
        up_to = leaf.up_to if leaf.up_to is not None else max(keys, default=None)
        if above is not None and up_to is not None:
            self._ranges.append((above, up_to))
            self._is_merged = False

    def has(self, key: Key) -> bool:
        """Return True if the key lies in a range that was read completely."""
        if not self._is_merged:
            self._merge()
        number = bisect_left(self._ranges, key, key=itemgetter(0))
        return number > 0 and key <= self._ranges[number - 1][1]

    def _merge(self) -> None:
        merged: list[tuple[Key, Key]] = []
        for above, up_to in sorted(self._ranges):
            if merged and above <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], up_to))
            else:
                merged.append((above, up_to))
        self._ranges = merged
        self._is_merged = True


def schema_rows(forest: Forest) -> list[tuple[str, str, int]]:
    """Return (kind, name, root page) for each readable schema row."""
    entries = []
    for group in forest.groups:
        if forest.is_table(group) and all(_is_schema(row) for row in forest.sample(group, 20)):
            for page in forest.pages(group, is_whole=False):
                rows = [row for row in forest.rows(page.number) if row and forest.kinds[page.number] == TABLE_LEAF]
                entries += [(str(row[0]), str(row[1]), root) for _, row in rows if isinstance(root := row[3], int)]
    return entries


def _is_schema(row: Row) -> bool:
    return _SCHEMA_TREE.fits(row) and row[1][0] in ("table", "index", "trigger", "view")
