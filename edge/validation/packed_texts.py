"""Messages as stored: with their values, so that a page can translate them. They also take little memory."""

from __future__ import annotations

from typing import Any

from edge.texts import Count, Filled, fill
from edge.validation import json_text

_BEGIN = '["'  # of a message with values; others are stored as they are


def pack(message: str) -> str:
    """Return the text to store."""
    return json_text.text(_packed(message)) if isinstance(message, Filled) else message


def unpack(stored: str) -> str:
    """Return the message of a stored text. Earlier releases stored English texts."""
    try:
        return _unpacked(json_text.decode(stored)) if stored.startswith(_BEGIN) else stored
    except json_text.NotJson:
        return stored


def _packed(value: Any) -> Any:
    if isinstance(value, Filled):
        return [value.template, {name: _packed(one) for name, one in value.values.items()}]
    return {"count": int(value)} if isinstance(value, Count) else str(value)


def _unpacked(stored: Any) -> Any:
    if isinstance(stored, list):
        template, values = stored
        return fill(template, **{name: _unpacked(value) for name, value in values.items()})
    return Count(stored["count"]) if isinstance(stored, dict) else stored
