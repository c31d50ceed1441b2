"""Converts rows of an imported table to records by the rules of the API, with all errors of each row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from edge.bulk.import_columns import BETWEEN_TAGS, DECLARED, PROPERTY, TIMES, time_of
from edge.errors import EdgeError, Invalid
from edge.readers.reader_import import port_of
from edge.readers.reader_table import OF_READER
from edge.records.csv_import import NewRecord
from edge.records.csv_import_tags import KINDS, line_of
from edge.records.tagging import tag_text
from edge.records.tags import NewTag
from edge.texts import N_, Count, fill
from edge.validation import table_files, values
from edge.validation.imported_rows import (
    collected,
    is_shortened,
    messages_of,
    packed_faults,
    shortened,
    yes_or_no,
)
from edge.validation.packed_texts import unpack
from edge.validation.table_files import Table
from edge.validation.tables import Line, RawRow
from edge.validation.values import MAX_TAGS, TAG_TYPES

PREVIEWED = 5  # rows
MOST_FAULTY = 2_000  # rows; the reasons of one take up to 5 KB
LONGEST_PORT = 100


class Reading(NamedTuple):
    """How a table is read: the field of each column, or "" for columns that are not imported.

    `is_exact`: empty cells clear their field, and tags and antennas that are not listed are detached or reset.
    Otherwise empty cells change nothing and tags are added.
    """

    kind: str
    columns: Sequence[str]
    is_exact: bool
    zone: tzinfo

    @property
    def names(self) -> list[str]:
        return [name for name in self.columns if name]


def preview(table: Table, reading: Reading) -> list[Line]:
    """Return the first rows as understood."""
    lines = [row.line(reading.columns) for row in table.rows[:PREVIEWED]]
    return [line._replace(cells=_understood(line.cells, reading.zone)) for line in lines]


def records_of(reading: Reading, rows: Sequence[RawRow], progress: Callable[[int], None]) -> list[NewRecord]:
    """Return a record for each row, with its errors. Raises Invalid if there are too many tags."""
    convert, identities = _KINDS[reading.kind]
    records = []
    count, faulty = len(rows) * len(reading.columns), 0
    for number, row in enumerate(rows, 1):
        records.append(convert(reading, row.line(reading.columns)))
        count += len(records[-1].tags)
        faulty += bool(records[-1].fault)
        if faulty > MOST_FAULTY:
            message = N_("More than %(number)s rows have errors. The first one, in line %(line)s: %(error)s")
            first = next(one for one in records if one.fault)
            fault = fill(message, number=Count(MOST_FAULTY), line=first.line, error=unpack(first.fault))
            raise Invalid.one("file", "too_large", fault)
        if count > table_files.MOST_VALUES:
            raise table_files.too_many_values(N_("There are more than %(number)s cells and tags; split the file"))
        if number % 100 == 0:
            progress(number)
    records = list(_without_repeats(records, identities))
    return list(_with_listed(reading.kind, records)) if reading.is_exact else records


def _parsed(reading: Reading, line: Line, separator: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a row that are valid, and the errors of the others."""
    declared = [column for column in DECLARED[reading.kind] if column.name in line.cells]
    if line.fault:
        return {}, [unpack(line.fault)]
    faults = shortened(line.cells, [column.name for column in declared if column.is_code], separator)
    given: dict[str, Any] = {}
    for column in declared:
        cell = line.cells[column.name]
        if cell and not (column.is_code and is_shortened(cell)):
            try:
                given[column.name] = column.parse(column.name, cell, reading.zone)
            except EdgeError as error:
                faults += messages_of(error)
        elif not cell and reading.is_exact and column.is_cleared:
            given[column.name] = column.empty
    return given, faults


def _record(reading: Reading, line: Line) -> NewRecord:
    """Return the asset or location of a row."""
    given, faults = _parsed(reading, line, BETWEEN_TAGS)
    for name in ("external_key", *TAG_TYPES):
        given.pop(name, None)
    tags: list[NewTag] = []
    for tag_type, value in islice(() if line.fault else _tag_cells(line), MAX_TAGS + 1):  # one more is an error
        if not is_shortened(value):
            checked = collected(faults, partial(_tag, tag_type, value))
            tags += [checked] if checked else []
    exact = [name for name in TAG_TYPES if name in line.cells] if reading.is_exact else []
    key, parent = line.cells.get("external_key") or None, given.pop("parent_external_key", None)
    fault = packed_faults(faults)
    return NewRecord(line.number, key, given, tags, parent, fault, exact, _properties(reading, line), line.cells)


def _properties(reading: Reading, line: Line) -> dict[str, str | None] | None:
    """Return the properties of the metadata in columns of their own. None removes one."""
    named = {name[len(PROPERTY) :]: cell for name, cell in line.cells.items() if name.startswith(PROPERTY)}
    given = {name: cell or None for name, cell in named.items() if cell or reading.is_exact}
    return given or None


def _tag(tag_type: str, value: str) -> NewTag:
    return NewTag(tag_type, values.typed_tag_value(tag_type, value))


def _tag_cells(line: Line) -> Iterator[tuple[str, str]]:
    for kind in TAG_TYPES:
        for value in line.cells.get(kind, "").split(BETWEEN_TAGS):
            if value.strip():
                yield kind, value.strip()


def _tag_row(reading: Reading, line: Line) -> NewRecord:
    """Return the record with the tag of a row, or without one."""
    given, faults = _parsed(reading, line)
    key, tag_type, value = (line.cells.get(name, "") for name in ("external_key", "tag_type", "value"))
    tags: list[NewTag] = []
    if not faults and not key:
        faults.append(fill(N_("%(field)s is required"), field="external_key"))
    if not faults and bool(tag_type) != bool(value):
        faults.append(N_("a tag needs tag_type and value"))
    if not faults and value:
        tag = collected(faults, lambda: NewTag(given["tag_type"], values.typed_tag_value("value", value)))
        tags = [tag] if tag else []
    record = NewRecord(line.number, key or None, {}, tags, fault=packed_faults(faults), cells=line.cells)
    return line_of(record, given.get("kind") or KINDS[0], None)


def _reader_row(reading: Reading, line: Line) -> NewRecord:
    """Return the reader or antenna of a row: `external_key` is its name, `values` the fields and the port."""
    given, faults = _parsed(reading, line)
    name, port = given.pop("name", ""), _port(given.pop("port", ""))
    if port:
        given["port"] = port
        if reading.is_exact and line.cells.get("is_enabled") == "":
            given["is_enabled"] = None
    if not line.fault:
        faults = [*_faults_of_name(name, port, line.cells), *faults]
    return NewRecord(line.number, name or None, given, fault=packed_faults(faults), cells=line.cells)


def _port(written: str) -> str:
    """Return the number of an antenna without zeros in front, or its name."""
    return str(int(written)) if written.isascii() and written.isdigit() and len(written) <= 6 else written


def _faults_of_name(name: str, port: str, cells: Mapping[str, str]) -> list[str]:
    faults: list[str] = []
    if not name:
        faults.append(N_("name is required"))
    if len(port) > LONGEST_PORT:
        message = N_("an antenna must be a number or a name of at most %(number)s characters")
        faults.append(fill(message, number=LONGEST_PORT))
    misplaced = [column for column in OF_READER if port and cells.get(column)]
    if misplaced:
        message = N_("%(columns)s: only in the row of the reader, not in that of an antenna")
        faults.append(fill(message, columns=", ".join(misplaced)))
    return faults


def _understood(cells: Mapping[str, str], zone: tzinfo) -> dict[str, str]:
    shown = dict(cells)
    is_active = yes_or_no(cells.get("is_active", ""))
    if is_active is not None:
        shown["is_active"] = "yes" if is_active else "no"
    for name in TIMES:
        if cells.get(name):
            shown[name] = collected([], partial(time_of, name, cells[name], zone)) or cells[name]
    return shown


Identity = tuple[Hashable, str]  # unique among the rows, and the message for a second one


def _own_key(record: NewRecord) -> Iterator[Identity]:
    if record.external_key:
        yield record.external_key, N_("the key is also in line %(line)s")
    yield from _own_tags(record)


def _own_tags(record: NewRecord) -> Iterator[Identity]:
    return ((tag, N_("tag %(tag)s is also in line %(line)s")) for tag in record.tags)


def _own_place(record: NewRecord) -> Iterator[Identity]:
    if record.external_key:
        yield (record.external_key, port_of(record)), N_("this reader or antenna is also in line %(line)s")


def _without_repeats(
    records: Sequence[NewRecord], identities: Callable[[NewRecord], Iterator[Identity]]
) -> Iterator[NewRecord]:
    """Report an error for the second row with the same key, tag or name."""
    lines: dict[Hashable, int] = {}
    for record in records:
        faults = [unpack(record.fault)] if record.fault else []
        for identity, message in identities(record):
            first = lines.setdefault(identity, record.line)
            if first != record.line:
                tag = tag_text(identity) if isinstance(identity, NewTag) else ""
                faults.append(fill(message, line=first, **({"tag": tag} if tag else {})))
        yield record._replace(fault=packed_faults(faults)) if faults else record


def _with_listed(kind: str, records: Sequence[NewRecord]) -> Iterator[NewRecord]:
    """Give one row of each owner all that the file lists for it. Anything else is detached or reset.

    These are the tags of the first row of a record, and the antennas of the row of a reader.
    """
    listed: dict[Hashable, list[Any]] = defaultdict(list)
    for record in records:
        if kind == "tag":
            listed[record.values["kind"], record.external_key] += record.tags
        elif kind == "reader" and port_of(record):
            listed[record.external_key].append(port_of(record))
    for record in records:
        owner: Hashable = (record.values["kind"], record.external_key) if kind == "tag" else record.external_key
        if kind == "tag" and owner in listed:
            record = line_of(record, record.values["kind"], listed.pop(owner))
        elif kind == "reader" and not port_of(record) and "port" in (record.cells or {}):
            record = record._replace(values={**record.values, "listed": listed.get(owner, [])})
        yield record


_KINDS = {
    "asset": (_record, _own_key),
    "location": (_record, _own_key),
    "tag": (_tag_row, _own_tags),
    "reader": (_reader_row, _own_place),
}
