"""Rows of imported tables: values as spreadsheets write them, and the errors of a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from edge.errors import EdgeError, Invalid
from edge.texts import N_, fill, joined
from edge.validation.packed_texts import pack

Judged = TypeVar("Judged")
# In the languages of the pages, and as spreadsheets write booleans.
_YES = frozenset(["yes", "y", "true", "1", "x", "ja", "j", "wahr", "oui", "o", "vrai"]) | frozenset(
    ["sí", "si", "s", "verdadero", "tak", "t", "prawda"]
)
_NO = frozenset(["no", "n", "false", "0", "nein", "falsch", "non", "faux", "falso", "nie", "fałsz"])
# Spreadsheets save long numbers as displayed, such as 4,00638E+12. Other programs append `.0`.
_SHORTENED = re.compile(r"-?[0-9]+([.,][0-9]+)?E\+[0-9]+|[0-9]{6,}[.,]0+", re.IGNORECASE)
MOST_FAULTS = 20  # listed per row
MOST_OF_FAULTS = 1_000  # characters per row, packed
BYTES_BETWEEN_FAULTS = 40


def messages_of(error: EdgeError) -> list[str]:
    """Return what is wrong, field by field."""
    return [one.message for one in error.fields] if isinstance(error, Invalid) else [error.args[0]]


def collected(faults: list[str], judge: Callable[[], Judged]) -> Judged | None:
    """Return the result of `judge`, or None and add its errors to the list."""
    try:
        return judge()
    except EdgeError as error:
        faults += messages_of(error)
    return None


def packed_faults(faults: Sequence[str]) -> str:
    """Return the errors of a row, packed: a file can have many. Those beyond `MOST_OF_FAULTS` are only counted."""
    listed: list[str] = []
    left = MOST_OF_FAULTS - len(pack(_more(len(faults))))
    for fault in faults[:MOST_FAULTS]:
        left -= len(pack(fault)) + BYTES_BETWEEN_FAULTS
        if left >= 0:
            listed.append(fault)
        elif not listed:
            listed.append(f"{fault[: MOST_OF_FAULTS // 2]}…")
    more = len(faults) - len(listed)
    return pack(joined([*listed, *([_more(more)] if more else [])])) if faults else ""


def _more(number: int) -> str:
    return fill(N_("and %(number)s more"), number=number)


def is_shortened(code: str) -> bool:
    """True if a spreadsheet has converted the code to a number."""
    return _SHORTENED.fullmatch(code) is not None


def shortened(cells: Mapping[str, str], columns: Iterable[str], separator: str | None = None) -> list[str]:
    """Return errors for codes that a spreadsheet has converted to numbers. `separator`: between codes in one cell."""
    message = N_(
        "%(column)s: %(value)s was changed to a number by the spreadsheet. "
        "Format the column as text, enter the code again, and save the file"
    )
    return [
        fill(message, column=column, value=value)
        for column in columns
        for value in map(str.strip, cells.get(column, "").split(separator) if separator else [cells.get(column, "")])
        if is_shortened(value)
    ]


def yes_or_no(word: str) -> bool | None:
    """Return what a cell says, or None if it is neither yes nor no."""
    lowered = word.casefold()
    return lowered in _YES if lowered in _YES | _NO else None
