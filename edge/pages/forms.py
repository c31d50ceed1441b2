"""From a form to values by the very rules of the API, and back to the form with what was wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edge.errors import Conflict, EdgeError, Invalid
from edge.validation.body import Body, decode

Errors = dict[str, str]


def values_of(declared: Body, entered: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Invalid."""
    return decode(declared, json.dumps(entered).encode())


def text(form: Mapping[str, str], name: str) -> str:
    """Line ends as they are stored; browsers send CR LF."""
    return form.get(name, "").replace("\r\n", "\n").strip()


def errors_of(error: EdgeError) -> Errors:
    """By field; under the empty name what belongs to no field."""
    if isinstance(error, Invalid):
        return {fault.field: fault.message for fault in error.fields}
    if isinstance(error, Conflict):
        message = str(error)
        return {"external_key" if message.startswith("external_key") else "": _sentence(message)}
    raise error


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:] + "."
