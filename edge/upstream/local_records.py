"""Records of this box as the service gets them.

Copies of a hub's assets are not sent: the hub has them, and may have an upstream of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.database.change_log import Kind
from edge.database.connection import execute
from edge.records.tags import Owner, from_json, tags_as_json
from edge.upstream.content import Content, Tag
from edge.validation import json_text

_TABLES: dict[Kind, Owner] = {Kind.ASSET: "asset", Kind.LOCATION: "location"}
_IS_SENT = "NOT EXISTS (SELECT 1 FROM mirror WHERE mirror.record_id = r.id AND mirror.peer = 0)"
_COLUMNS = (
    f"r.id, r.external_key, r.name, r.description, r.is_active, r.valid_from, r.valid_to, r.deleted_at, {_IS_SENT}"
)


class LocalRecord(NamedTuple):
    """A record, or one that is deleted. `parent_id` is an id of this box, and so is `id`."""

    id: int
    kind: Kind
    key: str
    fields: Mapping[str, Any]  # without the parent
    parent_id: int | None
    tags: Sequence[Tag]
    is_deleted: bool
    is_in_effect: bool
    is_sent: bool

    def content(self, parent_remote_id: int | None) -> Content:
        parent = {"parent_id": parent_remote_id} if self.kind is Kind.LOCATION else {}
        return Content(self.key, {**self.fields, **parent}, self.tags)


def read(organization_id: int, ids: Collection[int]) -> dict[int, LocalRecord]:
    """Return the records with these ids, and the ancestors of their locations. Others are deleted."""
    records: dict[int, LocalRecord] = {}
    missing = set(ids)
    while missing:
        present = [one for kind in _TABLES for one in _read(organization_id, kind, missing)]
        records.update({one.id: one for one in present})
        missing = {one.parent_id for one in present if one.parent_id is not None} - set(records)
    return records


def ids_after(organization_id: int, after: int, limit: int) -> list[int]:
    """Return the next live records by id, of both kinds."""
    ids: list[int] = []
    for table in _TABLES.values():
        rows = execute(
            f"SELECT id FROM {table} r WHERE organization_id = ? AND id > ? AND deleted_at IS NULL AND {_IS_SENT} "
            "ORDER BY id LIMIT ?",
            (organization_id, after, limit),
        )
        ids += [row[0] for row in rows]
    return sorted(ids)[:limit]


def _read(organization_id: int, kind: Kind, ids: Collection[int]) -> list[LocalRecord]:
    table, now = _TABLES[kind], clock.now()
    own = "r.metadata" if kind is Kind.ASSET else "r.parent_id"
    rows = execute(
        f"SELECT {_COLUMNS}, {tags_as_json(table, 'r.id')}, {own} FROM {table} r "
        "WHERE id IN (SELECT value FROM json_each(?)) AND +organization_id = ?",
        (json_text.text(sorted(ids)), organization_id),
    )
    records = []
    for record_id, key, name, description, is_active, valid_from, valid_to, deleted_at, is_sent, tags, last in rows:
        metadata = json_text.raw_or_none(last) if kind is Kind.ASSET else None
        fields = {
            "name": name,
            "description": description,
            "is_active": bool(is_active),
            "valid_from": clock.rfc3339(valid_from),
            "valid_to": None if valid_to is None else clock.rfc3339(valid_to),
            **({"metadata": metadata} if metadata is not None else {}),
        }
        records.append(
            LocalRecord(
                *(record_id, kind, key, fields, last if kind is Kind.LOCATION else None),
                tags=[(tag.tag_type, tag.value) for tag in from_json(tags)],
                is_deleted=deleted_at is not None,
                is_in_effect=valid_from <= now and (valid_to is None or valid_to > now),
                is_sent=bool(is_sent),
            )
        )
    return records
