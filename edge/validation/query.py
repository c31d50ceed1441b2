"""Declaration and validation of query and path parameters (interface: Conventions; Lists)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from edge.errors import FieldError, Invalid
from edge.validation import times, values
from edge.validation.bodies import KEY_SCHEMA, TIME_SCHEMA
from edge.validation.strict_json import has_lone_surrogate
from edge.validation.suggestions import did_you_mean

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
MAX_OFFSET = 2**31 - 1
_USUAL_DIGITS = 18  # of an int64

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LINE_BREAKS = "\t\r\n"
_AS_SPACE = str.maketrans(dict.fromkeys(_LINE_BREAKS, " "))


class Parameter(NamedTuple):
    """`check` converts the text or raises Invalid. If not repeatable, the first value is used and the rest ignored."""

    name: str
    check: Callable[[str, str], Any]
    schema: Mapping[str, Any]
    about: str
    is_repeatable: bool = False


class Query(NamedTuple):
    """Parameters of one endpoint. `home` is the path of a list endpoint, empty for all others."""

    parameters: Mapping[str, Parameter]
    home: str = ""


def integer(field: str, text: str, low: int, high: int) -> int:
    number = _number(field, text)
    if number < low:
        raise Invalid.one(field, "too_small", f"{field} must be at least {low}", min=low)
    if number > high:
        raise Invalid.one(field, "too_large", f"{field} must be at most {high}", max=high)
    return number


def record_id(field: str, text: str) -> int:
    """Parse an id in a path or a filter. Any int64 from 1 is valid; none above 2^53 exists."""
    if text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= _USUAL_DIGITS:
        return int(text)
    number = _number(field, text)
    if not -values.MAX_INT64 - 1 <= number <= values.MAX_INT64:
        raise Invalid.one(field, "invalid_value", f"{field} must be an int64", min=1, max=values.MAX_INT64)
    return integer(field, text, 1, values.MAX_INT64)


def _number(field: str, text: str) -> int:
    """Parse an integer with any number of digits. Far beyond int64 its exact value is irrelevant."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise Invalid.one(field, "invalid_value", f"{field} must be an integer")
    digits = digits.lstrip("0")[:20] or "0"  # twenty digits are already beyond int64
    return -int(digits) if text.startswith("-") else int(digits)


def _boolean(field: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise Invalid.one(field, "invalid_value", f"{field} must be true or false", allowed_values=["true", "false"])
    return text == "true"


def _text(field: str, text: str) -> str:
    """Return the text verbatim, including spaces. Tabs and line breaks are spaces, and ignored at the ends.

    Raises Invalid for other control characters.
    """
    text = text.strip(_LINE_BREAKS).translate(_AS_SPACE)
    if _CONTROL.search(text):
        raise Invalid.one(field, "invalid_value", f"{field} must not contain control characters")
    return text


def _limit(field: str, text: str) -> int:
    return integer(field, text, 1, MAX_LIMIT)


def _offset(field: str, text: str) -> int:
    return integer(field, text, 0, MAX_OFFSET)


def _sort_by(allowed: Sequence[str]) -> Callable[[str, str], list[tuple[str, bool]]]:
    def check(field: str, text: str) -> list[tuple[str, bool]]:
        given = [term.strip() for term in text.split(",")] if text.strip() else []
        terms = [(term.removeprefix("-"), term.startswith("-")) for term in given]
        for name, _ in terms:
            if name not in allowed:
                message = f"unknown sort field: {name}"
                raise Invalid.one(field, "invalid_value", message, allowed_values=list(allowed))
        return _first_of_each(terms)

    return check


def _first_of_each(terms: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Drop repeated sort fields: they have no effect, and SQLite accepts at most 2,000 terms."""
    first: dict[str, bool] = {}
    for name, descending in terms:
        first.setdefault(name, descending)
    return list(first.items())


def _keys(name: str) -> Parameter:
    return Parameter(name, values.external_key, KEY_SCHEMA, "Rows with any of these keys", is_repeatable=True)


def _ids(name: str) -> Parameter:
    schema = {"type": "integer", "format": "int64", "minimum": 1, "maximum": values.MAX_INT64}
    return Parameter(name, record_id, schema, "Rows with any of these ids", is_repeatable=True)


def _instant(field: str, text: str) -> int:
    """Parse a timestamp. A raw + in a query arrives as a space, which gets its own message."""
    if times.has_lost_plus(text):
        message = f"{field} must be an RFC 3339 timestamp: {times.LOST_PLUS}"
        raise Invalid.one(field, "invalid_value", message)
    return values.timestamp(field, text)


def _until(field: str, text: str) -> int:
    """Return the last microsecond of the given millisecond, to include times as the API shows them."""
    micros = _instant(field, text)
    return micros - micros % 1000 + 999


def _sort(*allowed: str, default: str) -> Parameter:
    term = f"-?({'|'.join(allowed)})"
    schema = {"pattern": rf"^\s*({term}(\s*,\s*{term})*\s*)?$", "default": default}
    return Parameter("sort", _sort_by(allowed), schema, "Comma-separated fields; a leading - means descending")


IS_ACTIVE = Parameter("is_active", _boolean, {"type": "boolean"}, "Only active or only inactive rows")
INCLUDE_DELETED = Parameter(
    "include_deleted", _boolean, {"type": "boolean", "default": False}, "Also soft-deleted rows"
)
Q = Parameter("q", _text, {"pattern": values.TEXT_PATTERN}, "Case-insensitive part of a name, key, description or tag")
Q_OF_REPORT = Q._replace(about="Case-insensitive part of the asset's name, key or tag")
LIMIT = Parameter(
    "limit",
    _limit,
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "Rows per page",
)
OFFSET = Parameter(
    "offset", _offset, {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0}, "Rows to skip"
)


def _list(home: str, *parameters: Parameter) -> Query:
    return Query({parameter.name: parameter for parameter in (*parameters, LIMIT, OFFSET)}, home)


_RECORD_SORT = _sort("external_key", "name", "created_at", "updated_at", default="external_key")

NOTHING = Query({})
ASSETS = _list("/assets", _keys("external_key"), IS_ACTIVE, INCLUDE_DELETED, Q, _RECORD_SORT)
LOCATIONS = _list(
    "/locations",
    *(_keys("external_key"), _ids("parent_id"), _keys("parent_external_key"), IS_ACTIVE, INCLUDE_DELETED, Q),
    _RECORD_SORT,
)
TREE = _list("/locations/{location_id}/descendants")
ASSET_LOCATIONS = _list(
    "/reports/asset-locations",
    *(_ids("location_id"), _keys("location_external_key"), _ids("asset_id"), _keys("asset_external_key")),
    *(INCLUDE_DELETED, Q_OF_REPORT),
    _sort("asset_last_seen", "asset_external_key", "location_external_key", default="-asset_last_seen"),
)
HISTORY = _list(
    "/assets/{asset_id}/history",
    Parameter("from", _instant, TIME_SCHEMA, "At or after this instant"),
    Parameter("to", _until, TIME_SCHEMA, "At or before this instant, in milliseconds"),
    _sort("event_observed_at", default="-event_observed_at"),
)

_LISTS = (ASSETS, LOCATIONS, ASSET_LOCATIONS, HISTORY)
_PAGING = ("limit", "offset", "sort")
_FILTER_HOMES = {
    name: " and ".join(f"GET /api/v1{query.home}" for query in _LISTS if name in query.parameters)
    for query in _LISTS
    for name in query.parameters
    if name not in _PAGING
}
PAIRS = tuple((f"{name}_id", f"{name}_external_key") for name in ("parent", "location", "asset"))


def decode(declared: Query, query_string: bytes) -> dict[str, Any]:
    """Return plain values of the given parameters by name. Raises Invalid."""
    given = _parse(query_string)
    faults = [_undeclared(declared, name) for name in given if name not in declared.parameters]
    if not faults:
        faults = _ambiguous(given)
    if faults:
        raise Invalid(faults)
    values_by_name = {}
    for name, texts in given.items():
        parameter = declared.parameters[name]
        try:
            checked = [_check(parameter, text) for text in (texts if parameter.is_repeatable else texts[:1])]
            values_by_name[name] = checked if parameter.is_repeatable else checked[0]
        except Invalid as error:
            faults += error.fields
    if faults:
        raise Invalid(faults)
    return values_by_name


def _parse(query_string: bytes) -> dict[str, list[str]]:
    """Parse the query string. Bytes that are not UTF-8 become lone surrogates, which valid text never contains."""
    given: dict[str, list[str]] = {}
    readable = query_string.decode("utf-8", "surrogateescape")
    for name, text in parse_qsl(readable, keep_blank_values=True, errors="surrogateescape"):
        given.setdefault(name, []).append(text)
    return given


def _check(parameter: Parameter, text: str) -> Any:
    if has_lone_surrogate(text):
        raise Invalid.one(parameter.name, "invalid_value", f"{parameter.name} is not UTF-8")
    return parameter.check(parameter.name, text)


def _undeclared(declared: Query, name: str) -> FieldError:
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if declared is TREE and name == "sort":
        return FieldError(name, "invalid_value", "sort parameter not supported on this endpoint")
    if not declared.home and name in _FILTER_HOMES:
        return FieldError(name, "invalid_context", f"{name} is a filter of {_FILTER_HOMES[name]}")
    meant = did_you_mean(name, declared.parameters)
    return FieldError(shown, "unknown_field", f"{shown} is not a parameter of this endpoint{meant}")


def _ambiguous(given: Mapping[str, Sequence[str]]) -> list[FieldError]:
    return [
        FieldError(name, "ambiguous_fields", f"{' and '.join(pair)} cannot be given together")
        for pair in PAIRS
        if set(pair) <= given.keys()
        for name in pair
    ]
