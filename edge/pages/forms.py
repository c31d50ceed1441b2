"""Parses and validates forms by the rules of the API, merges concurrent edits, and maps errors to fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from flask import abort, request

from edge.errors import Conflict, EdgeError, Forbidden, Invalid
from edge.pages.translation import gettext, translated
from edge.records.tags import NewTag
from edge.texts import N_
from edge.validation import bodies
from edge.validation.body import Body, judge
from edge.validation.values import MAX_TEXT, trimmed, typed_tag_value

Errors = dict[str, str]
Row = TypeVar("Row")

OPENED = "opened"  # hidden field with the original values
MOST_TRIES = 5
_UNKNOWN = object()

MOST_DIGITS = 18  # always fits into 64 bits


def values_of(declared: Body, entered: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the fields of a form. Raises Invalid."""
    return judge(declared, entered)


def new_tag(entered: Mapping[str, Any]) -> NewTag:
    """Return the tag in a form. Raises Invalid."""
    tag = NewTag(**values_of(bodies.TAG, entered))
    typed_tag_value("value", tag.value)
    return tag


def text(form: Mapping[str, str], name: str) -> str:
    """Return a field with line breaks as stored; browsers send CR LF."""
    return trimmed(form.get(name, "").replace("\r\n", "\n"))


def typable(entered: str) -> str:
    """Remove characters that records cannot contain: control characters and lone surrogates."""
    whole_letters = entered.encode("utf-8", "ignore").decode()
    kept = "".join(letter for letter in whole_letters if letter >= " " and letter != "\x7f")
    return trimmed(kept)


def multiline(entered: str) -> str:
    """Return a text without characters that records cannot contain, with its line breaks."""
    whole_letters = entered.encode("utf-8", "ignore").decode().replace("\r\n", "\n").replace("\r", "\n")
    return "".join(letter for letter in whole_letters if (letter >= " " and letter != "\x7f") or letter == "\n").strip()


def search_text(entered: str) -> str:
    """Return a search text, cut to the maximum length of stored texts."""
    return typable(entered)[:MAX_TEXT]


def whole(entered: str) -> int:
    """Parse an integer for `form.get(..., type=whole)`. Raises ValueError if it does not fit into the database."""
    if len(entered) > MOST_DIGITS:
        raise ValueError("too large for the database")
    return int(entered)


def is_id(value: Any) -> TypeGuard[int]:
    """True for integers that fit into the database."""
    return type(value) is int and 0 <= value < 2**63


def json_object() -> dict[str, Any]:
    """Return the JSON object in the request body. Aborts with 400 for anything else."""
    try:
        body = request.get_json(silent=True)
    except RecursionError:  # nested too deeply
        body = None
    if not isinstance(body, dict):
        abort(400, gettext("A JSON object is expected"))
    return body


class Overtaken(EdgeError):
    """Somebody else has saved a different value for a field that this form changes, too."""

    def __init__(self, row: Any, values: Mapping[str, Any], saved: Mapping[str, Any], clashes: Sequence[str]) -> None:
        super().__init__(N_("Someone else changed the same fields while this form was open"))
        self.row = row
        self.meanwhile = {name: _shown(saved[name]) for name in clashes}
        self.form = {
            **request.form.to_dict(),
            **values,
            OPENED: opened_with(saved),
        }  # submitting it again overwrites the saved values


class _Stale(EdgeError):
    """The record changed between reading and saving."""


def opened_with(values: Mapping[str, Any]) -> str:
    """Serialize the original values of a form for a hidden field."""
    return json.dumps(values)


def save_merged(
    read: Callable[[], Row],
    editable: Callable[[Row], dict[str, Any]],
    entered: Mapping[str, Any],
    save: Callable[[dict[str, Any], Callable[[Any], None]], object],
) -> None:
    """Save the fields changed in the form, and keep the current values of the others.

    Raises Overtaken if somebody else saved a different value for one of the same fields in the meantime. `editable`
    returns the saved values by field; other fields, such as a new password, are saved as entered. `save` receives
    the values and a check that refuses a record that has changed.
    """
    for _ in range(MOST_TRIES):
        row = read()
        values = _merged(row, editable(row), entered)
        try:
            save(values, _unchanged(row))
        except _Stale:
            continue
        return
    raise Conflict(N_("someone else is changing this record. Try again in a moment"))


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
            raise _Stale("The record has changed since you opened it")

    return check


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return str(value) if value not in (None, "") else gettext("(nothing)")


def errors_of(error: EdgeError) -> Errors:
    """Return messages by field, in the language of the page. Messages without a field have the key ""."""
    if isinstance(error, Invalid):
        return {fault.field: translated(fault.message) for fault in error.fields}
    if isinstance(error, Conflict | Forbidden):
        return {"external_key" if str(error).startswith("external_key") else "": sentence(message_of(error))}
    raise error


def message_of(error: EdgeError) -> str:
    """Return the message of an error in the language of the page."""
    if isinstance(error, Invalid):
        return "; ".join(translated(fault.message) for fault in error.fields)
    return translated(error.args[0]) if error.args else ""


def sentence(message: str) -> str:
    """Return an error message with a capital letter and a full stop, for pages."""
    return message[:1].upper() + message[1:] + "."
