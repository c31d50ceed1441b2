"""Converts the rows of a table of readers, with errors by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from edge.errors import Invalid
from edge.readers.clocks import check_clock
from edge.readers.reader_table import OF_BOTH, OF_READER, as_saved
from edge.records.csv_import import NewRecord
from edge.texts import N_, fill
from edge.tracking.signal_strength import AntennaKind
from edge.validation import values
from edge.validation.imported_rows import collected, packed_faults, yes_or_no
from edge.validation.packed_texts import unpack
from edge.validation.tables import Line
from edge.validation.topics import check_filter

_CLEARED = ("status_topic", "mapping", "location", "min_rssi", "kind", "rssi_offset")  # fields that can be empty
LONGEST_PORT = 100


def records_of(lines: Iterable[Line], *, is_exact: bool) -> list[NewRecord]:
    """Return a record for each row, with its errors: `external_key` is the name, `values` the fields and the port.

    If `is_exact`, empty cells clear their field, and the row of a reader lists its antennas in the file.
    """
    return list(_with_antennas(list(_without_repeats(_record(line, is_exact) for line in lines)), is_exact=is_exact))


def port_of(record: NewRecord) -> str:
    """Return the antenna of a row by number or name, or "" for the row of a reader."""
    return str(record.values.get("port", ""))


def _record(line: Line, is_exact: bool) -> NewRecord:
    cells, faults = line.cells, [unpack(line.fault)] if line.fault else []
    name, port = cells.get("name", ""), _port(cells.get("port", ""))
    given: dict[str, Any] = {"port": port} if port else {}
    if not faults:
        faults += _faults_of_name(name, port, cells)
        for column in (*OF_READER, *OF_BOTH):
            if cells.get(column):
                given[column] = collected(faults, partial(_PARSERS[column], column, cells[column]))
            elif is_exact and column in cells and column in (*_CLEARED, *(["is_enabled"] if port else [])):
                given[column] = None
    return NewRecord(line.number, name or None, given, fault=packed_faults(faults), cells=cells)


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


def _filter(_: str, cell: str) -> str:
    check_filter(cell)
    return cell


def _clock(_: str, cell: str) -> str:
    check_clock(cell)
    return cell


def _enabled(column: str, cell: str) -> bool:
    is_enabled = yes_or_no(cell)
    if is_enabled is None:
        message = fill(N_("%(column)s must be yes or no, not %(value)s"), column=column, value=repr(cell[:20]))
        raise Invalid.one(column, "invalid_value", message)
    return is_enabled


def _kind(column: str, cell: str) -> str:
    if cell.lower() not in tuple(AntennaKind):
        message = fill(N_("An antenna is one of %(kinds)s"), kinds=", ".join(AntennaKind))
        raise Invalid.one(column, "invalid_value", message)
    return cell.lower()


_PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "topic": _filter,
    "status_topic": _filter,
    "format": lambda _, cell: cell,  # checked with the mapping
    "mapping": lambda _, cell: as_saved(cell),
    "clock_setting": _clock,
    "location": values.external_key,
    "min_rssi": values.signal_strength,
    "is_enabled": _enabled,
    "kind": _kind,
    "rssi_offset": values.decibels,
}


def _without_repeats(records: Iterable[NewRecord]) -> Iterator[NewRecord]:
    """Report an error for the second row of the same reader or antenna."""
    lines: dict[tuple[str | None, str], int] = {}
    for record in records:
        first = lines.setdefault((record.external_key, port_of(record)), record.line)
        if first != record.line and record.external_key:
            before = [unpack(record.fault)] if record.fault else []
            fault = fill(N_("this reader or antenna is also in line %(line)s"), line=first)
            record = record._replace(fault=packed_faults([*before, fault]))
        yield record


def _with_antennas(records: Sequence[NewRecord], *, is_exact: bool) -> Iterator[NewRecord]:
    """Give the row of each reader the antennas that are listed, if those that are not listed are reset."""
    listed: dict[str | None, list[str]] = {}
    for record in records:
        if port_of(record):
            listed.setdefault(record.external_key, []).append(port_of(record))
    for record in records:
        if is_exact and not port_of(record) and "port" in (record.cells or {}):
            record = record._replace(values={**record.values, "listed": listed.get(record.external_key, [])})
        yield record
