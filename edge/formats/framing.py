"""From the bytes of a message to the objects in it, and from what they told to one `Parsed`.

Readers send one object, an array of objects, or objects run together without a separator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from json import JSONDecodeError, JSONDecoder
from typing import Any

import orjson

from edge.formats.fields import Fields, Unreadable, describe
from edge.formats.reads import Kind, Malformed, Parsed, Parser, Read
from edge.validation.field_counts import FieldCount, add_counts

IGNORED = Parsed(Kind.IGNORED)
STATUS = Parsed(Kind.STATUS)
OFFLINE = Parsed(Kind.OFFLINE)

_LONGEST_NOTE = 300
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_BLANKS = re.compile(r"[ \t\r\n]*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MARKS_OF_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_find_end = JSONDecoder().raw_decode


def careful(parse: Parser) -> Parser:
    """Return the parser with whatever a message makes it raise as Malformed.

    Any other error undoes a batch with the messages of all readers, or breaks the page that shows the message.
    """

    @wraps(parse)
    def parsed(topic: str, payload: bytes) -> Parsed:
        try:
            return parse(topic, payload)
        except Malformed:
            raise
        except _FAULTS as error:
            raise Malformed(f"not readable: {type(error).__name__}") from error

    return parsed


def each(payload: bytes, read_object: Callable[[Fields], Parsed]) -> Parsed:
    """The combined result of all objects of a message."""
    found = documents(payload)
    if len(found) == 1 and isinstance(found[0], dict):
        return read_object(found[0])
    parts = [read_object(document) for document in found if isinstance(document, dict)]
    return together(parts, strays=len(found) - len(parts))


def documents(payload: bytes) -> list[Any]:
    """The values of a message: the one it is, the elements of its array, or those run together.

    What stands around the text is removed once: removed as often as there is some, 1 MiB of marks would take 1 GiB.
    """
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        payload = bare(payload)
        try:
            value = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            return _run_together(payload, error)
    if isinstance(value, dict):
        return [value]
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):  # turned into JSON twice on its way
        return documents(value.encode())
    return value if isinstance(value, list) else [value]


def bare(payload: bytes) -> bytes:
    """Without what some devices put around their text: a byte order mark, blanks, the NUL that ends a string in C.

    Text in UTF-16 that begins with its mark becomes UTF-8.
    """
    if payload.startswith(_MARKS_OF_UTF_16):
        with suppress(UnicodeDecodeError):
            payload = payload.decode("utf-16").encode()
    return payload.removeprefix(_BYTE_ORDER_MARK).strip(b" \t\r\n\0")


def collect(entries: Iterable[object], read: Callable[[Fields], Read | None]) -> Parsed:
    """The reads of a scan list. What `read` answers with None is no scan, what it cannot read is counted."""
    return gather(entries, read, only_objects=True)


def gather(entries: Iterable[Any], read: Callable[[Any], Read | None], *, only_objects: bool = False) -> Parsed:
    """As `collect`, of entries that need not be objects."""
    reads: list[Read] = []
    skipped = 0
    note = None
    for position, entry in enumerate(entries, start=1):
        if only_objects and not isinstance(entry, dict):
            skipped += 1
            note = note or f"entry {position}: {describe(entry)} where an object should be"
            continue
        try:
            found = read(entry)
        except Unreadable as reason:
            skipped += 1
            note = note or f"entry {position}: {reason}"
        else:
            if found is not None:
                reads.append(found)
    return Parsed(Kind.READS, tuple(reads), skipped, note) if reads or skipped else STATUS


def single(entry: Fields, read: Callable[[Fields], Read]) -> Parsed:
    """The read of an object that is one scan."""
    try:
        return Parsed(Kind.READS, (read(entry),))
    except Unreadable as reason:
        return Parsed(Kind.READS, skipped=1, note=str(reason))


def together(parts: list[Parsed], strays: int = 0) -> Parsed:
    """Several objects as one message. `strays` are values among them that are no objects.

    Beside reads, what is no object or of no known shape counts as skipped.
    """
    note = "; ".join(dict.fromkeys(part.note for part in parts if part.note))[:_LONGEST_NOTE] or None
    if any(part.kind is Kind.READS for part in parts):
        reads = tuple(read for part in parts for read in part.reads)
        unknown = sum(part.kind is Kind.IGNORED for part in parts)
        return Parsed(Kind.READS, reads, strays + unknown + sum(part.skipped for part in parts), note, _added(parts))
    told = [part.kind for part in parts if part.kind is not Kind.IGNORED]
    return Parsed(told[-1] if told else Kind.IGNORED, note=note, fields=_added(parts))


def _added(parts: Iterable[Parsed]) -> dict[str, FieldCount]:
    found: dict[str, FieldCount] = {}
    for part in parts:
        add_counts(found, part.fields)
    return found


def _run_together(payload: bytes, refusal: orjson.JSONDecodeError) -> list[Any]:
    """json finds where an object ends, orjson says what it is: so both framings are equally strict."""
    try:
        text = payload.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 text: byte {error.start + 1} cannot be read") from None
    if not text.strip():
        raise Malformed("the message is empty")
    found: list[Any] = []
    start = _after_blanks(text, 0)
    while start < len(text):
        if text[start] not in "{[":
            raise Malformed(f"not JSON: {refusal}")
        try:
            _, end = _find_end(text, start)
            value = orjson.loads(text[start:end])
        except RecursionError:
            raise Malformed("not readable JSON: nested too deep") from None
        except JSONDecodeError as error:
            raise Malformed(f"not JSON: {error}") from None
        except ValueError:
            raise Malformed("not readable JSON: a number with too many digits") from None
        found += value if isinstance(value, list) else [value]
        start = _after_blanks(text, end)
    return found


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return blanks.end() if blanks else start
