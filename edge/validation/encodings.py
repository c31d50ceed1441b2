"""Encoding of a text file: judged by the letters of the languages of the pages, and by charset-normalizer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from types import MappingProxyType
from typing import NamedTuple

from edge.texts import N_, fill
from edge.validation.tables import UNREADABLE, unusable

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
_LATIN = ("cp1252", "cp1250", "mac-roman", "cp850")  # their letters are judged here
_OTHERS = [name for name in ENCODINGS if not name.startswith("utf")]
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_MOST_JUDGED = 20_000  # letters
_FEWEST = {"cp1252": 1, "cp1250": 1, "mac-roman": 3, "cp850": 3}  # letters that make an encoding certain
_MOST_SAMPLED = 20_000  # bytes of lines with other bytes than ASCII, for charset-normalizer and the samples
_CHAOS = 0.4  # that charset-normalizer may see in a possible text; its own limit of 0.2 is for whole documents
_MOST_WORDS, _LONGEST_WORD = 4, 20  # of a sample
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_UP_TO_A_SEPARATOR = re.compile(rb".*[ ,;\t]|.*", re.DOTALL)  # none of them is a part of a character in any encoding
_LINE, _FOREIGN = re.compile(rb"[^\r\n]+"), re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"(?<![^\s,;|\"])[^\s,;|\"]*[^\x00-\x7f][^\s,;|\"]*")  # tried once for each word
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
        raise unusable(message) from error
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
    """Return the text in a Latin encoding with usual letters only, if charset-normalizer sees no other script.

    Otherwise the first encoding is uncertain.
    """
    own, ranked = _usual(data), _ranked(data)
    is_certain = own is not None and (not ranked or any(name in _LATIN for name in ranked[0]))
    names = [*([own] if own and is_certain else []), *(name for some in ranked for name in some), *_OTHERS]
    samples = _samples(data, names + (["utf-8"] if _broken_share(data) <= 1 else []))
    decoded = ((name, _decoded(data, name)) for name in samples or names)  # some have a letter for every byte
    return next(Decoded(text, name, is_certain, samples) for name, text in decoded if text is not None)


def _decoded(data: bytes, encoding: str) -> str | None:
    with suppress(UnicodeDecodeError):
        return data.decode(encoding)
    return None


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
        line = found[0]
        if first := _NOT_ASCII.search(line):  # at the beginning of a character, in all encodings
            line = line[first.start() :]
            if len(line) > _MOST_SAMPLED:
                line = _UP_TO_A_SEPARATOR.match(line[:_MOST_SAMPLED])[0]  # type: ignore[index]  # always matches
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


def _usual(data: bytes) -> str | None:
    """Return the Latin encoding in which all letters are usual, None if there is none or if several differ."""
    texts: dict[str, str] = {}
    for name in _LATIN:
        text = _decoded(data, name)
        if text is not None and _is_usual(text, _FEWEST[name]):
            texts.setdefault(text, name)
    return next(iter(texts.values())) if len(texts) == 1 else None


def _is_usual(text: str, fewest: int) -> bool:
    letters = [found.start() for found in islice(_FOREIGN.finditer(text), _MOST_JUDGED)]
    number = sum(text[at].isalpha() for at in letters)
    return number >= fewest and not _FOREIGN_WORD.search(text) and all(_fits(text, at) for at in letters)


def _fits(text: str, at: int) -> bool:
    """True for a letter or sign that is usual between its neighbors."""
    before, letter, after = text[max(at - 1, 0) : at], text[at], text[at + 1 : at + 2]
    if letter.lower() not in _USUAL:
        return letter in _SIGNS and not (before.isalpha() and after.isalpha() and letter != "’")
    if letter.isupper() and before.islower():
        return False  # a capital inside a word
    is_before_vowel = after != "" and after.lower() in _VOWELS
    return letter not in "ńñ" or is_before_vowel == (letter == "ñ")  # Polish writes "ni" before vowels
