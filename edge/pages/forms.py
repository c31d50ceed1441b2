"""From a form to values by the rules of the API, and back to the form with the errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from flask import abort, request

from edge.errors import Conflict, EdgeError, Invalid
from edge.validation.body import Body, judge
from edge.validation.values import MAX_TEXT

Errors = dict[str, str]

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
    """Somebody else has changed the record since the form was opened."""


def unchanged_since(opened_at: str) -> Callable[[Any], None]:
    """A check for the store: refuses when the record is not as it was when the form was opened."""

    def check(row: Any) -> None:
        if str(row.updated_at) != opened_at:
            raise Overtaken("It was changed by somebody else while this form was open")

    return check


def saved_meanwhile(row: Any, entered: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """By field, the saved value where it differs from the one in the form."""
    found = {}
    for name in names:
        saved, own = getattr(row, name), entered.get(name)
        if isinstance(own, bool):
            saved = bool(saved)
        if (saved or "") != (own or ""):
            found[name] = _shown(saved)
    return found


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
