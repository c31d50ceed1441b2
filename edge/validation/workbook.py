"""Program that prints the rows of the first sheet of an Excel file: `-m edge.validation.workbook SECONDS < FILE`.

A small file can expand to any size, and the library has regular expressions that take quadratic time. So a process
of its own reads it, which can neither stop the service nor take its memory: the system ends it at its limits, such as
SECONDS of processor time.

Each line is a JSON list of the number of a row and its cells as text; the last one is `true`. A file that is refused
gets a line with an object instead: the reason, and the number that is too large.
"""

from __future__ import annotations

import io
import json
import re
import resource
import sys
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, time
from tempfile import TemporaryFile
from typing import IO, Any
from xml.etree import ElementTree

from edge.validation.csv_text import time_text

MOST_MEMORY = 256 * 1024 * 1024  # bytes of address space, 50 MB of it for Python and the library
MOST_EXPANDED = 128 * 1024 * 1024  # bytes of all parts
MOST_CELLS = 256  # in a row
MOST_VALUES = 700_000  # cells with a value
MOST_CHARACTERS = 16 * 1024 * 1024  # of all cells
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_USUAL = (  # names of a Strict Open XML workbook, and those that the library knows
    (b"http://purl.oclc.org/ooxml/spreadsheetml/main", _MAIN.encode()),
    (
        b"http://purl.oclc.org/ooxml/officeDocument/relationships",
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    ),
)
_STYLES, _OF_DATES = "xl/styles.xml", (f"{{{_MAIN}}}numFmts", f"{{{_MAIN}}}cellXfs")
_ESCAPED = re.compile(r"_x(005[Ff]|00[01][0-9A-Fa-f])_")  # how Excel writes control characters, and "_" before x
_BLOCK = 65_536


class Refused(Exception):
    """A file that is not read: a reason of `edge.validation.xlsx`, and the number that is too large."""


def main() -> None:
    """Print the rows of the file on the standard input."""
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    warnings.simplefilter("ignore")  # about extensions, which are not read, and the styles that replace others
    try:
        for row in rows_of(sys.stdin.buffer.read()):
            print(json.dumps(row))
        print("true")
    except Refused as refusal:
        print(json.dumps({"reason": refusal.args[0], "number": refusal.args[1]}))


def rows_of(data: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, each with its number. Raises Refused, or any error of the library."""
    import openpyxl

    workbook = openpyxl.load_workbook(_readable(data), read_only=True, data_only=True, keep_links=False)
    if not workbook.worksheets:
        raise Refused("no sheet", 0)
    yield from _texts(workbook.worksheets[0].iter_rows(max_col=MOST_CELLS + 1, values_only=True))


def _readable(data: bytes) -> IO[bytes]:
    """Return the workbook with the names that the library knows, and without the styles, since it refuses some."""
    file = TemporaryFile()  # noqa: SIM115  open until the process ends
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(file, "w") as readable:
        members = archive.infolist()
        names = {member.filename for member in members}
        if "content.xml" in names and "mimetype" in names:
            raise Refused("OpenDocument", 0)
        if "[Content_Types].xml" not in names:
            raise Refused("ZIP", 0)
        if sum(member.file_size for member in members) > MOST_EXPANDED:
            raise Refused("parts", 0)
        for member in members:
            with archive.open(member) as source, readable.open(member.filename, "w") as target:
                target.writelines([_plain_styles(source)] if member.filename == _STYLES else _renamed(source))
    return file


def _renamed(stream: IO[bytes]) -> Iterator[bytes]:
    rest, longest = b"", max(len(strict) for strict, _ in _USUAL)
    while block := stream.read(_BLOCK):
        rest += block
        for strict, usual in _USUAL:
            rest = rest.replace(strict, usual)
        yield rest[:-longest]
        rest = rest[-longest:]
    yield rest


def _plain_styles(stream: IO[bytes]) -> bytes:
    """Return only the styles that distinguish a date from a number."""
    styles = ElementTree.fromstring(b"".join(_renamed(stream)))  # noqa: S314  the process ends at its limits
    for part in list(styles):
        if part.tag not in _OF_DATES:
            styles.remove(part)
    for style in styles.iterfind(f"{{{_MAIN}}}cellXfs/*"):
        number_format = style.get("numFmtId", "0")
        style.clear()
        style.set("numFmtId", number_format)
    return ElementTree.tostring(styles)


def _texts(lines: Iterable[Sequence[Any]]) -> Iterator[tuple[int, list[str]]]:
    characters = values = 0
    blank: Sequence[Any] = ()  # the library repeats it for each row that the sheet leaves out, up to a million
    for number, row in enumerate(lines, 1):
        if row is blank or all(value is None for value in row):
            blank = row
            continue
        cells = [_text(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        characters += sum(map(len, cells))
        values += len(cells)
        if characters > MOST_CHARACTERS:
            raise Refused("texts", 0)
        if values > MOST_VALUES:
            raise Refused("cells", MOST_VALUES)
        if len(cells) > MOST_CELLS:
            raise Refused("columns", MOST_CELLS)
        if cells:
            yield number, cells


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


if __name__ == "__main__":
    main()
