"""Excel files (XLSX): the first sheet as a table of text, and tables as a sheet.

The libraries are those of the extra `xlsx`. A small file can expand to any size, so it is checked before it is opened:
sizes of its parts, numbers of rows, cells and texts. Formulas are not evaluated; their saved results count.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from importlib.util import find_spec
from itertools import chain
from tempfile import TemporaryFile
from typing import IO, Any

from edge.errors import Invalid
from edge.texts import N_, Count, fill
from edge.validation.csv_text import time_text
from edge.validation.tables import RawTable, table_from, unusable

EXTRA = "edge[xlsx]"
MOST_EXPANDED = 128 * 1024 * 1024  # bytes of all parts
_EXPANDED_OF_ROW, _ELEMENTS_OF_ROW = 4096, 60  # for each row that the reader takes: what is dropped costs time, too
_EXPANDED_OF_REST, _ELEMENTS_OF_REST = 4 * 1024 * 1024, 20_000
MOST_OF_OTHER_PART = 2 * 1024 * 1024  # bytes of a part that is neither a sheet nor the shared texts
MOST_PARTS = 500
MOST_TEXTS = 600_000  # shared
MOST_OF_TEXTS = 32 * 1024 * 1024  # bytes of the shared texts
MOST_CELLS = 256  # in a row
MOST_VALUES = 1_000_000  # cells with a value, in a sheet
MOST_CHARACTERS = 16 * 1024 * 1024  # of all cells
MOST_ROW_NUMBER = 60_000  # including blank rows
MOST_ROWS = 300_000  # in the file, also with one number
MOST_KEPT = 35_000_000  # bytes that the library takes for the elements of a part
MOST_OF_ROW = 8_000_000  # bytes that it takes for those of a row or a text, with their texts
MOST_OF_TOKEN = 1024 * 1024  # bytes of a tag or comment, which the parser holds as a whole
MOST_NAMES = 2_000  # different names of elements and attributes, which it holds until the end
MOST_DEPTH = 100
_OF_ELEMENT, _OF_ATTRIBUTE, _LONGEST_NAME = 700, 64, 1_000
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_ROW, _TEXT = f"{_MAIN} row", f"{_MAIN} si"
_STRICT = "http://purl.oclc.org/ooxml/spreadsheetml/main"
_USUAL = (  # names of a Strict Open XML workbook, and those that the library knows
    (_STRICT.encode(), _MAIN.encode()),
    (
        b"http://purl.oclc.org/ooxml/officeDocument/relationships",
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    ),
)
_STYLES, _OF_DATES = "xl/styles.xml", (f"{{{_MAIN}}}numFmts", f"{{{_MAIN}}}cellXfs")
_MOST_OF = {  # elements that have a limit of their own
    "row": (MOST_ROWS, N_("the number of its rows")),
    "c": (MOST_CELLS, N_("a row with more than %(number)s cells")),
    "v": (MOST_VALUES, N_("more than %(number)s cells with a value")),
    "si": (MOST_TEXTS, N_("the number of different texts")),
}
MOST_OF_CELL = 32_767  # characters; Excel drops those beyond
_AS_TEXT = "@"  # keeps leading zeros when a cell is edited
_DATES = {"days": "yyyy-mm-dd", "seconds": "yyyy-mm-dd hh:mm:ss", "milliseconds": "yyyy-mm-dd hh:mm:ss.000"}
_SIGNATURE = b"PK\x03\x04"
_BLOCK = 65_536
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # LZMA may ask for gigabytes
# Errors of the libraries for damaged files; `SyntaxError` is that of XML.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, SyntaxError, LookupError, ValueError, TypeError),
    *(AttributeError, ArithmeticError, OSError, RuntimeError, EOFError),
)
_ESCAPED = re.compile(r"_x(005[Ff]|00[01][0-9A-Fa-f])_")  # how Excel writes control characters, and "_" before x
_ERRORS = ("#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NULL!", "#NUM!")


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
    from xml.parsers.expat import ExpatError  # most sites never read such a file

    try:
        data = _usual_names(data) if _check(data, most) else data
        return _first_sheet(data, most, heading_line, known)
    except (*_DAMAGED, ExpatError) as error:
        message = N_("The file is damaged or no Excel workbook. Save it again in Excel, or save the table as CSV")
        raise unusable(message) from error


def _check(data: bytes, most: int) -> bool:
    """Refuse a file that would take much memory or time for `most` rows, by reading all of its parts once.

    Returns True if Strict.
    """
    from xml.parsers.expat import ExpatError

    is_strict, elements = False, _ELEMENTS_OF_REST + _ELEMENTS_OF_ROW * most
    most_expanded = min(MOST_EXPANDED, _EXPANDED_OF_REST + _EXPANDED_OF_ROW * most)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        _check_names({member.filename for member in members})
        if len(members) > MOST_PARTS or sum(member.file_size for member in members) > most_expanded:
            raise _too_large(fill(N_("its parts")))
        if len({member.filename for member in members}) < len(members):
            raise unusable(N_("The file is not an Excel workbook: a part occurs twice"))
        if any(member.compress_type not in _COMPRESSIONS for member in members):
            raise unusable(N_("The file is not an Excel workbook: it is compressed in another way than Excel does"))
        for member in members:
            name = member.filename.lower()
            is_sheet, is_texts = "/worksheets/" in name, "sharedstrings" in name
            if member.file_size > (MOST_EXPANDED if is_sheet else MOST_OF_TEXTS if is_texts else MOST_OF_OTHER_PART):
                raise _too_large(member.filename[:40])
            with archive.open(member) as stream:
                if name.endswith((".xml", ".rels")):
                    part = _check_part(stream, is_sheet, is_texts, elements)
                    is_strict, elements = is_strict or part.is_strict, part.left
                else:  # the workbook may name any part as its sheet
                    with suppress(ExpatError):
                        _check_part(stream, False, False, elements)
    return is_strict


def _check_names(names: Collection[str]) -> None:
    """Name another kind of ZIP file."""
    if "content.xml" in names and "mimetype" in names:
        raise unusable(N_("The file is an OpenDocument file. Save the table as Excel workbook (.xlsx) or CSV"))
    if "[Content_Types].xml" not in names:
        raise unusable(N_("The file is a ZIP file, not an Excel workbook. Choose the file of the table"))


def _check_part(stream: IO[bytes], is_sheet: bool, is_texts: bool, most_elements: int) -> _Part:
    """Count the elements that the library would build from a part, before it does. Refuses entities, which expand."""
    from xml.parsers.expat import ParserCreate

    def refuse(*_: Any) -> None:
        raise unusable(N_("The file is not an Excel workbook: it declares a document type"))

    parser = ParserCreate(namespace_separator=" ")
    part = _Part(is_sheet, is_texts, most_elements)
    parser.StartElementHandler, parser.EndElementHandler = part.begin, part.end
    parser.CharacterDataHandler, parser.StartNamespaceDeclHandler = part.text, part.declare
    parser.StartDoctypeDeclHandler = refuse
    size = 0
    while block := stream.read(_BLOCK):
        parser.Parse(block)
        size += len(block)
        if size - parser.CurrentByteIndex > MOST_OF_TOKEN or len(parser.intern) > MOST_NAMES:
            raise _too_large(fill(N_("the length of a tag")))
    parser.Parse(b"", True)
    return part


class _Part:
    """Bytes that the library keeps of a part: all elements, but in a sheet those of one row, in the texts those of
    one text. Rows and texts elsewhere than Excel has them free nothing. `left`: elements that may follow.
    """

    def __init__(self, is_sheet: bool, is_texts: bool, most_elements: int) -> None:
        self.left = most_elements
        self._unit, self._depth_of_unit = (_ROW, 3) if is_sheet else (_TEXT, 2)
        self._has_units, self._is_in_unit, self.is_strict = is_sheet or is_texts, False, False
        self._kept = self._of_unit = self._texts_kept = self._depth = 0
        self._prefixes: set[str] = set()
        self._numbers = Counter[str]()

    def begin(self, name: str, values: dict[str, str]) -> None:
        """Count an element with its attributes."""
        namespace, _, local = name.rpartition(" ")
        self._depth += 1
        if namespace == _STRICT:
            self.is_strict, name = True, f"{_MAIN} {local}"
        if local == "Override":
            _check_kind(values.get("PartName", "").lower(), values.get("ContentType", "").lower())
        cost = len(name) + sum(_OF_ATTRIBUTE + len(key) + _size(value) for key, value in values.items())
        if self._has_units and self._depth == self._depth_of_unit and name == self._unit:
            self._is_in_unit, self._of_unit, self._numbers["c"] = True, 0, 0
            self._keep(cost - len(name))  # the library keeps the attributes of rows
        else:
            self._count(_OF_ELEMENT + cost)
        self.left -= 1
        if self._depth > MOST_DEPTH or self.left < 0:
            raise _too_large(fill(N_("the number of its elements")))
        counted = "v" if local == "is" else local
        if counted in _MOST_OF:
            self._numbers[counted] += 1
            most, message = _MOST_OF[counted]
            if self._numbers[counted] > most:
                raise _too_large(fill(message, number=Count(most)))

    def end(self, _: str) -> None:
        """End an element."""
        if self._is_in_unit and self._depth == self._depth_of_unit:
            self._is_in_unit = False
        self._depth -= 1

    def text(self, characters: str) -> None:
        """Count a piece of text, and all texts of the part of shared texts."""
        self._count(_size(characters))
        if self._unit == _TEXT and self._has_units:
            self._texts_kept += _size(characters)
            if self._texts_kept > MOST_OF_TEXTS:
                raise _too_large(fill(N_("its texts")))

    def declare(self, prefix: str | None, uri: str | None) -> None:
        """Count a namespace: the parser keeps its prefix."""
        self._prefixes.add(prefix or "")
        if len(self._prefixes) > MOST_NAMES or len(prefix or "") + len(uri or "") > _LONGEST_NAME:
            raise _too_large(fill(N_("the number of its elements")))

    def _count(self, cost: int) -> None:
        if not self._is_in_unit:
            self._keep(cost)
            return
        self._of_unit += cost
        if self._of_unit > MOST_OF_ROW:
            raise _too_large(fill(N_("the size of a row")))

    def _keep(self, cost: int) -> None:
        self._kept += cost
        if self._kept > MOST_KEPT:
            raise _too_large(fill(N_("the number of its elements")))


def _size(text: str) -> int:
    """Return the most bytes that a text takes: with one wide character, all are wide."""
    return len(text) if text.isascii() else 4 * len(text)


def _check_kind(part: str, kind: str) -> None:
    """Refuse a workbook that uses a sheet or the texts, which may be large, as another part."""
    is_sheet, is_texts = "/worksheets/" in part, "sharedstrings" in part
    if (is_sheet and not kind.endswith("worksheet+xml")) or (is_texts and not kind.endswith("sharedstrings+xml")):
        raise unusable(N_("The file is not an Excel workbook: a part has another type than its name"))


def _first_sheet(data: bytes, most: int, heading_line: int, known: Collection[str]) -> RawTable:
    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about extensions, which are not read, and the styles that replace others
        workbook = openpyxl.load_workbook(_with_plain_styles(data), read_only=True, data_only=True, keep_links=False)
        try:
            if not workbook.worksheets:
                raise unusable(N_("The workbook has no sheet"))
            lines = workbook.worksheets[0].iter_rows(max_col=MOST_CELLS, max_row=MOST_ROW_NUMBER, values_only=True)
            return table_from(_texts(lines), most, _fault, heading_line, known)
        finally:
            workbook.close()


def _usual_names(data: bytes) -> bytes:
    """Return a Strict Open XML workbook with the names that the library knows."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as strict, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as usual:
        for member in strict.infolist():
            with strict.open(member) as source, usual.open(member.filename, "w") as target:
                target.writelines(_renamed(source))
    return file.getvalue()


def _renamed(stream: IO[bytes]) -> Iterator[bytes]:
    rest, longest = b"", max(len(strict) for strict, _ in _USUAL)
    while block := stream.read(_BLOCK):
        rest += block
        for strict, usual in _USUAL:
            rest = rest.replace(strict, usual)
        yield rest[:-longest]
        rest = rest[-longest:]
    yield rest


def _with_plain_styles(data: bytes) -> IO[bytes]:
    """Return the workbook with only the styles that tell a date from a number: the library refuses some others."""
    from xml.etree import ElementTree

    file = io.BytesIO(data)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        if _STYLES in archive.namelist():
            styles = ElementTree.fromstring(archive.read(_STYLES))  # noqa: S314  checked: no entities, small
            for part in list(styles):
                if part.tag not in _OF_DATES:
                    styles.remove(part)
            for style in styles.iterfind(f"{{{_MAIN}}}cellXfs/*"):
                number_format = style.get("numFmtId", "0")
                style.clear()
                style.set("numFmtId", number_format)
            archive.writestr(_STYLES, ElementTree.tostring(styles))
    file.seek(0)
    return file


def _texts(lines: Iterable[Sequence[Any]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with its number."""
    characters = 0
    for number, values in enumerate(lines, 1):
        cells = [_text(value) for value in values] if any(value is not None for value in values) else []
        while cells and not cells[-1]:
            cells.pop()
        characters += sum(map(len, cells))
        if characters > MOST_CHARACTERS:
            raise _too_large(fill(N_("its texts")))
        if cells:
            yield number, cells


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


def _text(value: Any) -> str:
    """Return the text of a cell: whole numbers without a point, times in ISO 8601, booleans as yes and no."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime):
        return time_text(value).removesuffix(" 00:00:00")
    if isinstance(value, time):
        return value.isoformat("seconds")
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), str(value)).replace("\r\n", "\n").strip()


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


def _too_large(part: str) -> Invalid:
    message = N_("The Excel file is too large to be opened safely (%(part)s). Save it as CSV")
    return Invalid.one("file", "too_large", fill(message, part=part))
