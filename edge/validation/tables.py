"""Tables of text: a heading, which may follow titles, and the rows below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from edge.errors import Invalid
from edge.texts import N_, Count, fill, shortened
from edge.validation.packed_texts import pack

MOST_ROWS = 50_000
MOST_TOP = 10  # rows among which the heading is
MOST_NAMES, LONGEST_NAME = 5, 40  # of unknown columns in an error message
UNREADABLE = "\ufffd"  # for bytes that are no character

# Return what is wrong with the cells of a row, or nothing. Gets its number, the cells, and the heading.
Fault = Callable[[int, Sequence[str], Sequence[str]], str]


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
        cells = {name: cell for name, cell in zip(names, padded, strict=False) if name}
        return Line(self.number, cells, self.fault or _unreadable(cells))


class RawTable(NamedTuple):
    """`top` has the first rows, among them the heading with its line number."""

    heading: Sequence[str]
    rows: Sequence[RawRow]
    heading_line: int
    top: Sequence[RawRow]


def table_from(
    lines: Iterator[tuple[int, Sequence[str]]], most: int, fault: Fault, heading_line: int, known: Collection[str]
) -> RawTable:
    """Return the table of rows that are not blank. Raises Invalid as soon as more than `most` are below the heading.

    Unless one of the first rows is `heading_line`, it is the first one with a `known` name, or with half of the most
    cells.
    """
    top = list(islice(lines, MOST_TOP))
    if all(number != heading_line for number, _ in top):
        heading_line = _guessed(top, known)
    heading = next((cells for number, cells in top if number == heading_line), ())
    rows: list[RawRow] = []
    for number, cells in chain((line for line in top if line[0] > heading_line), lines):
        if len(rows) >= most:
            raise too_many_rows(most)
        rows.append(RawRow(number, tuple(cells[: len(heading)]), pack(fault(number, cells, heading))))
    return RawTable(list(heading), rows, heading_line, [RawRow(number, tuple(cells)) for number, cells in top])


def names_of(heading: Sequence[str], columns: Sequence[str], required: Sequence[str]) -> list[str]:
    """Return the names of the columns as declared. Raises Invalid for an unknown, missing or repeated one."""
    names = [name.lower() for name in heading]
    unknown = [repr(name[:LONGEST_NAME]) for name in names if name and name not in columns]
    if unknown:
        listed = shortened(unknown, MOST_NAMES)
        message = N_("Remove or rename the column %(names)s. The columns are %(columns)s")
        raise unusable(fill(message, names=listed, columns=", ".join(columns)))
    missing = [name for name in required if name not in names]
    if missing:
        message = N_("The column %(name)s is missing. The columns are %(columns)s")
        raise unusable(fill(message, name=repr(missing[0]), columns=", ".join(columns)))
    twice = next((name for name, number in Counter(names).items() if name and number > 1), "")
    if twice:
        raise unusable(fill(N_("The column %(name)s occurs twice"), name=repr(twice)))
    return names


def too_many_rows(most: int) -> Invalid:
    message = fill(N_("There are more than %(number)s rows; split the file"), number=Count(most))
    return Invalid.one("file", "too_large", message)


def _guessed(top: Sequence[tuple[int, Sequence[str]]], known: Collection[str]) -> int:
    for number, cells in top:
        if any(cell.lower() in known for cell in cells):
            return number
    most = max((_filled(cells) for _, cells in top), default=0)
    return next((number for number, cells in top if _filled(cells) * 2 >= most), 1)


def _filled(cells: Sequence[str]) -> int:
    return sum(map(bool, cells))


def unusable(message: str) -> Invalid:
    """Return the error of a file that is not a table."""
    return Invalid.one("file", "invalid_value", message)


def _unreadable(cells: Mapping[str, str]) -> str:
    for name, cell in cells.items():
        if UNREADABLE in cell:
            message = N_("%(column)s: %(value)s has a character in another encoding than the rest of the file")
            return pack(fill(message, column=name, value=repr(cell[:40])))
    return ""
