"""Converts the rows of a table with one row for each tag, with errors by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from edge.errors import Invalid
from edge.pages.records.csv_import_rows import Reading
from edge.records.csv_import import NewRecord
from edge.records.csv_import_tags import KINDS, line_of
from edge.records.tags import NewTag
from edge.texts import N_, fill
from edge.validation import values
from edge.validation.imported_rows import collected, packed_faults, shortened
from edge.validation.packed_texts import unpack
from edge.validation.tables import Line, RawRow

_CODES = ("external_key", "value")


def records_of(reading: Reading, rows: Sequence[RawRow], progress: Callable[[int], None]) -> list[NewRecord]:
    """Return a record for each row, with its errors."""
    records = []
    for number, row in enumerate(rows, 1):
        records.append(_record(row.line(reading.columns)))
        if number % 100 == 0:
            progress(number)
    return list(_with_listed(_without_repeats(records), is_exact=reading.is_exact))


def _record(line: Line) -> NewRecord:
    cells, faults = line.cells, [unpack(line.fault)] if line.fault else shortened(line.cells, _CODES)
    kind, key = cells.get("kind", "").lower() or KINDS[0], cells.get("external_key", "")
    tags: list[NewTag] = []
    if not faults:
        if kind not in KINDS:
            message = N_("kind must be asset or location, not %(value)s")
            faults.append(fill(message, value=repr(cells["kind"][:20])))
        collected(faults, lambda: values.external_key("external_key", key))
        tag = collected(faults, lambda: _tag(cells["tag_type"].lower(), cells["value"]))
        tags = [tag] if tag else []
    known = kind if kind in KINDS else KINDS[0]
    record = NewRecord(line.number, key or None, {}, tags, fault=packed_faults(faults), cells=cells)
    return line_of(record, known, None)


def _tag(tag_type: str, value: str) -> NewTag | None:
    """Return the tag of a row, or None for a record without tags."""
    if not tag_type and not value:
        return None
    if not tag_type or not value:
        raise Invalid.one("value", "required", N_("a tag needs tag_type and value"))
    return NewTag(values.tag_type("tag_type", tag_type), values.typed_tag_value("value", value))


def _without_repeats(records: Sequence[NewRecord]) -> Iterator[NewRecord]:
    """Report an error for the second row with the same tag."""
    lines: dict[NewTag, int] = {}
    for record in records:
        for tag in record.tags:
            if lines.setdefault(tag, record.line) != record.line:
                message = N_("tag %(tag)s is also in line %(line)s")
                fault = fill(message, tag=f"{tag.tag_type}:{tag.value}", line=lines[tag])
                record = record._replace(fault=packed_faults([fault]))
        yield record


def _with_listed(records: Iterator[NewRecord], *, is_exact: bool) -> Iterator[NewRecord]:
    """Give the first row of each record all of its tags, if tags that are not listed are detached."""
    listed: dict[tuple[str, str | None], list[NewTag]] = defaultdict(list)
    for record in records:
        name = (record.values["kind"], record.external_key)
        is_first = is_exact and name not in listed
        if is_exact:
            listed[name] += record.tags
        yield line_of(record, name[0], listed[name]) if is_first else record
