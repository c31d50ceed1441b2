"""Metadata of an asset as fields: how people read it, and how they change single values without touching the rest.

API clients own metadata and its structure. People change values only: a number stays a number, and everything that no
field can show is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from edge.errors import Invalid, Unreadable
from edge.records.assets import AssetRow
from edge.texts import N_
from edge.validation import strict_json, values
from edge.validation.strict_json import Number

Words = tuple[str, str]

MOST_FIELDS = 60  # of a form
LONGEST_TEXT = 2000  # characters of a field
MOST_ITEMS = 50  # of a list
SHOWN_LEVELS = 3  # of nested objects; deeper ones are shown as JSON
NOTHING = "\u2013"

_PLAIN_UNITS = ("mm", "cm", "m", "km", "mg", "g", "kg", "ml", "l", "min", "h", "bar")
_SPELLED_UNITS = "v=V a=A w=W kw=kW kwh=kWh mv=mV mah=mAh hz=Hz m2=m² m3=m³ mm2=mm² c=°C degc=°C percent=% pct=%"
# The last part of a name that is a unit, and how it is shown.
UNITS = {unit: unit for unit in _PLAIN_UNITS} | dict(pair.split("=") for pair in _SPELLED_UNITS.split())


class Kind(StrEnum):
    TEXT = "text"
    LINES = "lines"  # a text of several lines
    NUMBER = "number"
    YES_NO = "yes-no"
    LIST = "list"  # of texts, one in each line
    NUMBERS = "numbers"  # one in each line


class MetadataField(NamedTuple):
    """A value as in a form."""

    name: str
    kind: Kind
    value: str


def shown(metadata: str, words: Words) -> list[tuple[str, str, str]]:
    """Return name, label and text of each value, in the order of the client. `words` are those for yes and no."""
    data = strict_json.parse(metadata.encode())
    return [(name, *_shown(name, value, words)) for name, value in data.items()]


def fields(metadata: str) -> list[MetadataField]:
    """Return the values that a form can change."""
    data = strict_json.parse(metadata.encode())
    listed = [field for name, value in data.items() if (field := _field(name, value))]
    return listed[:MOST_FIELDS]


def change(asset: AssetRow, entered: Mapping[str, str]) -> str | None:
    """Return the metadata with the entered values, or None if they are the present ones.

    Each value keeps its type, and each value that was not entered its spelling. Raises Invalid.
    """
    data = strict_json.parse(asset.metadata.encode())
    is_changed = False
    for field in fields(asset.metadata):
        if field.name in entered and entered[field.name] != field.value:
            data[field.name] = _parsed(field, data[field.name], entered[field.name])
            is_changed = True
    return values.metadata("metadata", data) if is_changed else None


def with_properties(metadata: str, properties: Mapping[str, Any]) -> str:
    """Set properties, or remove those that are None. Others stay exactly as they are. Raises Invalid."""
    merged = strict_json.parse(metadata.encode())
    for name, value in properties.items():
        if value is not None:
            merged[name] = value
        else:
            merged.pop(name, None)
    return metadata if merged == strict_json.parse(metadata.encode()) else values.metadata("metadata", merged)


def form_name(name: str) -> str:
    return f"metadata.{name}"


def label(name: str) -> str:
    """Return a name as people write it: `max_load_kg` is `Max load`."""
    return _label_and_unit(name)[0]


def unit(name: str) -> str:
    """Return the unit at the end of a name: `kg` of `max_load_kg`."""
    return _label_and_unit(name)[1]


def _label_and_unit(name: str) -> tuple[str, str]:
    pieces = [part for part in name.replace("-", "_").split("_") if part]
    has_unit = len(pieces) > 1 and pieces[-1].lower() in UNITS
    unit = UNITS[pieces[-1].lower()] if has_unit else ""
    text = " ".join(pieces[:-1] if has_unit else pieces)
    return (text[:1].upper() + text[1:] if text else name), unit


def _shown(name: str, value: Any, words: Words) -> tuple[str, str]:
    text, unit = _label_and_unit(name)
    if unit and not _is_numeric(value):
        text = f"{text} ({unit})" if isinstance(value, list | dict) else label(name)
        unit = ""
    return text, _text_of(value, SHOWN_LEVELS, words) + (f" {unit}" if unit else "")


def _text_of(value: Any, levels: int, words: Words) -> str:
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, bool):
        return words[0] if value else words[1]
    if isinstance(value, str):
        return value
    if isinstance(value, int | Number):
        return strict_json.compact(value)
    if not levels:
        return strict_json.compact(value)
    if isinstance(value, dict):
        lines = []
        for name, inner in value.items():
            inner_label, text = _shown_inner(name, inner, levels - 1, words)
            lines.append(f"{inner_label}: {text}")
        return "\n".join(lines)
    if _is_numeric(value):
        separator = " × " if 2 <= len(value) <= 3 else ", "
        return separator.join(strict_json.compact(item) for item in value)
    separator = "\n" if any(isinstance(item, dict | list) for item in value) else ", "
    return separator.join(_text_of(item, levels - 1, words).replace("\n", ", ") for item in value)


def _shown_inner(name: str, value: Any, levels: int, words: Words) -> tuple[str, str]:
    text, unit = _label_and_unit(name)
    shown_value = _text_of(value, levels, words).replace("\n", ", ")
    return text, shown_value + (f" {unit}" if unit and _is_numeric(value) else "")


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_number(item) for item in value)
    return _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Number) and not isinstance(value, bool)


def _field(name: str, value: Any) -> MetadataField | None:
    if isinstance(value, bool):
        return MetadataField(name, Kind.YES_NO, "true" if value else "false")
    if _is_number(value):
        return MetadataField(name, Kind.NUMBER, strict_json.compact(value))
    if isinstance(value, str):
        is_typable = len(value) <= LONGEST_TEXT and value == value.strip() and _has_no_controls(value)
        return MetadataField(name, Kind.LINES if "\n" in value else Kind.TEXT, value) if is_typable else None
    if not isinstance(value, list) or not 0 < len(value) <= MOST_ITEMS:
        return None
    if _is_numeric(value):
        return MetadataField(name, Kind.NUMBERS, "\n".join(strict_json.compact(item) for item in value))
    items = [item for item in value if isinstance(item, str) and item == item.strip() != "" and "\n" not in item]
    text = "\n".join(items)
    if len(items) < len(value) or len(text) > LONGEST_TEXT or not _has_no_controls(text):
        return None
    return MetadataField(name, Kind.LIST, text)


def _has_no_controls(value: str) -> bool:
    return all(letter == "\n" or (letter >= " " and letter != "\x7f") for letter in value)


def _parsed(field: MetadataField, present: Any, entered: str) -> Any:
    name = form_name(field.name)
    if field.kind is Kind.YES_NO:
        return entered == "true"
    if field.kind is Kind.NUMBER:
        return _number(name, entered, is_integer=_is_integer(present))
    if field.kind in (Kind.LIST, Kind.NUMBERS):
        items = [item.strip() for item in entered.split("\n") if item.strip()]
        if len(items) > MOST_ITEMS:
            raise Invalid.one(name, "too_long", N_("Enter at most 50 lines"))
        if field.kind is Kind.LIST:
            return items
        is_integer = all(map(_is_integer, present))
        return [_number(name, item, is_integer=is_integer) for item in items]
    if len(entered) > LONGEST_TEXT:
        raise Invalid.one(name, "too_long", N_("Enter at most 2,000 characters"))
    return entered


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) or value.is_integer


def _number(name: str, entered: str, *, is_integer: bool) -> Any:
    try:
        number = strict_json.parse(entered.strip().replace("−", "-").encode())
    except (ValueError, Unreadable):
        number = None
    if not _is_number(number) or (isinstance(number, Number) and not number.is_finite):
        raise Invalid.one(name, "invalid_value", N_("Enter a number, such as 12 or 12.5"))
    if is_integer and not _is_integer(number):
        raise Invalid.one(name, "invalid_value", N_("Enter a whole number, such as 12"))
    return number
