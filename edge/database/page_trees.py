"""Which pages of a database file belong to which table or index, found also where the pages above them are damaged."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
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
Row = tuple[int | None, list[Value]]  # the rowid, None in a table without one or in an index

SCHEMA = "sqlite_schema"
_LOWEST: Key = ()
_HIGHEST: Key = ((9, 0),)
_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,), "BLOB": (bytes,)}


class Column(NamedTuple):
    """A column in the order of storage; `type` is empty where SQLite allows any."""

    name: str
    type: str
    is_nullable: bool
    is_generated: bool = False


class Tree(NamedTuple):
    """A table or an index as it is stored. `least` is how many columns its oldest rows have."""

    name: str
    table: str
    is_index: bool
    has_rowids: bool
    columns: list[Column]
    key_length: int  # of the columns, for a table without rowids
    rowid_column: int | None
    least: int

    def fits(self, row: Row) -> bool:
        """Whether a row has the number and the types of values that this tree demands."""
        rowid, found = row
        if not self.least <= len(found) <= len(self.columns) or (rowid is None) == self.has_rowids:
            return False
        for position, (value, column) in enumerate(zip(found, self.columns, strict=False)):
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
        """By which its rows are in order."""
        rowid, found = row
        return ((1, rowid),) if rowid is not None else tuple(_in_order(value) for value in found[: self.key_length])


def _in_order(value: Value) -> tuple[int, int | float | bytes]:
    """As SQLite orders values of different types; all keys of this program are compared by their bytes."""
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
    """All that a database with the schema of `connection` consists of, by name."""
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
    # What a migration added later has a default or may be null, and older rows end before it.
    needed = [place for place, row in enumerate(rows, 1) if row[5] or (row[3] and row[4] is None and row[6] < _VIRTUAL)]
    return Tree(
        *(name, name, not has_rowids, has_rowids, columns, len(keys)),
        rows.index(keys[0]) if is_numbered else None,
        max(needed, default=1),
    )


_VIRTUAL = 2  # a generated column that is not stored


def _index(connection: sqlite3.Connection, name: str, table: str) -> Tree:
    of_table = {column.name: column for column in _table(connection, table).columns}
    columns = [
        of_table.get(row[2] or "", Column("rowid", "INTEGER", False) if row[1] == -1 else Column("", "", True))
        for row in connection.execute(f"PRAGMA index_xinfo({name})")
    ]
    # Rows of an index have all of its columns.
    return Tree(name, table, True, False, columns, len(columns), None, len(columns))


def _is_without_rowid(connection: sqlite3.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (name,)).fetchone()[0])


class Part(NamedTuple):
    """A page of a tree, and between which keys it has all that there is; None where that is not known."""

    page: int
    above: Key | None
    up_to: Key | None


class Forest:
    """The pages of a file, grouped: pages of one group belong to the same tree."""

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
        """The highest page known above a page: the root of its tree, unless a page between is damaged."""
        seen = {number}
        while (above := self._above(number)) is not None and above not in seen:
            seen.add(above)
            number = above
        return number

    def is_table(self, group: int) -> bool:
        """Whether its pages have rowids."""
        return self.kinds[self.groups[group][0]] in OF_TABLES

    def parts(self, group: int, *, is_whole: bool) -> Iterator[Part]:
        """The pages of a group, damaged ones too; `is_whole` if the group begins with the root of its tree."""
        for top in self.groups[group]:
            ends = (_LOWEST, _HIGHEST) if is_whole and top == group else (None, None)
            waiting, seen = [Part(top, *ends)], set()
            while waiting:
                part = waiting.pop()
                if part.page in seen:
                    continue
                seen.add(part.page)
                yield part
                if self.kinds[part.page] in INTERIOR:
                    waiting.extend(self._children(part))

    def rows(self, number: int) -> Iterator[Row | None]:
        """The rows in a page, None for an unreadable one."""
        if self.kinds[number] not in (*INTERIOR, 0) or self.kinds[number] == INDEX_INTERIOR:
            for cell in self.file.cells(number):
                try:
                    yield (cell.rowid, values(cell.payload)) if cell else None
                except Unreadable:
                    yield None

    def is_leaf(self, number: int) -> bool:
        return self.kinds[number] in (INDEX_LEAF, TABLE_LEAF)

    def lost(self) -> Iterator[int]:
        """Damaged pages that belonged to some tree."""
        for number in range(2, self.file.count + 1):
            told = self.file.parent(number)
            if not self.kinds[number] and (number in self._parents or (told and told.kind in (ROOT, CHILD))):
                yield number

    def sample(self, group: int, most: int = 200) -> list[Row]:
        """Some rows of the group."""
        found: list[Row] = []
        for part in self.parts(group, is_whole=False):
            found += [row for row in self.rows(part.page) if row][:20]
            if len(found) >= most:
                break
        return found

    def _above(self, number: int) -> int | None:
        if number in self._parents:
            return self._parents[number]
        told = self.file.parent(number)
        return told.page if told and told.kind == CHILD and not self.kinds[told.page] else None

    def _claims(self) -> dict[int, int]:
        """The parent of each page by the interior pages; what is left of deleted ones may contradict others."""
        claims: dict[int, int] = {}
        for number in range(1, self.file.count + 1):
            if self.kinds[number] in INTERIOR:
                for part in self._children(Part(number, None, None)):
                    told = self.file.parent(part.page)
                    if part.page not in claims or (told and told.page == number):
                        claims[part.page] = number
        return claims

    def _children(self, part: Part) -> Iterator[Part]:
        kind = self.kinds[part.page]
        above, is_readable = part.above, True
        for cell in self.file.cells(part.page):
            key = self._key_of(cell.rowid, cell.payload) if cell else None
            if cell and self._is_child(cell.child, kind):
                yield Part(cell.child, above if is_readable else None, key)
            above, is_readable = key, key is not None
        last = self.file.last_child(part.page)
        if self._is_child(last, kind):
            yield Part(last, above, part.up_to)

    def _key_of(self, rowid: int | None, payload: bytes) -> Key | None:
        """All values of a record of an index: it sorts as the key that it begins with."""
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
    """The ranges of keys of which all rows could be read: what is not there was deleted."""

    def __init__(self) -> None:
        self._ranges: list[tuple[Key, Key]] = []
        self._is_merged = True

    def add_leaf(self, part: Part, keys: list[Key]) -> None:
        """A page all of whose rows were read. Where its ends are not known, its first and last row are."""
        above = part.above if part.above is not None else min(keys, default=None)
        up_to = part.up_to if part.up_to is not None else max(keys, default=None)
        if above is not None and up_to is not None:
            self._ranges.append((above, up_to))
            self._is_merged = False

    def has(self, key: Key) -> bool:
        if not self._is_merged:
            self._merge()
        low, high = 0, len(self._ranges)
        while low < high:
            middle = (low + high) // 2
            if self._ranges[middle][0] < key:
                low = middle + 1
            else:
                high = middle
        return low > 0 and key <= self._ranges[low - 1][1]

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
    """Kind, name and root of all that the schema still says, from whichever of its pages are readable."""
    found = []
    for group in forest.groups:
        if forest.is_table(group) and all(_is_schema(row) for row in forest.sample(group, 20)):
            for part in forest.parts(group, is_whole=False):
                rows = [row for row in forest.rows(part.page) if row and forest.kinds[part.page] == TABLE_LEAF]
                found += [(str(row[0]), str(row[1]), root) for _, row in rows if isinstance(root := row[3], int)]
    return found


def _is_schema(row: Row) -> bool:
    return _SCHEMA_TREE.fits(row) and row[1][0] in ("table", "index", "trigger", "view")
