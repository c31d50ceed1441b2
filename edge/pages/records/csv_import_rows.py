"""Converts lines of a CSV file to records by the rules of the API, with errors by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from edge.errors import EdgeError, FieldError, Invalid
from edge.pages.forms import values_of
from edge.records.csv_import import NewRecord
from edge.records.tags import NewTag
from edge.validation import bodies, csv_text, values
from edge.validation.csv_text import Line
from edge.validation.encodings import decode_any, decode_as
from edge.validation.values import TAG_TYPES

Judged = TypeVar("Judged")
MOST_ROWS = csv_text.MOST_ROWS
BYTES_OF_BYTE = 10  # memory per byte of a file: text in several encodings, then cells
BETWEEN_TAGS = "|"  # in one cell; unusual in tags
# In the languages of the pages, and as spreadsheets write booleans.
_YES = frozenset(["yes", "y", "true", "1", "x", "ja", "j", "wahr", "oui", "o", "vrai"]) | frozenset(
    ["sí", "si", "s", "verdadero", "tak", "t", "prawda"]
)
_NO = frozenset(["no", "n", "false", "0", "nein", "falsch", "non", "faux", "falso", "nie", "fałsz"])
_CODES = ("external_key", "parent_external_key", *TAG_TYPES)
# Spreadsheets save long numbers as displayed, such as 4,00638E+12. Other programs append `.0`.
_SHORTENED = re.compile(r"-?[0-9]+([.,][0-9]+)?E\+[0-9]+|[0-9]{6,}[.,]0+", re.IGNORECASE)
MOST_FAULTS = 5  # listed per row
PREVIEWED = 5  # rows
COLUMNS = {
    "asset": ("external_key", "name", "description", "is_active", *TAG_TYPES),
    "location": ("external_key", "name", "description", "is_active", "parent_external_key", *TAG_TYPES),
}
EXAMPLES = {
    "asset": ("PALLET-71", "Pallet 71", "Blue, for bottles", "yes", "3074257BF7194E4000001A85", "", "4006381333931"),
    "location": ("DOCK-1", "Dock 1", "", "yes", "HALL-1", "", "", ""),
}
_CREATE = {"asset": bodies.ASSET_CREATE, "location": bodies.LOCATION_CREATE}


class Table(NamedTuple):
    """A parsed file. `is_certain` is False if the encoding is a guess."""

    lines: Sequence[Line]
    encoding: str
    is_certain: bool
    separator: str

    @property
    def preview(self) -> list[Line]:
        """Return the first rows as parsed."""
        return [line._replace(cells=_understood(line.cells)) for line in self.lines[:PREVIEWED]]


def table_of(kind: str, data: bytes, encoding: str = "") -> Table:
    """Parse a file in the given encoding, or the most likely one. Raises Invalid if the table is of another kind."""
    decoded = decode_as(data, encoding) if encoding else decode_any(data)
    return Table(
        _lines_of(kind, decoded.text), decoded.encoding, decoded.is_certain, csv_text.separator_of(decoded.text)
    )


def lines_of(kind: str, data: bytes) -> Sequence[Line]:
    """Return the lines. Raises Invalid if the table is of another kind."""
    return table_of(kind, data).lines


def _lines_of(kind: str, text: str) -> list[Line]:
    lines = csv_text.lines(text, COLUMNS[kind], (), MOST_ROWS)
    if not lines:
        raise Invalid.one("file", "invalid_value", "There are no rows below the header")
    return lines


def records_of(kind: str, lines: Sequence[Line], progress: Callable[[int], None]) -> list[NewRecord]:
    """Return a record for each row, with its errors."""
    records = []
    for number, line in enumerate(lines, 1):
        records.append(_record(kind, line))
        if number % 100 == 0:
            progress(number)
    return list(_without_repeats(records))


def _record(kind: str, line: Line) -> NewRecord:
    """Return the record of a row with all of its errors."""
    faults = [line.fault] if line.fault else _shortened(line)
    key = line.cells.get("external_key") or None
    parent = line.cells.get("parent_external_key") or None
    given: dict[str, Any] = {}
    tags: list[NewTag] = []
    if not line.fault:
        given = _collected(faults, lambda: _given(kind, line, key)) or {}
        if parent:
            _collected(faults, lambda: values.external_key("parent_external_key", parent))
        for tag_type, value in _tag_cells(line):
            if not _SHORTENED.fullmatch(value):
                checked = _collected(faults, partial(_tag, tag_type, value))
                tags += [checked] if checked else []
    return NewRecord(line.number, key, given, tags, parent, _joined(faults))


def _collected(faults: list[str], judge: Callable[[], Judged]) -> Judged | None:
    """Return the result of `judge`, or None and add its errors to the list."""
    try:
        return judge()
    except EdgeError as error:
        faults += [one.message for one in error.fields] if isinstance(error, Invalid) else [str(error)]
    return None


def _joined(faults: Sequence[str]) -> str:
    more = len(faults) - MOST_FAULTS
    return "; ".join([*faults[:MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])])


def _shortened(line: Line) -> list[str]:
    """Return errors for codes that a spreadsheet has converted to numbers."""
    return [
        f"{column}: {value} was changed to a number by the spreadsheet. "
        "Format the column as text, enter the code again, and save the file"
        for column in _CODES
        for value in map(str.strip, line.cells.get(column, "").split(BETWEEN_TAGS))
        if _SHORTENED.fullmatch(value)
    ]


def _given(kind: str, line: Line, key: str | None) -> dict[str, Any]:
    """Return the non-empty cells. An empty cell keeps the saved value, or the default of a new record."""
    entered: dict[str, Any] = {
        name: line.cells[name].replace("\r\n", "\n") for name in ("name", "description") if line.cells.get(name)
    }
    word, faults = line.cells.get("is_active", ""), []
    if word:
        is_active = _is_yes(word)
        if is_active is None:
            faults.append(FieldError("is_active", "invalid_value", f"is_active must be yes or no, not {word[:20]!r}"))
        else:
            entered["is_active"] = is_active
    own_key = {"external_key": key} if key and not _SHORTENED.fullmatch(key) else {}
    try:
        judged = values_of(_CREATE[kind], {"name": "-", **entered, **own_key})
    except Invalid as error:
        raise Invalid([*error.fields, *faults]) from error
    if faults:
        raise Invalid(faults)
    return {name: judged[name] for name in entered}


def _is_yes(word: str) -> bool | None:
    lowered = word.casefold()
    return lowered in _YES if lowered in _YES | _NO else None


def _tag(tag_type: str, value: str) -> NewTag:
    return NewTag(tag_type, values.tag_value(tag_type, value))


def _tag_cells(line: Line) -> Iterator[tuple[str, str]]:
    for kind in TAG_TYPES:
        for value in line.cells.get(kind, "").split(BETWEEN_TAGS):
            if value.strip():
                yield kind, value.strip()


def _understood(cells: Mapping[str, str]) -> dict[str, str]:
    values = dict(cells)
    is_active = _is_yes(cells.get("is_active", ""))
    if is_active is not None:
        values["is_active"] = "yes" if is_active else "no"
    return values


def _without_repeats(records: Sequence[NewRecord]) -> Iterator[NewRecord]:
    """Report an error for the second row with the same key or tag."""
    keys: dict[str, int] = {}
    tags: dict[NewTag, int] = {}
    for record in records:
        faults = [record.fault] if record.fault else []
        if record.external_key and keys.setdefault(record.external_key, record.line) != record.line:
            faults.append(f"the key is also in line {keys[record.external_key]}")
        for tag in record.tags:
            if tags.setdefault(tag, record.line) != record.line:
                faults.append(f"tag {tag.tag_type}:{tag.value} is also in line {tags[tag]}")
        yield record._replace(fault=_joined(faults))
