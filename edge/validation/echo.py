"""PATCH rule 3: what is sent back as it was read is ignored, what differs is refused, each field in its own way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edge.errors import FieldError
from edge.validation import times

_INSTANTS = ("created_at", "updated_at", "deleted_at")


def differences(echo: Mapping[str, Any], current: Any) -> Iterator[FieldError]:
    """`current` is the row of an asset or a location."""
    for field, value in echo.items():
        if field == "tags":
            if not _same_tags(value, current.tags):
                message = "tags cannot be changed here; use the tag sub-resource"
                yield FieldError(field, "invalid_context", message)
        elif field == "external_key":
            if value != current.external_key:
                message = "external_key cannot be changed here; use the rename operation"
                yield FieldError(field, "invalid_context", message)
        elif not _same(field, value, getattr(current, field)):
            advice = "; read the record again" if field == "updated_at" else ""
            yield FieldError(field, "read_only", f"{field} is set by the server and differs from the record{advice}")


def _same(field: str, sent: Any, stored: int | None) -> bool:
    """By instant, not by wire bytes (spec: Timestamps 6)."""
    if field in _INSTANTS and isinstance(sent, str):
        return stored is not None and times.parse(sent) == stored
    return type(sent) is type(stored) and sent == stored and (field == "id" or sent is None)


def _same_tags(sent: list[Any], stored: Any) -> bool:
    """As a set, by id and full content."""
    wanted = {tag.id: {"id": tag.id, "tag_type": tag.tag_type, "value": tag.value} for tag in stored}
    if not all(isinstance(tag, dict) and type(tag.get("id")) is int for tag in sent):
        return False
    return all(wanted.get(tag["id"]) == tag for tag in sent) and {tag["id"] for tag in sent} == set(wanted)
