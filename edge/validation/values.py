"""Validation of single values: each function returns the plain value, or raises Invalid for the given field."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from edge.errors import Invalid
from edge.texts import N_, Filled, fill
from edge.validation import strict_json, times

MAX_TEXT = 255  # characters of one line of input, or of one value from a device
MAX_NAME = MAX_TEXT
MAX_DESCRIPTION = 1024
MAX_KEY = MAX_TEXT
MAX_TAG_VALUE = MAX_TEXT
MAX_TAGS = 500  # per record: lists contain all tags of each record, and one with 100,000 would break every list
MAX_TAG_BYTES = 64 * 1024  # total size of the tag values of a record
MAX_METADATA_BYTES = 64 * 1024
MAX_METADATA_DEPTH = 32
MAX_INT64 = 2**63 - 1
TAG_TYPE_NAMES = {"rfid": "RFID", "ble": "BLE", "barcode": N_("Barcode")}  # with display names
TAG_TYPES = tuple(TAG_TYPE_NAMES)

FIELDS_OF_FORMS = (
    N_("code"),
    N_("description"),
    N_("external_key"),
    N_("metadata"),
    N_("name"),
    N_("parent_id"),
    N_("prefix"),
    N_("valid_from"),
    N_("valid_to"),
    N_("value"),
)

KEY_PATTERN = "^[A-Za-z0-9-]+$"
_CONTROL = r"\u0000-\u001f\u007f"
_INK = rf"[^{_CONTROL}\s\u0085]"  # in JavaScript the last one is no white space
NAME_PATTERN = rf"^{_INK}(?:[^{_CONTROL}]*{_INK})?$"
TEXT_PATTERN = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]*$"

_KEY = re.compile(r"[A-Za-z0-9-]+")
_ANY_CONTROL = re.compile(f"[{_CONTROL}]")
_UNTYPABLE_CONTROL = re.compile(r"[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]")


def name(field: str, value: str) -> str:
    _length(field, value, MAX_NAME)
    if value != value.strip() or _ANY_CONTROL.search(value):
        message = _about(field, N_("%(field)s must not begin or end with whitespace, nor contain control characters"))
        raise Invalid.one(field, "invalid_value", message, pattern=NAME_PATTERN)
    return value


def description(field: str, value: str) -> str:
    """Validate a text of one or more lines."""
    return _text(field, value, MAX_DESCRIPTION)


def tag_value(field: str, value: str) -> str:
    return _text(field, value, MAX_TAG_VALUE)


def typed_tag_value(field: str, value: str) -> str:
    """Validate a tag value that a person enters, which has no characters that nobody sees and no reader sends."""
    if any(map(_is_invisible, tag_value(field, value))):
        message = _about(field, N_("%(field)s must not contain invisible characters"))
        raise Invalid.one(field, "invalid_value", message)
    return value


def trimmed(text: str) -> str:
    """Return a text without whitespace and invisible characters at its ends."""
    bare = text.strip()
    if bare.isascii():
        return bare
    start, end = 0, len(bare)
    while start < end and (bare[start].isspace() or _is_invisible(bare[start])):
        start += 1
    while start < end and (bare[end - 1].isspace() or _is_invisible(bare[end - 1])):
        end -= 1
    return bare[start:end]


def _is_invisible(letter: str) -> bool:
    return letter != " " and unicodedata.category(letter) in ("Cf", "Zs")


def tag_list(field: str, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check the tags of a new record."""
    number_of_tags(field, len(sent), sum(len(item["value"].encode()) for item in sent if "value" in item))
    return sent


def number_of_tags(field: str, number: int, size: int) -> None:
    """Check the number of tags of one record, and the size of their values in bytes."""
    if number > MAX_TAGS:
        text = N_("a record can have at most %(most)s tags; this would be %(number)s")
        message = fill(text, most=MAX_TAGS, number=number)
        raise Invalid.one(field, "too_long", message, max_length=MAX_TAGS)
    if size > MAX_TAG_BYTES:
        text = N_("the values of a record's tags can have at most %(most)s bytes; these have %(number)s")
        message = fill(text, most=MAX_TAG_BYTES, number=size)
        raise Invalid.one(field, "too_long", message, max_length=MAX_TAG_BYTES)


def tag_type(field: str, value: str) -> str:
    if value not in TAG_TYPES:
        message = _about(field, N_("%(field)s must be one of %(values)s"), values=", ".join(TAG_TYPES))
        raise Invalid.one(field, "invalid_value", message, allowed_values=list(TAG_TYPES))
    return value


def external_key(field: str, value: str) -> str:
    """Validate a key. Whitespace only counts as empty."""
    _length(field, value.strip() and value, MAX_KEY)
    if not _KEY.fullmatch(value):
        message = _about(field, N_("%(field)s may contain letters, digits and hyphens only"))
        raise Invalid.one(field, "invalid_value", message, pattern=KEY_PATTERN)
    return value


def timestamp(field: str, value: str) -> int:
    micros = times.parse(value)
    if micros is None:
        text = N_("%(field)s must be an RFC 3339 timestamp%(problem)s")
        message = _about(field, text, problem=times.problem(value))
        raise Invalid.one(field, "invalid_value", message)
    return micros


def reference(field: str, value: int | strict_json.Number) -> int:
    """Validate the id of another record in a body."""
    if isinstance(value, strict_json.Number):  # an integer that the parser kept as text
        value = 0 if value.text == "-0" else MAX_INT64 + 1
    if not -MAX_INT64 - 1 <= value <= MAX_INT64:
        raise Invalid.one(field, "invalid_value", f"{field} is not an id", max=MAX_INT64)
    if value < 1:
        raise Invalid.one(field, "too_small", f"{field} must be at least 1", min=1)
    return value


def metadata(field: str, value: dict[str, Any]) -> str:
    """Return the object as compact JSON text, the form in which it is stored."""
    if strict_json.depth(value, MAX_METADATA_DEPTH) > MAX_METADATA_DEPTH:
        message = _about(field, N_("%(field)s must not be nested deeper than %(most)s levels"), most=MAX_METADATA_DEPTH)
        raise Invalid.one(field, "invalid_value", message, max_depth=MAX_METADATA_DEPTH)
    if strict_json.has_infinite_number(value):
        raise Invalid.one(field, "invalid_value", f"{field} contains a number outside the range of a double")
    text = strict_json.compact(value)
    if len(text.encode()) > MAX_METADATA_BYTES:
        message = _about(field, N_("%(field)s must be at most %(most)s bytes of JSON"), most=MAX_METADATA_BYTES)
        raise Invalid.one(field, "too_long", message, max_length=MAX_METADATA_BYTES)
    return text


def _about(field: str, text: str, **values: object) -> Filled:
    """Return a message about a field. Pages translate the names of fields of forms, too."""
    return fill(text, field=fill(field) if field in FIELDS_OF_FORMS else field, **values)


def _text(field: str, value: str, max_length: int) -> str:
    _length(field, value, max_length)
    if _UNTYPABLE_CONTROL.search(value):
        message = _about(field, N_("%(field)s must not contain control characters other than tab, LF and CR"))
        raise Invalid.one(field, "invalid_value", message, pattern=TEXT_PATTERN)
    return value


def _length(field: str, value: str, max_length: int) -> None:
    if not value:
        message = _about(field, N_("%(field)s must have at least 1 character"))
        raise Invalid.one(field, "too_short", message, min_length=1)
    if len(value) > max_length:
        message = _about(field, N_("%(field)s must have at most %(most)s characters"), most=max_length)
        raise Invalid.one(field, "too_long", message, max_length=max_length)


def decibels(field: str, text: str) -> float | None:
    """Parse a typed RSSI offset in dB; None for an empty text."""
    message = N_("An RSSI offset must be between -30 and 30 dB")
    return _typed_number(field, text.strip().removesuffix("dB"), (-30, 30), message)


def signal_strength(field: str, text: str) -> float | None:
    """Parse a typed signal strength in dBm; None for an empty text."""
    return _typed_number(field, text, (-150, 0), N_("A signal strength must be between -150 and 0 dBm"))


def _typed_number(field: str, text: str, bounds: tuple[int, int], message: str) -> float | None:
    written = text.strip().replace(",", ".").replace("−", "-")
    if not written:
        return None
    try:
        value = float(written)
    except ValueError:
        value = math.inf
    if not bounds[0] <= value <= bounds[1]:
        raise Invalid.one(field, "invalid_value", message)
    return value


def minute_of_day(field: str, text: str) -> int | None:
    """Parse a typed time of day, such as 22:00, into minutes after midnight; None for an empty text."""
    if not text.strip():
        return None
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)(:[0-5]\d)?", text.strip(), re.ASCII)  # browsers may add seconds
    if not match:
        raise Invalid.one(field, "invalid_value", N_("Enter a time of day, such as 22:00"))
    return int(match[1]) * 60 + int(match[2])


def time_of_day(minute: int | None) -> str:
    """Format minutes after midnight, such as 22:00; the end of the day is 00:00, None is an empty text."""
    return "" if minute is None else f"{minute // 60 % 24:02d}:{minute % 60:02d}"
