"""Excel files (XLSX): the first sheet as a table of text, and tables as a sheet.

The libraries are those of the extra `xlsx`. A program of its own reads a file: see `edge.validation.workbook`. Formulas
are not evaluated; their saved results count.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from importlib.util import find_spec
from itertools import chain
from tempfile import TemporaryFile
from typing import IO, Any

from edge.errors import Invalid
from edge.texts import N_, Count, fill
from edge.validation.csv_text import time_text
from edge.validation.tables import RawTable, table_from, unusable

EXTRA = "edge[xlsx]"
MOST_SECONDS = 10  # of processor time for a file, and one for each thousand of rows; 700,000 cells take 10 to 20
MOST_OF_CELL = 32_767  # characters; Excel drops those beyond
_AS_TEXT = "@"  # keeps leading zeros when a cell is edited
_DATES = {"days": "yyyy-mm-dd", "seconds": "yyyy-mm-dd hh:mm:ss", "milliseconds": "yyyy-mm-dd hh:mm:ss.000"}
_SIGNATURE = b"PK\x03\x04"
_ERRORS = ("#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NULL!", "#NUM!")
_UNUSABLE = {  # by the reason of the program that reads the file
    "no sheet": N_("The workbook has no sheet"),
    "OpenDocument": N_("The file is an OpenDocument file. Save the table as Excel workbook (.xlsx) or CSV"),
    "ZIP": N_("The file is a ZIP file, not an Excel workbook. Choose the file of the table"),
}
_DAMAGED = N_("The file is damaged or no Excel workbook. Save it again in Excel, or save the table as CSV")
_TOO_LARGE = {
    "parts": N_("its parts"),
    "texts": N_("its texts"),
    "cells": N_("more than %(number)s cells with a value"),
    "columns": N_("a row with more than %(number)s cells"),
    "limits": N_("the memory or time that it takes"),
}
_turn = threading.Lock()  # the memory of one program that reads a file is in the limits of the unit


def is_workbook(data: bytes) -> bool:
    """True for a ZIP file, which XLSX is."""
    return data.startswith(_SIGNATURE)


def is_available() -> bool:
    """True if the libraries are installed."""
    return find_spec("openpyxl") is not None and find_spec("xlsxwriter") is not None


def table_of(data: bytes, most: int, heading_line: int = 0, known: Collection[str] = ()) -> RawTable:
    """Return the first sheet. Raises Invalid if the file is not a workbook, too large, or the extra is missing."""
    if not is_available():
        raise unusable(
            fill(
                N_("Excel files need an extra on the box: %(command)s. Or save the table as CSV"),
                command=f"pip install '{EXTRA}'",
            )
        )
    with _turn, TemporaryFile() as file, TemporaryFile() as errors:
        file.write(data)
        file.seek(0)
        seconds = str(MOST_SECONDS + most // 1000)
        command = [sys.executable, "-I", "-m", "edge.validation.workbook", seconds]
        with subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=errors) as reader:  # noqa: S603  our own program
            try:
                return table_from(_lines(reader, errors), most, _fault, heading_line, known)
            finally:
                reader.kill()


def _lines(reader: subprocess.Popen[bytes], errors: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that the program prints. Raises Invalid if it refuses the file, or was ended."""
    for line in reader.stdout or ():
        row = json.loads(line)
        if row is True:
            return
        if isinstance(row, dict):
            raise _refused(row["reason"], row["number"])
        yield row[0], row[1]
    is_ended = reader.wait() != 1
    errors.seek(0)
    raise _refused("limits", 0) if is_ended or b"MemoryError" in errors.read() else unusable(_DAMAGED)


def _refused(reason: str, number: int) -> Invalid:
    if reason in _UNUSABLE:
        return unusable(_UNUSABLE[reason])
    message = N_("The Excel file is too large to be opened safely (%(part)s). Save it as CSV")
    part = fill(_TOO_LARGE[reason], number=Count(number))
    return Invalid.one("file", "too_large", fill(message, part=part))


def _fault(number: int, cells: Sequence[str], heading: Sequence[str]) -> str:
    if len(cells) > len(heading):
        message = N_("Line %(line)s has %(cells)s cells but the header has %(columns)s")
        return fill(message, line=number, cells=len(cells), columns=len(heading))
    for name, cell in zip(heading, cells, strict=False):
        if cell in _ERRORS:
            return fill(N_("%(column)s has the error %(error)s"), column=name, error=cell)
        if len(cell) >= MOST_OF_CELL:
            message = N_(
                "%(column)s has %(number)s characters or more, where Excel ends a text without notice. Use a CSV file"
            )
            return fill(message, column=name, number=Count(MOST_OF_CELL))
    return ""


def write(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> IO[bytes]:
    """Return a workbook with one sheet in a temporary file, at its beginning. Nothing in it is a formula.

    Its heading stays in place and has a filter. Raises Invalid for a text that is too long for a cell.
    """
    import xlsxwriter

    file = TemporaryFile()  # noqa: SIM115  the caller closes it
    options = {
        "constant_memory": True,  # rows go to a temporary file at once
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    try:
        with xlsxwriter.Workbook(file, options) as workbook:
            sheet = workbook.add_worksheet()
            formats = {name: workbook.add_format({"num_format": name}) for name in (_AS_TEXT, *_DATES.values())}
            last = max(len(heading) - 1, 0)
            sheet.set_column(0, last, 18, formats[_AS_TEXT])
            number = 0
            for number, row in enumerate(chain([heading], rows)):
                for column, cell in enumerate(row):
                    _write_cell(sheet, number, column, cell, formats)
            sheet.freeze_panes(1, 0)
            sheet.autofilter(0, 0, number, last)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _write_cell(sheet: Any, row: int, column: int, value: Any, formats: Mapping[str, Any]) -> None:
    """Write a time as a date of Excel, which has no time zone, unless it would be another time when it is read."""
    if isinstance(value, datetime) and _is_exact(value):
        kind = "milliseconds" if value.microsecond else "seconds"
        sheet.write_datetime(row, column, value.replace(tzinfo=None), formats[_DATES[kind]])
    elif isinstance(value, date) and not isinstance(value, datetime):
        sheet.write_datetime(row, column, value, formats[_DATES["days"]])
    elif isinstance(value, int | float):
        sheet.write_number(row, column, value)
    elif value not in ("", None):
        text = time_text(value) if isinstance(value, datetime) else str(value)
        if len(text) > MOST_OF_CELL:
            message = N_(
                "Row %(row)s, column %(column)s has more than %(number)s characters, too many for Excel. Choose CSV"
            )
            message = fill(message, row=row + 1, column=column + 1, number=Count(MOST_OF_CELL))
            raise Invalid.one("file", "too_large", message)
        sheet.write_string(row, column, text, formats[_AS_TEXT])


def _is_exact(moment: datetime) -> bool:
    """True if a time occurs once on its day, and Excel has that day."""
    return moment.year > 1900 and moment.utcoffset() == moment.replace(fold=1 - moment.fold).utcoffset()
