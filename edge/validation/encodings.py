"""Detection of the encoding of a text file, by the letters that each candidate gives."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from edge.errors import Invalid
from edge.texts import N_, fill

# Encodings that office programs write, with titles for people to choose from.
ENCODINGS = {
    "utf-8": N_("Unicode (UTF-8)"),
    "utf-16": N_("Unicode (UTF-16)"),
    "cp1252": N_("Windows, Western Europe"),
    "cp1250": N_("Windows, Central Europe"),
    "mac-roman": N_("Macintosh"),
    "cp850": N_("DOS, Western Europe"),
}
_OF_ONE_BYTE = ("cp1252", "cp1250", "mac-roman", "cp850")
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_MOST_JUDGED = 20_000  # letters
_CLEARLY = 1  # points by which the best encoding must lead

_USUAL = frozenset("äöüßàâæçéèêëîïôœùûüÿáéíñóúąćęłńśźżåøæ")  # in the languages of the pages and their neighbors
_SIGNS = frozenset("–—„“”‘’‚«»…°§€²³µ×½¼·•¿¡®™")
_VOWELS = frozenset("aeiouyáéíóúąęäöü")


class Decoded(NamedTuple):
    """`is_certain` is False if another encoding is equally plausible."""

    text: str
    encoding: str
    is_certain: bool


def decode_as(data: bytes, encoding: str) -> Decoded:
    """Decode with a chosen encoding. Raises Invalid if the file is not in it."""
    try:
        text = data.decode({"utf-8": "utf-8-sig"}.get(encoding, encoding))
    except UnicodeError as error:
        message = N_("The file is not %(encoding)s. Choose another encoding or save it as CSV UTF-8")
        message = fill(message, encoding=fill(ENCODINGS[encoding]))
        raise Invalid.one("file", "invalid_value", message) from error
    return Decoded(text, encoding, is_certain=True)


def decode_any(data: bytes) -> Decoded:
    """Decode by the byte order mark, else as valid Unicode, else in the encoding with the most usual letters."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return decode_as(data, encoding)
    if half := _half_of_utf_16(data):
        return Decoded(data.decode(half), "utf-16", is_certain=True)
    try:
        return Decoded(data.decode(), "utf-8", is_certain=True)
    except UnicodeDecodeError:
        return _most_usual(data)


def _half_of_utf_16(data: bytes) -> str | None:
    """Return the byte order of UTF-16 without a mark, in which every second byte of Latin text is zero."""
    sample = data[:1000]
    if len(data) % 2 or len(sample) < 4:
        return None
    for encoding, zeros, others in (("utf-16-le", sample[1::2], sample[::2]), ("utf-16-be", sample[::2], sample[1::2])):
        if zeros.count(0) > len(zeros) * 0.7 and not others.count(0):
            return encoding
    return None


def _most_usual(data: bytes) -> Decoded:
    candidates: list[tuple[float, int, str, str]] = []
    for order, encoding in enumerate(_OF_ONE_BYTE):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        candidates.append((_points(text), -order, encoding, text))
    candidates.sort(reverse=True)
    best, _, encoding, text = candidates[0]  # Macintosh and DOS have a letter for every byte
    others = [points for points, _, _, other in candidates[1:] if other != text]
    return Decoded(text, encoding, best > 0 and best - max(others, default=0) >= _CLEARLY)


def _points(text: str) -> float:
    return sum(_points_of(before, letter, after) for before, letter, after in _foreign(text))


def _foreign(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each non-ASCII letter with its neighbors, at most _MOST_JUDGED letters."""
    count = 0
    for number, letter in enumerate(text):
        if letter > "\x7f":
            yield text[number - 1 : number], letter, text[number + 1 : number + 2]
            count += 1
            if count == _MOST_JUDGED:
                return


def _points_of(before: str, letter: str, after: str) -> float:
    if letter.lower() in _USUAL:
        if letter.isupper() and before.islower():
            return -2  # a capital inside a word
        if letter in "ńñ" and (after.lower() in _VOWELS and after != "") != (letter == "ñ"):
            return -1  # Polish writes "ni" before vowels, Spanish has ñ only there
        return 1
    if letter in _SIGNS:
        return -1 if before.isalpha() and after.isalpha() and letter != "’" else 0.3
    return -1 if unicodedata.category(letter).startswith("L") else -2
