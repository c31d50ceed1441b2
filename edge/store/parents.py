"""How a client names the parent of a location, and which location that is."""

from __future__ import annotations

from typing import Any, NamedTuple

from edge.errors import FieldError, Invalid
from edge.store.database import execute


class Parent(NamedTuple):
    """How a client named a parent: by id, by key, or both. UNSET: the form was not given; None: no parent."""

    id: Any
    external_key: Any


UNSET: Any = object()
NO_PARENT = Parent(UNSET, UNSET)


def resolve(organization_id: int, parent: Parent) -> int | None:
    """Each form that was given is resolved first, then they are compared (spec: Location parentage)."""
    resolved: list[int | None] = []
    for field, column, value in (
        ("parent_id", "id", parent.id),
        ("parent_external_key", "external_key", parent.external_key),
    ):
        if value is not UNSET:
            resolved.append(_find_parent(organization_id, field, column, value))
    if len(set(resolved)) > 1:
        message = "parent_id and parent_external_key name different parents"
        pair = ("parent_id", "parent_external_key")
        raise Invalid([FieldError(field, "ambiguous_fields", message) for field in pair])
    return resolved[0] if resolved else None


def _find_parent(organization_id: int, field: str, column: str, value: Any) -> int | None:
    if value is None:
        return None
    sql = f"SELECT id FROM location WHERE {column} = ? AND organization_id = ? AND deleted_at IS NULL"
    found = execute(sql, (value, organization_id)).fetchone()
    if found is None:
        raise Invalid.one(field, "fk_not_found", f"{field} does not name a live location")
    parent_id: int = found[0]
    return parent_id
