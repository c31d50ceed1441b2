"""Validation of request bodies against their declaration (interface: Precedence).

Checks run in rounds, and only the faults of the first failing round are reported: undeclared and read-only keys, then
wrong JSON types, then missing keys and wrong values. Read-back fields of a PATCH take part in these rounds, so its body
is checked together with the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from edge.errors import FieldError, Invalid, Unreadable
from edge.texts import N_, fill
from edge.validation import strict_json
from edge.validation.suggestions import did_you_mean

MAX_FAULTS = 1000  # reported at most; a 1 MiB body can have half a million


class Field(NamedTuple):
    """One key of a body. `check` converts a value of the right type; `items` declares the entries of an array.

    `type` None accepts any JSON type. `schema` adds to type and nullability in the OpenAPI document.
    A read-back field is never written: its `compare` yields the differences from the record, in the round of read-only
    keys if the field accepts any type, else in the round of wrong values (interface: Write operations 3).
    """

    name: str
    type: str | None
    check: Callable[[str, Any], Any]
    schema: Mapping[str, Any] = {}
    is_required: bool = False
    is_nullable: bool = False
    items: Body | None = None
    compare: Callable[[str, Any, Any], Iterator[FieldError]] | None = None

    @property
    def is_time(self) -> bool:
        return self.schema.get("format") == "date-time"


class Body(NamedTuple):
    """`refused` keys are set by the server: sending one is a fault with any value.

    `variants` lists the additional fields required for each value of the `selector` field.
    """

    name: str
    fields: Mapping[str, Field]
    refused: frozenset[str] = frozenset()
    selector: str = ""
    variants: Mapping[str, Sequence[str]] = {}

    @property
    def has_read_back_fields(self) -> bool:
        return any(field.compare for field in self.fields.values())


def body(name: str, *fields: Field, refused: Sequence[str] = ()) -> Body:
    return Body(name, {field.name: field for field in fields}, frozenset(refused))


def decode(declared: Body, raw: bytes) -> dict[str, Any]:
    """Parse and validate a body; returns plain values by key in the order sent. Raises Unreadable or Invalid.

    A body with read-back fields is returned unchecked, for `judge` with the record.
    """
    sent = strict_json.parse(raw)
    if not isinstance(sent, dict):
        raise Unreadable(f"The body must be a JSON object, not {strict_json.type_name(sent)}")
    return sent if declared.has_read_back_fields else judge(declared, sent)


def judge(declared: Body, sent: Mapping[str, Any], current: Any = None) -> dict[str, Any]:
    """Return plain values by key in the order sent. Raises Invalid. Without `current` nothing is compared."""
    for round_faults in (_misplaced(declared, sent, current), _mistyped(declared, sent, "")):
        faults = list(islice(round_faults, MAX_FAULTS))
        if faults:
            raise Invalid(faults)
    faults = []
    values = _values(declared, sent, "", faults, current)
    if faults:
        raise Invalid(faults[:MAX_FAULTS])
    return values


def _misplaced(declared: Body, value: Mapping[str, Any], current: Any, prefix: str = "") -> Iterator[FieldError]:
    """Yield faults for undeclared keys, and for server-set keys that are forbidden or differ from the record."""
    for key, inner in value.items():
        name = prefix + key.encode("utf-8", "backslashreplace").decode()
        field = declared.fields.get(key)
        if key in declared.refused:
            yield FieldError(name, "read_only", f"{name} is set by the server")
        elif field is None:
            meant = did_you_mean(key, declared.fields)
            yield FieldError(name, "unknown_field", f"{name} is not a field of this request{meant}")
        elif field.compare and field.type is None and current is not None:
            yield from field.compare(name, inner, current)
        elif field.items and isinstance(inner, list):
            for number, item in enumerate(inner):
                if isinstance(item, dict):
                    yield from _misplaced(field.items, item, None, f"{name}[{number}].")


def _mistyped(declared: Body, value: Mapping[str, Any], prefix: str) -> Iterator[FieldError]:
    for key, inner in value.items():
        field, name = declared.fields[key], prefix + key
        received = strict_json.type_name(inner)
        if (inner is None and field.is_nullable) or field.type is None:
            continue
        is_fraction = field.type == "integer" and isinstance(inner, strict_json.Number) and not inner.is_integer
        expected = "number" if field.type == "integer" else field.type
        if received != expected or is_fraction:
            yield _wrong_type(name, expected, received)
        elif field.items:
            for number, item in enumerate(inner):
                if isinstance(item, dict):
                    yield from _mistyped(field.items, item, f"{name}[{number}].")
                else:
                    yield _wrong_type(f"{name}[{number}]", "object", strict_json.type_name(item))
        elif strict_json.has_lone_surrogate(inner):
            yield FieldError(name, "invalid_value", f"{name} has half of a surrogate pair")


def _wrong_type(name: str, expected: str, received: str) -> FieldError:
    """Return the error with JSON type names. JSON has one type for integers and fractions."""
    params = {"expected_type": expected, "received_type": received}
    expectation = "an integer" if expected == received else f"of type {expected}, not {received}"
    return FieldError(name, "invalid_value", f"{name} must be {expectation}", params)


def _values(
    declared: Body, value: Mapping[str, Any], prefix: str, faults: list[FieldError], current: Any = None
) -> dict[str, Any]:
    """Return the valid values; append the others to `faults`."""
    for field in declared.fields.values():
        if field.is_required and field.name not in value:
            name = prefix + field.name
            faults.append(FieldError(name, "required", fill(N_("%(field)s is required"), field=name)))
    values = {}
    for key, inner in value.items():
        if len(faults) >= MAX_FAULTS:
            break
        field = declared.fields[key]
        try:
            if field.items and inner is not None:
                inner = [
                    _values(field.items, item, f"{prefix}{key}[{number}].", faults) for number, item in enumerate(inner)
                ]
            values[key] = inner if inner is None else field.check(prefix + key, inner)
            if field.compare and current is not None:
                faults += field.compare(key, inner, current)
        except Invalid as error:
            faults += error.fields
    return values
