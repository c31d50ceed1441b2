"""From the lines of a CSV file to records, by the rules of the API, each with its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from edge.errors import EdgeError, Invalid
from edge.pages.forms import values_of
from edge.store.imports import NewRecord
from edge.store.tags import NewTag
from edge.validation import bodies, csv_text, values
from edge.validation.csv_text import Line
from edge.validation.values import TAG_TYPES

MOST_ROWS = 50_000
BETWEEN_TAGS = "|"  # in one cell; no usual tag has it
_YES, _NO = {"yes", "true", "1", "x", "y"}, {"no", "false", "0", "n"}
COLUMNS = {
    "asset": ("external_key", "name", "description", "is_active", *TAG_TYPES),
    "location": ("external_key", "name", "description", "is_active", "parent_external_key", *TAG_TYPES),
}
EXAMPLES = {
    "asset": ("PALLET-71", "Pallet 71", "Blue, for bottles", "yes", "3074257BF7194E4000001A85", "", "4006381333931"),
    "location": ("DOCK-1", "Dock 1", "", "yes", "HALL-1", "", "", ""),
}
_CREATE = {"asset": bodies.ASSET_CREATE, "location": bodies.LOCATION_CREATE}


def lines_of(kind: str, data: bytes) -> list[Line]:
    """Raises Invalid for a file that is no table of this kind."""
    lines = csv_text.lines(csv_text.decoded(data), COLUMNS[kind], ())
    if not lines:
        raise Invalid.one("file", "invalid_value", "There is no row below the heading")
    if len(lines) > MOST_ROWS:
        raise Invalid.one("file", "too_large", f"{len(lines):,} rows are too many; send at most {MOST_ROWS:,} at once")
    return lines


def records_of(kind: str, lines: Sequence[Line], progress: Callable[[int], None]) -> list[NewRecord]:
    """The errors of a row are kept in its record."""
    records = []
    for number, line in enumerate(lines, 1):
        records.append(_record(kind, line))
        if number % 100 == 0:
            progress(number)
    return list(_without_repeats(records))


def _record(kind: str, line: Line) -> NewRecord:
    key = line.cells.get("external_key") or None
    parent = line.cells.get("parent_external_key") or None
    try:
        entered = _entered(line)
        judged = values_of(_CREATE[kind], {"name": "-", **entered, **({"external_key": key} if key else {})})
        given = {name: judged[name] for name in entered}
        if parent:
            values.external_key("parent_external_key", parent)
        return NewRecord(line.number, key, given, list(_tags(line)), parent)
    except EdgeError as error:
        fault = "; ".join(one.message for one in error.fields) if isinstance(error, Invalid) else str(error)
        return NewRecord(line.number, key, {}, fault=fault)


def _entered(line: Line) -> dict[str, Any]:
    """An empty cell changes nothing in an existing record, and leaves the default in a new one."""
    entered: dict[str, Any] = {
        name: line.cells[name].replace("\r\n", "\n") for name in ("name", "description") if line.cells.get(name)
    }
    word = line.cells.get("is_active", "").lower()
    if word:
        if word not in _YES | _NO:
            raise Invalid.one("is_active", "invalid_value", "is_active is yes or no")
        entered["is_active"] = word in _YES
    return entered


def _tags(line: Line) -> Iterator[NewTag]:
    for kind in TAG_TYPES:
        for value in line.cells.get(kind, "").split(BETWEEN_TAGS):
            if value.strip():
                yield NewTag(kind, values.tag_value(kind, value.strip()))


def _without_repeats(records: Sequence[NewRecord]) -> Iterator[NewRecord]:
    """The same key or tag twice in one file is a fault of the second row, whichever of them was meant."""
    keys: dict[str, int] = {}
    tags: dict[NewTag, int] = {}
    for record in records:
        fault = record.fault
        if record.external_key and keys.setdefault(record.external_key, record.line) != record.line:
            fault = f"the key is in line {keys[record.external_key]}, too"
        for tag in record.tags:
            if tags.setdefault(tag, record.line) != record.line:
                fault = f"tag {tag.tag_type}:{tag.value} is in line {tags[tag]}, too"
        yield record._replace(fault=fault)
