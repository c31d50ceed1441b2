"""The topic on which a reader, or the broker with its last will, says only whether it is there."""

from __future__ import annotations

import orjson

from edge.formats.fields import one_line
from edge.formats.reads import Kind, Parsed

_OFFLINE = frozenset({"offline", "disconnected", "lost", "dead", "down", "false", "0", "connection lost"})
_FIELDS = ("status", "state", "connection", "online", "connected", "value")


def parse_status(_topic: str, payload: bytes) -> Parsed:
    """`offline` as text, number or boolean, or in one of the usual fields of an object; the rest is a sign of life."""
    told = _told(payload)
    kind = Kind.OFFLINE if told.lower() in _OFFLINE else Kind.STATUS
    return Parsed(kind, note=one_line(f"status: {told}") if told else None)


def _told(payload: bytes) -> str:
    spelt = payload.decode("utf-8", "replace").strip(" \t\r\n\0\ufeff")
    try:
        value = orjson.loads(spelt)
    except orjson.JSONDecodeError:
        return spelt[:200].strip()
    if isinstance(value, dict):
        value = next((value[field] for field in _FIELDS if field in value), "")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)[:200].strip() if isinstance(value, str | int) else ""
