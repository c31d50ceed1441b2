"""Encoding of a text file: judged by the letters of the languages of the pages, and by charset-normalizer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from types import MappingProxyType
from typing import NamedTuple

from edge.errors import Invalid
from edge.texts import N_, fill
from edge.validation.tables import UNREADABLE

# Encodings that office programs write, with titles for people to choose from.
ENCODINGS = {
    "utf-8": N_("Unicode (UTF-8)"),
    "utf-16": N_("Unicode (UTF-16)"),
    "cp1252": N_("Windows, Western Europe"),
    "cp1250": N_("Windows, Central Europe"),
    "cp1251": N_("Windows, Cyrillic"),
    "cp1253": N_("Windows, Greek"),
    "cp1254": N_("Windows, Turkish"),
    "cp1255": N_("Windows, Hebrew"),
    "cp1256": N_("Windows, Arabic"),
    "cp1257": N_("Windows, Baltic"),
    "cp874": N_("Windows, Thai"),
    "cp932": N_("Japanese (Shift-JIS)"),
    "euc-jp": N_("Japanese (EUC-JP)"),
    "gb18030": N_("Chinese, simplified (GBK)"),
    "cp950": N_("Chinese, traditional (Big5)"),
    "cp949": N_("Korean (EUC-KR)"),
    "koi8-r": N_("Cyrillic (KOI8-R)"),
    "mac-roman": N_("Macintosh"),
    "cp850": N_("DOS, Western Europe"),
    "cp852": N_("DOS, Central Europe"),
    "cp866": N_("DOS, Cyrillic"),
}
_LATIN = ("cp1252", "cp1250", "mac-roman", "cp850")  # whose letters are judged here
_OTHERS = [name for name in ENCODINGS if not name.startswith("utf")]
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_MOST_JUDGED = 20_000  # letters
_CLEARLY = {"cp1252": 1, "cp1250": 1, "mac-roman": 3, "cp850": 3}  # points by which the best encoding must lead
_MOST_SAMPLED = 20_000  # bytes of lines with other bytes than ASCII, for charset-normalizer and the samples
_CHAOS = 0.4  # that charset-normalizer may see in a possible text; its own limit of 0.2 is for whole documents
_MOST_WORDS, _LONGEST_WORD = 4, 20  # of a sample
_LINE, _FOREIGN = re.compile(rb"[^\r\n]+"), re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"[^\s,;|\"]*[^\x00-\x7f][^\s,;|\"]*")
_FOREIGN_WORD = re.compile(r"(?<![a-zA-Z])[^\W\d_a-zA-Z]{3,}(?![a-zA-Z])")  # unusual in Latin script
_OF_UTF_8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_MOST_BROKEN = 0.25  # bytes by character of UTF-8 in a file that still counts as such

# In the languages of the pages and their neighbors.
_USUAL = frozenset("äöüßàâæçéèêëîïôœùûüÿáéíñóúąćęłńśźżåøæőűěščřžůťďň")
_SIGNS = frozenset("–—„“”‘’‚«»…°§€²³µ×½¼·•¿¡®™")
_VOWELS = frozenset("aeiouyáéíóúąęäöü")


class Decoded(NamedTuple):
    """`is_certain` is False if another encoding is equally plausible. `samples`: words in each possible encoding."""

    text: str
    encoding: str
    is_certain: bool
    samples: Mapping[str, str] = MappingProxyType({})


def decode_as(data: bytes, encoding: str) -> Decoded:
    """Decode with a chosen encoding. Raises Invalid if the file is not in it; a few wrong bytes become UNREADABLE."""
    is_tolerant = encoding == "utf-8" and _broken_share(data) <= 1
    try:
        text = data.decode({"utf-8": "utf-8-sig"}.get(encoding, encoding), "replace" if is_tolerant else "strict")
    except UnicodeError as error:
        message = N_("The file is not %(encoding)s. Choose another encoding or save it as CSV UTF-8")
        message = fill(message, encoding=fill(ENCODINGS[encoding]))
        raise Invalid.one("file", "invalid_value", message) from error
    samples = {} if encoding == "utf-16" else _samples(data, [encoding, *_OTHERS])
    return Decoded(text, encoding, is_certain=True, samples=samples)


def decode_any(data: bytes) -> Decoded:
    """Decode by the byte order mark, else as valid Unicode, else in the most likely encoding."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return decode_as(data, encoding)
    if half := _half_of_utf_16(data):
        return Decoded(data.decode(half), "utf-16", is_certain=True)
    if _broken_share(data) <= _MOST_BROKEN:
        return decode_as(data, "utf-8")
    return _most_likely(data)


def _broken_share(data: bytes) -> float:
    """Return the bytes that are not UTF-8 by character that is: some in files that were joined from two encodings."""
    broken = data.decode(errors="replace").count(UNREADABLE) - data.count(UNREADABLE.encode())
    return broken / (sum(1 for _ in _OF_UTF_8.finditer(data)) or 0.1) if broken else 0


def _half_of_utf_16(data: bytes) -> str | None:
    """Return the byte order of UTF-16 without a mark, in which every second byte of Latin text is zero."""
    sample = data[:1000]
    if len(data) % 2 or len(sample) < 4:
        return None
    for encoding, zeros, others in (("utf-16-le", sample[1::2], sample[::2]), ("utf-16-be", sample[::2], sample[1::2])):
        if zeros.count(0) > len(zeros) * 0.7 and not others.count(0):
            return encoding
    return None


def _most_likely(data: bytes) -> Decoded:
    """Return the text in the Latin encoding with the most usual letters, if charset-normalizer has no other script."""
    own = _most_usual(data)
    ranked = _ranked(data)
    if own.is_certain and (not ranked or any(name in _LATIN for name in ranked[0])):
        order = [own.encoding]
    else:
        own, order = own._replace(is_certain=False), []
    names = [*order, *(name for some in ranked for name in some), own.encoding, *_OTHERS]
    names += ["utf-8"] if _broken_share(data) <= 1 else []
    samples = _samples(data, names)
    for name in samples:
        try:
            return Decoded(data.decode(name), name, own.is_certain, samples)
        except UnicodeDecodeError:
            continue
    return own._replace(samples=samples)


def _ranked(data: bytes) -> list[list[str]]:
    """Return the encodings that charset-normalizer finds possible, in groups of equal rank, best first."""
    from charset_normalizer import from_bytes  # most files are Unicode

    isolated = [name.replace("-", "_") for name in _OTHERS]
    matches = from_bytes(_sampled(data), cp_isolation=isolated, threshold=_CHAOS)
    groups = groupby(matches, lambda match: (match.chaos, match.coherence))
    return [[match.encoding.replace("_", "-") for match in group] for _, group in groups]


def _sampled(data: bytes) -> bytes:
    """Return the first lines with other bytes than ASCII."""
    lines, size = [], 0
    for found in _LINE.finditer(data.removeprefix(_MARKS[0][0])):
        line = found[0][:_MOST_SAMPLED]
        if not line.isascii():
            lines.append(line)
            size += len(line)
            if size > _MOST_SAMPLED:
                break
    return b"\n".join(lines)


def _samples(data: bytes, encodings: Sequence[str]) -> dict[str, str]:
    """Return some words that are not ASCII, in each encoding in which the lines can be read, in this order."""
    samples, sampled = {}, _sampled(data)
    for name in dict.fromkeys(encodings) if sampled else ():
        with suppress(UnicodeDecodeError):
            words = dict.fromkeys(_WORD.findall(sampled.decode(name, "replace" if name == "utf-8" else "strict")))
            samples[name] = ", ".join(word[:_LONGEST_WORD] for word in islice(words, _MOST_WORDS))
    return samples


def _most_usual(data: bytes) -> Decoded:
    candidates: list[tuple[float, int, str, str]] = []
    for order, encoding in enumerate(_LATIN):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        candidates.append((_points(text), -order, encoding, text))
    candidates.sort(reverse=True)
    best, _, encoding, text = candidates[0]  # Macintosh and DOS have a letter for every byte
    others = [points for points, _, _, other in candidates[1:] if other != text]
    is_usual = best > 0 and all(_points_of(*letter) > 0 for letter in _foreign(text)) and not _FOREIGN_WORD.search(text)
    return Decoded(text, encoding, is_usual and best - max([0, *others]) >= _CLEARLY[encoding])


def _points(text: str) -> float:
    return sum(_points_of(before, letter, after) for before, letter, after in _foreign(text))


def _foreign(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each non-ASCII letter with its neighbors, at most _MOST_JUDGED letters."""
    for found in islice(_FOREIGN.finditer(text), _MOST_JUDGED):
        number = found.start()
        yield text[number - 1 : number], found[0], text[number + 1 : number + 2]


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
