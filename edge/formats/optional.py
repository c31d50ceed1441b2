"""Optional fields of the built-in formats: an unreadable one is left out, as with mappings, and its read is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from msgspec.structs import replace

from edge.formats import fields
from edge.formats.fields import Unreadable
from edge.formats.reads import Parsed

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

_reason = ContextVar("_reason", default="")  # why a field of the current message was left out


def optional(read: Callable[Parameters, Value]) -> Callable[Parameters, Value | None]:
    """Wrap a function that reads a field: an unreadable field becomes None, and the message gets a note."""

    @wraps(read)
    def read_or_none(*args: Parameters.args, **more: Parameters.kwargs) -> Value | None:
        try:
            return read(*args, **more)
        except Unreadable as reason:
            _reason.set(_reason.get() or str(reason))
            return None

    return read_or_none


antenna, instant, rssi = optional(fields.antenna), optional(fields.instant), optional(fields.rssi)
port_or_name = optional(fields.port_or_name)


def noting(parse: Callable[[], Parsed]) -> Parsed:
    """Return the parsed message. Without another note, its note says which optional field was left out."""
    _reason.set("")
    parsed = parse()
    reason = _reason.get()
    return replace(parsed, note=f"{reason}: left out") if reason and not parsed.note else parsed
