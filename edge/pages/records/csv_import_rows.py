"""Converts rows of an imported table to records by the rules of the API, with errors by row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from edge import clock
from edge.errors import EdgeError, FieldError, Invalid
from edge.pages.forms import values_of
from edge.readers import reader_table
from edge.records.csv_import import NewRecord
from edge.records.tags import NewTag
from edge.texts import N_, fill
from edge.validation import bodies, strict_json, table_files, values
from edge.validation.imported_rows import collected, is_shortened, packed_faults, shortened, yes_or_no
from edge.validation.packed_texts import unpack
from edge.validation.table_files import Table
from edge.validation.tables import Line, RawRow
from edge.validation.values import MAX_TAGS, MAX_TEXT, TAG_TYPES

BYTES_OF_BYTE = 10  # memory per byte of a file: text in several encodings, then cells
BETWEEN_TAGS = "|"  # in one cell; unusual in tags
_CODES = ("external_key", "parent_external_key", *TAG_TYPES)
PREVIEWED = 5  # rows
PROPERTY = "metadata."  # column of one property
_COMMON = ("external_key", "name", "description", "is_active", "valid_from", "valid_to")
COLUMNS = {
    "asset": (*_COMMON, "metadata", *TAG_TYPES),
    "location": (*_COMMON, "parent_external_key", *TAG_TYPES),
    "tag": ("kind", "external_key", "tag_type", "value"),  # see csv_import_tag_rows
    "reader": reader_table.COLUMNS,
}
EXAMPLES = {
    "asset": (
        *("PALLET-71", "Pallet 71", "Blue, for bottles", "yes", "2026-03-02 14:00", "", '{"color":"blue"}'),
        *("3074257BF7194E4000001A85", "", "4006381333931"),
    ),
    "location": ("DOCK-1", "Dock 1", "", "yes", "", "", "HALL-1", "", "", ""),
    "tag": ("asset", "PALLET-71", "rfid", "3074257BF7194E4000001A85"),
    "reader": ("Gate 1", "", "site/gate1/reads", "", "edge", "", "auto", "", "-65", "yes", "portal", ""),
}
_REQUIRED = {"tag": ("external_key", "tag_type", "value"), "reader": ("name",)}  # columns; others need a key or a name
_OWN = ("error", "line")  # columns of the file of errors, which are not imported
_CREATE = {"asset": bodies.ASSET_CREATE, "location": bodies.LOCATION_CREATE}
_DATE = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})(.*)")  # as spreadsheets in many languages show it
_TIMES = {"valid_from": "2026-03-02 14:00", "valid_to": "2026-03-02 14:00"}


class Reading(NamedTuple):
    """How a table is read: the field of each column, or "" for columns that are not imported.

    `is_exact`: empty cells clear their field, and tags that are not listed are detached. Otherwise empty cells change
    nothing and tags are added.
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
    return [line._replace(cells=_understood(line.cells, reading)) for line in lines]


def known_columns(kind: str, heading: Sequence[str]) -> list[str]:
    """Return the field of each column of a file, or nothing if a person has to choose them."""
    proposed = proposed_columns(kind, heading)
    return [] if None in proposed else [name or "" for name in proposed]


def proposed_columns(kind: str, heading: Sequence[str]) -> list[str | None]:
    """Return the field of each column of a file, "" for one that is not imported, and None for an unknown one."""
    fields = [_proposed(kind, name) for name in heading]
    return [None if name and fields.index(name) != at else name for at, name in enumerate(fields)]


def _proposed(kind: str, name: str) -> str | None:
    lowered = name.strip().lower()
    if lowered in COLUMNS[kind]:
        return lowered
    if is_property(kind, name.strip()):
        return name.strip()
    return "" if not lowered or lowered in _OWN else None


def is_property(kind: str, name: str) -> bool:
    return "metadata" in COLUMNS[kind] and name.startswith(PROPERTY) and name != PROPERTY and len(name) <= MAX_TEXT


def check_columns(kind: str, columns: Sequence[str]) -> None:
    """Raise Invalid if a chosen field does not exist, occurs twice, or none is chosen."""
    chosen = [name for name in columns if name]
    unknown = [name for name in chosen if name not in COLUMNS[kind] and not is_property(kind, name)]
    if unknown:
        message = N_("There is no field %(name)s")
        raise Invalid.one("columns", "invalid_value", fill(message, name=repr(unknown[0][:40])))
    twice = [name for name, number in Counter(chosen).items() if number > 1]
    if twice:
        message = N_("Two columns have the field %(name)s. Choose one")
        raise Invalid.one("columns", "invalid_value", fill(message, name=repr(twice[0][:40])))
    if "metadata" in chosen and any(name.startswith(PROPERTY) for name in chosen):
        message = N_("Import either metadata as a whole or single properties")
        raise Invalid.one("columns", "invalid_value", message)
    if missing := set(_REQUIRED.get(kind, ())) - set(chosen):
        raise Invalid.one("columns", "required", fill(N_("Choose a column for %(name)s"), name=min(missing)))
    if kind not in _REQUIRED and not set(chosen) & {"external_key", "name"}:
        raise Invalid.one("columns", "required", N_("Choose a column for external_key or name"))


def records_of(reading: Reading, rows: Sequence[RawRow], progress: Callable[[int], None]) -> list[NewRecord]:
    """Return a record for each row, with its errors. Raises Invalid if there are too many tags."""
    records = []
    count = len(rows) * len(reading.columns)
    for number, row in enumerate(rows, 1):
        record = _record(reading, row.line(reading.columns))
        records.append(record)
        count += len(record.tags)
        if count > table_files.MOST_VALUES:
            raise table_files.too_many_values(N_("There are more than %(number)s cells and tags; split the file"))
        if number % 100 == 0:
            progress(number)
    return list(_without_repeats(records))


def _record(reading: Reading, line: Line) -> NewRecord:
    """Return the record of a row with all of its errors."""
    cells = line.cells
    faults = [unpack(line.fault)] if line.fault else shortened(cells, _CODES, BETWEEN_TAGS)
    key = cells.get("external_key") or None
    parent = cells.get("parent_external_key")
    if not parent and not reading.is_exact:
        parent = None
    given: dict[str, Any] = {}
    tags: list[NewTag] = []
    if not line.fault:
        given = collected(faults, lambda: _given(reading, line, key)) or {}
        if parent:
            collected(faults, lambda: values.external_key("parent_external_key", parent))
        for tag_type, value in islice(_tag_cells(line), MAX_TAGS + 1):  # one more is an error
            if not is_shortened(value):
                checked = collected(faults, partial(_tag, tag_type, value))
                tags += [checked] if checked else []
    exact = [name for name in TAG_TYPES if name in cells] if reading.is_exact else []
    fault = packed_faults(faults)
    return NewRecord(line.number, key, given, tags, parent, fault, exact, _properties(reading, line), cells)


def _properties(reading: Reading, line: Line) -> dict[str, str | None] | None:
    """Return the properties of the metadata in columns of their own. None removes one."""
    named = {name[len(PROPERTY) :]: cell for name, cell in line.cells.items() if name.startswith(PROPERTY)}
    given = {name: cell or None for name, cell in named.items() if cell or reading.is_exact}
    return given or None


def _given(reading: Reading, line: Line, key: str | None) -> dict[str, Any]:
    """Return the values of the cells. Empty ones are left out, or clear their field."""
    cells = line.cells
    entered: dict[str, Any] = {
        name: cells[name].replace("\r\n", "\n") for name in ("name", "description") if cells.get(name)
    }
    faults: list[FieldError] = []
    for name, parse in (("is_active", _active), ("metadata", _metadata), *((name, _moment) for name in _TIMES)):
        if cells.get(name):
            try:
                entered[name] = parse(name, cells[name], reading)
            except Invalid as error:
                faults += error.fields
    own_key = {"external_key": key} if key and not is_shortened(key) else {}
    try:
        judged = values_of(_CREATE[reading.kind], {"name": "-", **entered, **own_key})
    except Invalid as error:
        raise Invalid([*error.fields, *faults]) from error
    if faults:
        raise Invalid(faults)
    empty = {name: None for name in _CLEARED if reading.is_exact and cells.get(name) == ""}
    if "metadata" in empty:
        empty["metadata"] = _NO_METADATA
    return {name: judged[name] for name in entered} | empty


_CLEARED = ("description", "valid_to", "metadata")  # other fields cannot be empty
_NO_METADATA: Any = "{}"


def _active(name: str, cell: str, _: Reading) -> bool:
    is_active = yes_or_no(cell)
    if is_active is None:
        message = fill(N_("is_active must be yes or no, not %(value)s"), value=repr(cell[:20]))
        raise Invalid.one(name, "invalid_value", message)
    return is_active


def _metadata(name: str, cell: str, _: Reading) -> dict[str, Any]:
    try:
        value = strict_json.parse(cell.encode())
    except (ValueError, EdgeError):
        value = None
    if not isinstance(value, dict):
        message = N_('metadata must be a JSON object such as {"color": "blue"}')
        raise Invalid.one(name, "invalid_value", message)
    return value


def _moment(name: str, cell: str, reading: Reading) -> str:
    """Return a time as the API expects it. Without an offset it is in the zone of the site."""
    written = _DATE.sub(lambda match: f"{match[3]}-{int(match[2]):02}-{int(match[1]):02}{match[4]}", cell)
    try:
        moment = datetime.fromisoformat(written)
        return clock.rfc3339(clock.to_micros(moment if moment.tzinfo else moment.replace(tzinfo=reading.zone)))
    except (ValueError, OverflowError):
        message = N_("%(column)s must be a time such as %(example)s, not %(value)s")
        message = fill(message, column=name, example=_TIMES[name], value=repr(cell[:30]))
        raise Invalid.one(name, "invalid_value", message) from None


def _tag(tag_type: str, value: str) -> NewTag:
    return NewTag(tag_type, values.typed_tag_value(tag_type, value))


def _tag_cells(line: Line) -> Iterator[tuple[str, str]]:
    for kind in TAG_TYPES:
        for value in line.cells.get(kind, "").split(BETWEEN_TAGS):
            if value.strip():
                yield kind, value.strip()


def _understood(cells: Mapping[str, str], reading: Reading) -> dict[str, str]:
    shown = dict(cells)
    is_active = yes_or_no(cells.get("is_active", ""))
    if is_active is not None:
        shown["is_active"] = "yes" if is_active else "no"
    for name in _TIMES:
        if cells.get(name):
            try:
                shown[name] = _moment(name, cells[name], reading)
            except Invalid:
                continue
    return shown


def _without_repeats(records: Sequence[NewRecord]) -> Iterator[NewRecord]:
    """Report an error for the second row with the same key or tag."""
    keys: dict[str, int] = {}
    tags: dict[NewTag, int] = {}
    for record in records:
        faults: list[str] = []
        if record.external_key and keys.setdefault(record.external_key, record.line) != record.line:
            faults.append(fill(N_("the key is also in line %(line)s"), line=keys[record.external_key]))
        for tag in record.tags:
            if tags.setdefault(tag, record.line) != record.line:
                message = N_("tag %(tag)s is also in line %(line)s")
                faults.append(fill(message, tag=f"{tag.tag_type}:{tag.value}", line=tags[tag]))
        before = [unpack(record.fault)] if record.fault else []
        yield record._replace(fault=packed_faults([*before, *faults])) if faults else record
