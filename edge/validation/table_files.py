"""Reads an uploaded file as a table: CSV in any usual form, or the first sheet of an Excel file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from edge.errors import Invalid
from edge.texts import N_, Count, fill
from edge.validation import csv_text, xlsx
from edge.validation.encodings import decode_any, decode_as
from edge.validation.tables import MOST_ROWS, RawRow, RawTable, unusable

MOST_COLUMNS = 100
_BYTES_OF_BYTE = 10  # memory per byte of a CSV file: text in several encodings, then cells
_BYTES_OF_WORKBOOK = 64 * 1024 * 1024  # texts of the cells, bounded by edge.validation.workbook
MOST_VALUES = 700_000  # cells and tags of a file: a record takes up to 130 bytes for each, also for an empty cell
_OTHERS = {  # files that are often taken for a table, by their first bytes
    b"\xd0\xcf\x11\xe0": N_("The file is an old Excel workbook (.xls) or protected. Save it as .xlsx or CSV"),
    b"%PDF": N_("The file is a PDF. Save the table as CSV"),
}


class Layout(NamedTuple):
    """How a file is read. Empty values are guessed. `heading` is the line of the heading."""

    encoding: str = ""
    separator: str = ""
    heading: int = 0


GUESSED = Layout()


class Table(NamedTuple):
    """A parsed file. `is_certain` is False if the encoding is a guess; `samples` has words in each possible one.

    `top` has the first rows, one of which is the heading. A workbook has no separator.
    """

    heading: Sequence[str]
    rows: Sequence[RawRow]
    layout: Layout
    is_certain: bool = True
    top: Sequence[RawRow] = ()
    samples: Mapping[str, str] = MappingProxyType({})


UNREAD = Table((), (), GUESSED)  # a workbook that is not read yet


def read_csv(data: bytes, layout: Layout = GUESSED, known: Collection[str] = (), most: int = MOST_ROWS) -> Table:
    """Parse a CSV file. `known` names of columns help to find the heading.

    Raises Invalid if it is not a table, or has more than `most` rows.
    """
    for begin, message in _OTHERS.items():
        if data.startswith(begin):
            raise unusable(message)
    decoded = decode_as(data, layout.encoding) if layout.encoding else decode_any(data)
    separator = layout.separator or csv_text.separator_of(decoded.text)
    raw = csv_text.table_of(decoded.text, most, separator, layout.heading, known)
    table = _table(raw, Layout(decoded.encoding, separator))
    return table._replace(is_certain=decoded.is_certain, samples=decoded.samples)


def read_workbook(data: bytes, layout: Layout = GUESSED, known: Collection[str] = (), most: int = MOST_ROWS) -> Table:
    """Read the first sheet of an Excel file. Raises Invalid."""
    return _table(xlsx.table_of(data, most, layout.heading, known), GUESSED)


def read(data: bytes, layout: Layout = GUESSED, known: Collection[str] = (), most: int = MOST_ROWS) -> Table:
    """Read a CSV or Excel file. Raises Invalid."""
    return (read_workbook if xlsx.is_workbook(data) else read_csv)(data, layout, known, most)


def memory_of(data: bytes) -> int:
    """Return the bytes of memory that reading a file takes at most."""
    return _BYTES_OF_WORKBOOK if xlsx.is_workbook(data) else _BYTES_OF_BYTE * len(data)


def _table(raw: RawTable, layout: Layout) -> Table:
    """Return the table. Raises Invalid if it is empty or has too many cells, also counting those that are missing."""
    if not raw.rows:
        raise unusable(N_("There are no rows below the header"))
    if len(raw.heading) > MOST_COLUMNS:
        message = fill(N_("There are more than %(number)s columns"), number=MOST_COLUMNS)
        raise Invalid.one("file", "too_large", message)
    if len(raw.rows) * len(raw.heading) > MOST_VALUES:
        raise too_many_values(N_("There are more than %(number)s cells; split the file"))
    return Table(raw.heading, raw.rows, layout._replace(heading=raw.heading_line), top=raw.top)


def too_many_values(message: str) -> Invalid:
    return Invalid.one("file", "too_large", fill(message, number=Count(MOST_VALUES)))
