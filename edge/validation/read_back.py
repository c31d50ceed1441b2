"""PATCH rule 3: values sent back unchanged are ignored, different ones refused with an error for each field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from edge.errors import FieldError
from edge.validation import times

_INSTANTS = ("created_at", "updated_at", "deleted_at")
_BELOW_MICROSECOND = re.compile(r"\.\d{6}\d*[1-9]")


def server_managed(field: str, sent: Any, current: Any) -> Iterator[FieldError]:
    """Yield an error if the value differs. `current` is the row of an asset or a location, also in the others here."""
    if not _is_same(field, sent, getattr(current, field)):
        advice = "; read the record again" if field == "updated_at" else ""
        yield FieldError(field, "read_only", f"{field} is set by the server and differs from the record{advice}")


def external_key(field: str, sent: str, current: Any) -> Iterator[FieldError]:
    if sent != current.external_key:
        yield FieldError(field, "invalid_context", f"{field} cannot be changed here; use the rename operation")


def tags(field: str, sent: list[Any], current: Any) -> Iterator[FieldError]:
    if not _has_same_tags(sent, current.tags):
        yield FieldError(field, "invalid_context", f"{field} cannot be changed here; use the tag sub-resource")


def _is_same(field: str, sent: Any, stored: int | None) -> bool:
    """Compare times by instant, not by their text (interface: Timestamps 6)."""
    if field in _INSTANTS and isinstance(sent, str):
        return stored is not None and times.parse(sent) == stored and not _BELOW_MICROSECOND.search(sent)
    return type(sent) is type(stored) and sent == stored and (field == "id" or sent is None)


def _has_same_tags(sent: list[Any], stored: Any) -> bool:
    """Compare tags as a set, by id and full content."""
    stored_by_id = {tag.id: {"id": tag.id, "tag_type": tag.tag_type, "value": tag.value} for tag in stored}
    if not all(isinstance(tag, dict) and type(tag.get("id")) is int for tag in sent):
        return False
    return all(stored_by_id.get(tag["id"]) == tag for tag in sent) and {tag["id"] for tag in sent} == set(stored_by_id)
