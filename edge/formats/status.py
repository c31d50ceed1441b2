"""Parse messages on a status topic, from a reader or as its last will."""

from __future__ import annotations

from edge.formats.fields import one_line
from edge.formats.reads import Kind, Parsed
from edge.validation import json_text

_OFFLINE = frozenset({"offline", "disconnected", "lost", "dead", "down", "false", "0", "connection lost"})
_FIELDS = ("status", "state", "connection", "online", "connected", "value")


def parse_status(_topic: str, payload: bytes) -> Parsed:
    """Parse a status: text, number, boolean, or a usual field of an object. Unknown values count as online."""
    status = _status_of(payload)
    kind = Kind.OFFLINE if status.lower() in _OFFLINE else Kind.STATUS
    return Parsed(kind, note=one_line(f"status: {status}") if status else None)


def _status_of(payload: bytes) -> str:
    text = payload.decode("utf-8", "replace").strip(" \t\r\n\0\ufeff")
    try:
        value = json_text.decode(text)
    except json_text.NotJson:
        return text[:200].strip()
    if isinstance(value, dict):
        value = next((value[field] for field in _FIELDS if field in value), "")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)[:200].strip() if isinstance(value, str | int) else ""
