"""CSV files of spreadsheets: reads the usual separators and encodings, writes one form."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from itertools import islice
from typing import Any

from edge.errors import Invalid
from edge.texts import N_, Count, fill
from edge.validation.tables import MOST_ROWS, RawTable, table_from, unusable

MOST_OF_ROW = 200_000  # characters
SEPARATORS = (",", ";", "\t", "|")
CHUNK = 64 * 1024  # characters that are written together
_MOST_JUDGED = 1_000  # rows
_SEPARATOR_LINE = re.compile(r"""["']?sep=([,;\t|])["']?(?:\r\n?|\n)""", re.IGNORECASE)
_TEXT_FORMULA = re.compile(r'="([^"]*)"')  # by which programs keep the zeros of a code from Excel
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_BEGINS_FORMULA = "=+@\uff1d\uff0b\uff0d\uff20-"  # also in full width
_FORMULA = (*_BEGINS_FORMULA, "\t", "\r")
_LISTED = ",;\t"  # separators that spreadsheets use without asking, by the settings of the computer
MARK = "\ufeff"  # without it, Excel takes UTF-8 for the local encoding


def separator_of(text: str) -> str:
    """Return the separator declared in the first line (`sep=;`, from Excel), else the one that divides the most rows
    into the same number of cells, then the one that gives the most cells.
    """
    return _named_separator(text) or max(SEPARATORS, key=partial(_rows_divided, text))


def _rows_divided(text: str, separator: str) -> tuple[int, int]:
    source, widths = _Source(text), Counter[int]()
    with suppress(csv.Error, Invalid):  # said by the reading, if this is the separator
        for row in islice(csv.reader(source, delimiter=separator), _MOST_JUDGED):
            source.begin_row()
            widths[len(row)] += 1
    return max(((number, width) for width, number in widths.items() if width > 1), default=(0, 1))


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
            raise unusable(
                fill(
                    N_("A row has more than %(number)s characters. Check for a missing quotation mark"),
                    number=Count(MOST_OF_ROW),
                )
            )
        return self._text[start:end]

    def begin_row(self) -> None:
        self._row = 0


def table_of(
    text: str, most: int = MOST_ROWS, separator: str = "", heading_line: int = 0, known: Collection[str] = ()
) -> RawTable:
    """Return the heading and the rows below it, without blank ones. Raises Invalid as `table_from`.

    The separator and the line of the heading are guessed if they are not given.
    """
    if "\0" in text:
        raise unusable(N_("The file is not a text file. Save the table as CSV"))
    if text.lstrip().startswith("<"):
        raise unusable(N_("The file is a web page or XML. Open it in a spreadsheet and save it as CSV"))
    separator = separator or separator_of(text)
    source = _Source(text)
    reader = csv.reader(source, delimiter=separator)
    try:
        return table_from(_rows(text, reader, source, separator), most, partial(_fault, separator), heading_line, known)
    except csv.Error as error:
        message = N_("Line %(line)s cannot be read as CSV. Check for a missing quotation mark")
        raise unusable(fill(message, line=reader.line_num)) from error


def _rows(text: str, reader: Any, source: _Source, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with its line number."""
    if _named_separator(text):
        next(reader)
    before = reader.line_num
    for cells in reader:
        source.begin_row()
        number, before = before + 1, reader.line_num
        if any(cell.strip() for cell in cells):
            yield number, [_plain(cell.strip(), separator) for cell in cells]


def _fault(separator: str, number: int, cells: Sequence[str], heading: Sequence[str]) -> str:
    if not any(cells[len(heading) :]):
        return ""
    message = N_(
        "Line %(line)s has %(cells)s cells but the header has %(columns)s. "
        'Put values that contain "%(separator)s" in quotation marks'
    )
    name = "tab" if separator == "\t" else separator
    return fill(message, line=number, cells=len(cells), columns=len(heading), separator=name)


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
    cell = _divided(separator, "'").sub(r"\1", cell)
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_FORMULA) else cell


@cache
def _divided(separator: str, escape: str = "") -> re.Pattern[str]:
    """Match a place where a spreadsheet may divide a cell before a formula."""
    return re.compile(rf"([{_others(separator)}]){escape}(?={_formula(separator)})")


def _others(separator: str) -> str:
    return _LISTED.replace(separator, "") + "\r\n"


def _formula(separator: str) -> str:
    """Return the pattern of the begin of a formula, with quotes and spaces that a spreadsheet may drop."""
    tab = "\t" if separator == "\t" else ""  # else it is a separator; in both, the time would be quadratic
    return rf"""['" {tab}]*[{_BEGINS_FORMULA}]"""
