"""CSV files of spreadsheets: reads the usual separators and encodings, writes one form."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

from edge.errors import Invalid
from edge.texts import N_, Count, fill, shortened
from edge.validation.encodings import decode_any
from edge.validation.packed_texts import pack

MOST_ROWS = 50_000
MOST_OF_ROW = 200_000  # characters
SEPARATORS = (",", ";", "\t", "|")
CHUNK = 64 * 1024  # characters that are written together
MOST_NAMES, LONGEST_NAME = 5, 40  # of unknown columns in an error message
_MOST_JUDGED = 1_000  # rows
_SEPARATOR_LINE = re.compile(r"""["']?sep=([,;\t|])["']?(?:\r\n?|\n)""", re.IGNORECASE)
_TEXT_FORMULA = re.compile(r'="([^"]*)"')  # by which programs keep the zeros of a code from Excel
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_BEGINS_FORMULA = "=+@\uff1d\uff0b\uff0d\uff20-"  # also in full width
_FORMULA = (*_BEGINS_FORMULA, "\t", "\r")
_LISTED = ",;\t"  # separators that spreadsheets use without asking, by the settings of the computer
MARK = "\ufeff"  # without it, Excel takes UTF-8 for the local encoding


class Line(NamedTuple):
    """One row of a file. `number` is its line number in an editor; the heading is usually line 1.

    `fault` says why its cells cannot be assigned to columns, packed.
    """

    number: int
    cells: Mapping[str, str]
    fault: str = ""


class RawRow(NamedTuple):
    """One row of a file, with its cells in the order of the columns."""

    number: int
    cells: tuple[str, ...]
    fault: str = ""

    def line(self, names: Sequence[str]) -> Line:
        """Return the row with the names of its columns. Columns without a name are left out."""
        padded = self.cells + ("",) * (len(names) - len(self.cells))
        return Line(self.number, {name: cell for name, cell in zip(names, padded, strict=False) if name}, self.fault)


class RawTable(NamedTuple):
    heading: Sequence[str]
    rows: Sequence[RawRow]


def decode(data: bytes) -> str:
    """Return the text in its most likely encoding."""
    return decode_any(data).text


def separator_of(text: str) -> str:
    """Return the separator declared in the first line (`sep=;`, from Excel), else the one that divides the most rows
    into as many cells as the heading, then the most frequent in the heading.
    """
    return _named_separator(text) or max(SEPARATORS, key=partial(_rows_divided, text))


def _rows_divided(text: str, separator: str) -> tuple[int, int]:
    source, cells, divided = _Source(text), 0, 0
    with suppress(csv.Error, Invalid):  # said by the reading, if this is the separator
        for row in islice(csv.reader(source, delimiter=separator), _MOST_JUDGED):
            source.begin_row()
            cells = cells or len(row)
            divided += len(row) == cells > 1
    return divided, cells


def _named_separator(text: str) -> str:
    rows = _SEPARATOR_LINE.match(text)
    return rows[1] if rows else ""


class _Source:
    """Iterator of lines that bounds the length of a row: a quoted cell may span many lines."""

    def __init__(self, text: str) -> None:
        self._lines = _LINE.finditer(text)
        self._text = text
        self._row = 0

    def __iter__(self) -> _Source:
        return self

    def __next__(self) -> str:
        start, end = next(self._lines).span()
        self._row += end - start
        if self._row > MOST_OF_ROW:
            raise _unusable(
                fill(
                    N_("A row has more than %(number)s characters. Check for a missing quotation mark"),
                    number=Count(MOST_OF_ROW),
                )
            )
        return self._text[start:end]

    def begin_row(self) -> None:
        self._row = 0


def table_of(text: str, most: int = MOST_ROWS) -> RawTable:
    """Return the heading and the rows below it, without blank ones.

    Raises Invalid as soon as there are more than `most` rows.
    """
    if "\0" in text:
        raise _unusable(N_("The file is not a text file. Save the table as CSV"))
    separator = separator_of(text)
    source = _Source(text)
    reader = csv.reader(source, delimiter=separator)
    try:
        if _named_separator(text):
            next(reader)
        heading = [_plain(name.strip(), separator) for name in next(reader, [])]
        rows: list[RawRow] = []
        before = reader.line_num
        source.begin_row()
        for cells in reader:
            source.begin_row()
            number, before = before + 1, reader.line_num
            if any(cell.strip() for cell in cells):
                if len(rows) >= most:
                    raise too_many_rows(most)
                rows.append(_row(number, cells, len(heading), separator))
    except csv.Error as error:
        raise _unusable(fill(N_("Line %(line)s is not CSV: %(error)s"), line=reader.line_num, error=error)) from error
    return RawTable(heading, rows)


def too_many_rows(most: int) -> Invalid:
    message = fill(N_("There are more than %(number)s rows; split the file"), number=Count(most))
    return Invalid.one("file", "too_large", message)


def lines(text: str, columns: Sequence[str], required: Sequence[str], most: int = MOST_ROWS) -> list[Line]:
    """Return the rows below the heading, without blank ones.

    Raises Invalid for a wrong heading, and if there are more than `most` rows.
    """
    table = table_of(text, most)
    names = [name.lower() for name in table.heading]
    _check_heading(names, columns, required)
    return [row.line(names) for row in table.rows]


def _row(number: int, cells: Sequence[str], columns: int, separator: str) -> RawRow:
    fault = ""
    if any(cell.strip() for cell in cells[columns:]):
        fault = _too_many(number, len(cells), columns, separator)
    return RawRow(number, tuple(_plain(cell.strip(), separator) for cell in cells[:columns]), fault)


def _too_many(line: int, cells: int, columns: int, separator: str) -> str:
    name = "tab" if separator == "\t" else separator
    message = N_(
        "Line %(line)s has %(cells)s cells but the header has %(columns)s. "
        'Put values that contain "%(separator)s" in quotation marks'
    )
    return pack(fill(message, line=line, cells=cells, columns=columns, separator=name))


def _check_heading(names: Sequence[str], columns: Sequence[str], required: Sequence[str]) -> None:
    unknown = [repr(name[:LONGEST_NAME]) for name in names if name and name not in columns]
    if unknown:
        listed = shortened(unknown, MOST_NAMES)
        message = N_("There is no column %(names)s. The columns are %(columns)s")
        raise _unusable(fill(message, names=listed, columns=", ".join(columns)))
    missing = [name for name in required if name not in names]
    if missing:
        message = N_("The column %(name)s is missing. The columns are %(columns)s")
        raise _unusable(fill(message, name=repr(missing[0]), columns=", ".join(columns)))
    twice = next((name for name, number in Counter(names).items() if name and number > 1), "")
    if twice:
        raise _unusable(fill(N_("The column %(name)s occurs twice"), name=repr(twice)))


def write_rows(heading: Sequence[str], rows: Iterable[Sequence[Any]], separator: str = ",") -> Iterator[str]:
    """Yield the CSV file in chunks. Cells that a spreadsheet would evaluate as formulas are escaped."""
    part = io.StringIO(newline="")
    writer = csv.writer(part, delimiter=separator)
    part.write(MARK)
    writer.writerow([_harmless(name, separator) for name in heading])
    for row in rows:
        writer.writerow([_harmless(cell, separator) for cell in row])
        if part.tell() > CHUNK:
            yield part.getvalue()
            part.seek(0)
            part.truncate()
    yield part.getvalue()


def _harmless(cell: Any, separator: str) -> Any:
    """Return a cell as text, with an apostrophe before a formula, which makes it a text.

    A spreadsheet that expects another separator divides the cell there and at the ends of its lines, whether it is
    quoted or not. So a formula may also follow one of these.
    """
    if isinstance(cell, datetime):
        return time_text(cell)
    if not isinstance(cell, str):
        return cell
    cell = "'" + cell if cell.lstrip("'").startswith(_FORMULA) else cell
    return _divided(separator).sub(r"\1'", cell)


def time_text(moment: datetime) -> str:
    """Return a time as an import reads it: in seconds, or in milliseconds if it has a fraction."""
    return moment.isoformat(" ", "milliseconds" if moment.microsecond else "seconds")


def _plain(cell: str, separator: str) -> str:
    """Undo `_harmless`, and return the text of a formula that is only a text."""
    if formula := _TEXT_FORMULA.fullmatch(cell):
        return formula[1]
    cell = _escaped(separator).sub(r"\1", cell)
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_FORMULA) else cell


@cache
def _divided(separator: str) -> re.Pattern[str]:
    """Match a place where a spreadsheet may divide a cell before a formula."""
    return re.compile(rf"([{_others(separator)}])(?={_formula(separator)})")


@cache
def _escaped(separator: str) -> re.Pattern[str]:
    return re.compile(rf"([{_others(separator)}])'(?={_formula(separator)})")


def _others(separator: str) -> str:
    return _LISTED.replace(separator, "") + "\r\n"


def _formula(separator: str) -> str:
    """Return the pattern of the begin of a formula, with quotes and spaces that a spreadsheet may drop."""
    tab = "\t" if separator == "\t" else ""  # else it is a separator; in both, the time would be quadratic
    return rf"""['" {tab}]*[{_BEGINS_FORMULA}]"""


def _unusable(message: str) -> Invalid:
    return Invalid.one("file", "invalid_value", message)
