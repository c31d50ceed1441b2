"""From a form to values by the rules of the API, and back to the form with the errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from flask import abort, request

from edge.errors import Conflict, EdgeError, Invalid
from edge.validation.body import Body, judge
from edge.validation.values import MAX_TEXT

Errors = dict[str, str]
Row = TypeVar("Row")

OPENED = "opened"  # the field with the values that the form was opened with
MOST_TRIES = 5
_UNKNOWN = object()

MOST_DIGITS = 18  # what is shorter fits in 64 bits


def values_of(declared: Body, entered: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Invalid."""
    return judge(declared, entered)


def text(form: Mapping[str, str], name: str) -> str:
    """Line ends as they are stored; browsers send CR LF."""
    return form.get(name, "").replace("\r\n", "\n").strip()


def typable(entered: str) -> str:
    """Without characters that no record can contain: control characters and lone surrogates."""
    whole_letters = entered.encode("utf-8", "ignore").decode()
    return "".join(letter for letter in whole_letters if letter >= " " and letter != "\x7f").strip()


def search_text(entered: str) -> str:
    """A text to search for, cut to the length of the longest text that can be found."""
    return typable(entered)[:MAX_TEXT]


def whole(entered: str) -> int:
    """For `form.get(..., type=whole)`, which takes the default for what cannot be one of our numbers."""
    if len(entered) > MOST_DIGITS:
        raise ValueError("too large for the database")
    return int(entered)


def is_id(value: Any) -> TypeGuard[int]:
    """A number the database can look for."""
    return type(value) is int and 0 <= value < 2**63


def json_object() -> dict[str, Any]:
    """The JSON object that a script sent; 400 for anything else."""
    try:
        body = request.get_json(silent=True)
    except RecursionError:  # nested without end
        body = None
    if not isinstance(body, dict):
        abort(400, "A JSON object is expected")
    return body


class Overtaken(EdgeError):
    """Somebody else changed a field that this form changes, too: another value of it is saved by now."""

    def __init__(self, row: Any, values: Mapping[str, Any], saved: Mapping[str, Any], clashes: Sequence[str]) -> None:
        super().__init__("Somebody else changed the same fields while this form was open")
        self.row = row
        self.meanwhile = {name: _shown(saved[name]) for name in clashes}
        self.form = {**request.form.to_dict(), **values, OPENED: opened_with(saved)}  # sent again, it overwrites


class _Stale(EdgeError):
    """The record was changed between reading and saving it."""


def opened_with(values: Mapping[str, Any]) -> str:
    """The values that a form was opened with, for a hidden field of it."""
    return json.dumps(values)


def save_merged(
    read: Callable[[], Row],
    editable: Callable[[Row], dict[str, Any]],
    entered: Mapping[str, Any],
    save: Callable[[dict[str, Any], Callable[[Any], None]], object],
) -> None:
    """Save the fields that were changed in the form, and leave the others as they are by now.

    Raises Overtaken when somebody else changed one of the same fields to another value meanwhile. `editable` gives the
    saved values of a record by field; other fields, such as a new password, are saved as entered. `save` gets the
    values and a check that refuses a record that changed since.
    """
    for _ in range(MOST_TRIES):
        row = read()
        values = _merged(row, editable(row), entered)
        try:
            save(values, _unchanged(row))
        except _Stale:
            continue
        return
    raise Conflict("it is being changed by somebody else again and again. Try again in a moment")


def _merged(row: Any, saved: Mapping[str, Any], entered: Mapping[str, Any]) -> dict[str, Any]:
    opened = _opened()
    values, clashes = dict(entered), []
    for name, now in saved.items():
        own, before = entered.get(name), opened.get(name, _UNKNOWN)
        if _is_same(own, before):
            values[name] = now
        elif not _is_same(now, before) and not _is_same(own, now):
            clashes.append(name)
    if clashes:
        raise Overtaken(row, values, saved, clashes)
    return values


def _opened() -> dict[str, Any]:
    try:
        values = json.loads(request.form.get(OPENED, ""))
    except (ValueError, RecursionError):
        values = None
    return values if isinstance(values, dict) else {}


def _is_same(one: Any, other: Any) -> bool:
    return bool((one or "") == (other or ""))


def _unchanged(row: Any) -> Callable[[Any], None]:
    def check(present: Any) -> None:
        if present.updated_at != row.updated_at:
            raise _Stale("It changed since it was read")

    return check


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value not in (None, "") else "(nothing)"


def errors_of(error: EdgeError) -> Errors:
    """Messages by field; those that belong to no field are under the empty name."""
    if isinstance(error, Invalid):
        return {fault.field: fault.message for fault in error.fields}
    if isinstance(error, Conflict):
        message = str(error)
        return {"external_key" if message.startswith("external_key") else "": _sentence(message)}
    raise error


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:] + "."
