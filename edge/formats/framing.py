"""Split a message into JSON objects, and combine their reads into one `Parsed`.

Readers send one object, an array of objects, or concatenated objects without a separator. An unreadable optional field
is left out, as with mappings, and its read is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from json import JSONDecodeError, JSONDecoder, dumps
from math import isfinite
from typing import Any, ParamSpec, TypeVar

from edge.formats import fields
from edge.formats.fields import Fields, Unreadable, describe
from edge.formats.reads import UNREADABLE_ANTENNA, Kind, Malformed, Parsed, Parser, PartialRead, Read, WallTime
from edge.formats.sensor_values import SensorValues
from edge.validation import json_text
from edge.validation.field_counts import FieldCount, add_counts

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
IGNORED = Parsed(Kind.IGNORED)
STATUS = Parsed(Kind.STATUS)
OFFLINE = Parsed(Kind.OFFLINE)

MOST_ENTRIES = 20_000  # of a message. A box takes 5,000 reads at once, and a million entries take seconds and 300 MB
_LONGEST_NOTE = 300
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_BLANKS = re.compile(r"[ \t\r\n]*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MARKS_OF_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a letter
_MOST_DAMAGED = 0.1  # share of characters; with more it is no text
_NO_UTF_8 = "\N{REPLACEMENT CHARACTER}"


def _finite(digits: str) -> float | str:
    number = float(digits)
    return number if isfinite(number) else digits


_next_value = JSONDecoder(strict=False, parse_float=_finite, parse_constant=str).raw_decode


def careful(parse: Parser) -> Parser:
    """Wrap a parser: errors caused by a message become Malformed.

    Any other exception would roll back a batch with messages of all readers, or break a page.
    """

    @wraps(parse)
    def parsed(topic: str, payload: bytes) -> Parsed:
        try:
            return parse(topic, payload)
        except Malformed:
            raise
        except Unreadable as reason:
            raise Malformed(str(reason)) from None
        except _FAULTS as error:
            raise Malformed(f"not readable: {type(error).__name__}") from error

    return parsed


def each(payload: bytes, read_object: Callable[[Fields], Parsed], if_binary: str = "") -> Parsed:
    """Parse each object of a message and combine the results. `if_binary`: see `documents`. Raises Malformed."""
    values = documents(payload, if_binary)
    if len(values) == 1 and isinstance(values[0], dict):
        return read_object(values[0])
    results = list(within_limit(read_object(value) for value in values if isinstance(value, dict)))
    return together(results, strays=len(values) - len(results))


def within_limit(results: Iterable[Parsed]) -> Iterator[Parsed]:
    """Yield the results of the parts of a message. Raises Malformed if they have too many entries together."""
    number = 0
    for result in results:
        number += len(result.reads) + result.skipped
        check_number(number)
        yield result


def check_number(number: int) -> None:
    """Raise Malformed if a message has too many entries."""
    if number > MOST_ENTRIES:
        raise Malformed(f"the message has more than {MOST_ENTRIES:,} entries; set the reader to send fewer at once")


def documents(payload: bytes, if_binary: str = "") -> list[Any]:
    """Return the values of a message: a single value, the elements of an array, or concatenated values.

    Damaged text is decoded, too, because gateways repeat names that any device may send. `if_binary`: what to say of
    a message that is no text. Raises Malformed.
    """
    try:
        values = [json_text.decode(payload)]
    except json_text.NotJson as refusal:
        values = _values_in_text(bare(payload), refusal, if_binary)
    if len(values) == 1 and isinstance(values[0], str) and values[0].lstrip()[:1] in ("{", "["):  # JSON encoded twice
        return documents(values[0].encode())
    entries = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    check_number(len(entries))
    return entries


def as_text(payload: bytes) -> str:
    """Decode UTF-8. Some unreadable bytes become U+FFFD. Raises Malformed if there are many."""
    text = bare(payload).decode(errors="replace")
    if text.count(_NO_UTF_8) > _MOST_DAMAGED * len(text):
        raise Malformed("not UTF-8 text")
    return text


def bare(payload: bytes) -> bytes:
    """Remove a byte order mark, blanks and NUL bytes around the text. UTF-16 with a mark becomes UTF-8.

    Removes them only once: repeated removal would need 1 GiB for 1 MiB of marks.
    """
    if payload.startswith(_MARKS_OF_UTF_16):
        with suppress(UnicodeDecodeError):
            payload = payload.decode("utf-16").encode()
    return payload.removeprefix(_BYTE_ORDER_MARK).strip(b" \t\r\n\0")


def collect(entries: Iterable[object], read: Callable[[Fields], Read | PartialRead | None]) -> Parsed:
    """Parse a list of objects. Entries for which `read` returns None are not reads; unreadable ones are counted."""
    return gather(entries, read, only_objects=True)


def gather(
    entries: Iterable[Any], read: Callable[[Any], Read | PartialRead | None], *, only_objects: bool = False
) -> Parsed:
    """Parse a list of entries like `collect`; they need not be objects unless `only_objects`."""
    reads: list[Read] = []
    skipped = 0
    note = left_out = None
    for position, entry in enumerate(entries, start=1):
        check_number(position)
        if only_objects and not isinstance(entry, dict):
            skipped += 1
            note = note or f"entry {position}: {describe(entry)} where an object should be"
            continue
        try:
            parsed_read = read(entry)
        except Unreadable as reason:
            skipped += 1
            note = note or f"entry {position}: {reason}"
        else:
            if isinstance(parsed_read, PartialRead):
                left_out = left_out or f"{parsed_read.left_out}: left out"
                parsed_read = parsed_read.read
            if parsed_read is not None:
                reads.append(parsed_read)
    return Parsed(Kind.READS, tuple(reads), skipped, note or left_out) if reads or skipped else STATUS


def single(entry: Fields, read: Callable[[Fields], Read | PartialRead]) -> Parsed:
    """Parse an object with exactly one read."""
    try:
        parsed_read = read(entry)
    except Unreadable as reason:
        return Parsed(Kind.READS, skipped=1, note=str(reason))
    if isinstance(parsed_read, PartialRead):
        return Parsed(Kind.READS, (parsed_read.read,), note=f"{parsed_read.left_out}: left out")
    return Parsed(Kind.READS, (parsed_read,))


def together(results: list[Parsed], strays: int = 0) -> Parsed:
    """Combine the results of several objects. `strays`: number of values that are not objects.

    In a message with reads, strays and unrecognized objects count as skipped.
    """
    note = "; ".join(dict.fromkeys(result.note for result in results if result.note))[:_LONGEST_NOTE] or None
    counts = _added_fields(results)
    if any(result.kind is Kind.READS for result in results):
        reads = tuple(read for result in results for read in result.reads)
        unknown = sum(result.kind is Kind.IGNORED for result in results)
        return Parsed(Kind.READS, reads, strays + unknown + sum(result.skipped for result in results), note, counts)
    kinds = [result.kind for result in results if result.kind is not Kind.IGNORED]
    return Parsed(kinds[-1] if kinds else Kind.IGNORED, note=note, fields=counts)


def _added_fields(results: Iterable[Parsed]) -> dict[str, FieldCount]:
    counts: dict[str, FieldCount] = {}
    for result in results:
        add_counts(counts, result.fields)
    return counts


def _values_in_text(payload: bytes, refusal: json_text.NotJson, if_binary: str) -> list[Any]:
    """Parse concatenated or damaged JSON. Bytes that are not UTF-8 and halves of letters become U+FFFD.

    Control characters are kept. NaN, Infinity and numbers that are too large become text, which no field reads.
    """
    text = payload.decode(errors="replace")
    if not text.strip():
        raise Malformed("the message is empty")
    values: list[Any] = []
    start, number = _after_blanks(text, 0), 0
    try:
        while start < len(text):
            value, end = _next_value(text, start)
            values.append(value)
            number += len(value) if isinstance(value, list) else 1
            check_number(number)
            start = _after_blanks(text, end)
    except RecursionError:
        raise Malformed("not readable JSON: nested too deep") from None
    except JSONDecodeError:
        reason = "not UTF-8 text" if _NO_UTF_8 in text else f"not JSON: {refusal}"
        raise Malformed(if_binary if if_binary and _NO_UTF_8 in text else reason) from None
    except ValueError:
        raise Malformed("not readable JSON: a number with too many digits") from None
    if _SURROGATE.search(text):
        whole = dumps(values, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return list(json_text.decode(whole))
    return values


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return blanks.end() if blanks else start


class LeftOut(str):
    """Reason why a field is left out, in place of its value."""

    __slots__ = ()


def optional(read: Callable[Parameters, Value]) -> Callable[Parameters, Value | LeftOut]:
    """Wrap a function that reads a field: for an unreadable field it returns the reason."""

    @wraps(read)
    def read_or_reason(*args: Parameters.args, **more: Parameters.kwargs) -> Value | LeftOut:
        try:
            return read(*args, **more)
        except Unreadable as reason:
            return LeftOut(reason)

    return read_or_reason


antenna, instant, rssi = optional(fields.antenna), optional(fields.instant), optional(fields.rssi)
port_or_name = optional(fields.port_or_name)


def read_of(
    tag_type: str,
    value: str,
    aliases: tuple[str, ...] = (),
    antenna: int | LeftOut | None = None,
    rssi: float | LeftOut | None = None,
    observed_at: int | WallTime | LeftOut | None = None,
    antenna_name: str | None = None,
    sensors: SensorValues | None = None,
) -> Read | PartialRead:
    """Return a read with the optional fields that were readable."""
    if not (isinstance(antenna, LeftOut) or isinstance(rssi, LeftOut) or isinstance(observed_at, LeftOut)):
        return Read(tag_type, value, aliases, antenna, rssi, observed_at, antenna_name, sensors)
    reasons = [field for field in (antenna, rssi, observed_at) if isinstance(field, LeftOut)]
    port = UNREADABLE_ANTENNA if isinstance(antenna, LeftOut) else antenna
    strength = None if isinstance(rssi, LeftOut) else rssi
    time = None if isinstance(observed_at, LeftOut) else observed_at
    return PartialRead(Read(tag_type, value, aliases, port, strength, time, antenna_name, sensors), reasons[0])
