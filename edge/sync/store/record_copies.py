"""Writes a copy of a record from another machine: its row, its tags and its search entry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edge.database.change_log import Kind
from edge.database.connection import column, execute, execute_many, find_scalar, insert
from edge.database.ids import new_ids
from edge.records import gs1, search, tagging
from edge.records.external_keys import ASSET_KEYS, LOCATION_KEYS, key_number, moment
from edge.records.tags import NewTag, match_key
from edge.sync.store.exchange import HUB, AssetRecord, LocationRecord, Record
from edge.sync.store.record_lines import of_stored, table_of
from edge.validation.values import MAX_INT64

ALL_IDS = (-MAX_INT64, MAX_INT64)


def write(organization_id: int, local_id: int, record: Record, *, key: str, parent_id: int | None = None) -> None:
    """Make the record equal to its original. Its key and tags must be free.

    An equal record is not written, since each write is a change that travels to every site and back.
    """
    is_changed = _write_row(organization_id, local_id, record, key, parent_id)
    if _write_tags(organization_id, local_id, record) or is_changed:
        search.index_stored(table_of(record), [local_id])


def holder_of_key(organization_id: int, record: Record, key: str, except_id: int | None) -> int | None:
    """Return the live record that has the key, other than `except_id`."""
    return find_scalar(
        f"SELECT id FROM {table_of(record)} "
        "WHERE organization_id = ? AND external_key = ? AND deleted_at IS NULL AND id IS NOT ?",
        (organization_id, key, except_id),
    )


def holders_of_tags(
    organization_id: int, tags: Sequence[tuple[str, str]], except_id: int | None = None
) -> list[tuple[int, str, str]]:
    """Return (record, tag_type, value) for those of the tags that a record has here, other than `except_id`."""
    rows = execute(
        "SELECT ifnull(asset_id, location_id), tag_type, tag.value FROM json_each(?) k "
        "CROSS JOIN tag ON tag_type = k.value ->> 0 AND tag.value = k.value ->> 1 "  # forces use of the index
        "WHERE organization_id = ? AND deleted_at IS NULL AND ifnull(asset_id, location_id) IS NOT ?",
        (json.dumps(list(tags)), organization_id, except_id),
    )
    return rows.fetchall()


def retire(organization_id: int, kind: search.Kind, record_id: int, at: int) -> None:
    """Soft-delete a live record and its tags; its history stays."""
    execute(f"UPDATE tag SET deleted_at = ? WHERE {kind}_id = ? AND deleted_at IS NULL", (at, record_id))
    execute(
        f"UPDATE {kind} SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL AND organization_id = ?",
        (at, record_id, organization_id),
    )
    execute("UPDATE searchable SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL", (at, record_id))


def drop_tag(organization_id: int, record_id: int, tag_type: str, value: str) -> None:
    """Remove a tag from a record, because another record has it at their home."""
    execute(
        "UPDATE tag SET deleted_at = ? WHERE organization_id = ? AND tag_type = ? AND value = ? "
        "AND ifnull(asset_id, location_id) = ? AND deleted_at IS NULL",
        (moment(), organization_id, tag_type, value, record_id),
    )


def in_order(locations: Sequence[LocationRecord]) -> list[LocationRecord]:
    """Return parents before children. Missing parents are known already or will be requested."""
    waiting = {record.ref: record for record in locations}
    ordered: list[LocationRecord] = []
    for first in list(waiting):
        way_up: list[LocationRecord] = []
        record = waiting.pop(first, None)
        while record is not None:
            way_up.append(record)
            record = None if record.parent is None else waiting.pop(record.parent, None)
        ordered += reversed(way_up)
    return ordered


_KEYS = {"asset": ASSET_KEYS, "location": LOCATION_KEYS}
_NOT_STORED = ("ref", "parent", "tags", "home", "more")  # in its row as they are at the peer


def _write_row(organization_id: int, local_id: int, record: Record, key: str, parent_id: int | None) -> bool:
    """Write the row. Returns True if it differed."""
    table = table_of(record)
    values = {name: value for name, value in record._asdict().items() if name not in _NOT_STORED} | dict(record.more)
    values |= {"external_key": key, "key_number": key_number(_KEYS[table], key)}
    if isinstance(record, LocationRecord):
        values["parent_id"] = parent_id
    changed = ", ".join(f"{name} = excluded.{name}" for name in values)
    differs = " OR ".join(f"{name} IS NOT excluded.{name}" for name in values)
    rest = f"ON CONFLICT (id) DO UPDATE SET {changed} WHERE {differs}"
    return insert(table, {"id": local_id, "organization_id": organization_id, **values}, rest).rowcount > 0


def _write_tags(organization_id: int, local_id: int, record: Record) -> bool:
    """Write the tags. Returns True if they differed."""
    table = table_of(record)
    new_tags = {(kind, value) for kind, value in record.tags} if record.deleted_at is None else set()
    held = {
        (kind, value): tag_id
        for tag_id, kind, value in execute(
            f"SELECT id, tag_type, value FROM tag WHERE {table}_id = ? AND deleted_at IS NULL",
            (local_id,),
        )
    }
    now = moment()
    execute_many(
        "UPDATE tag SET deleted_at = ? WHERE id = ?", [(now, held[pair]) for pair in sorted(set(held) - new_tags)]
    )
    missing = sorted(new_tags - set(held))
    execute_many(
        f"INSERT INTO tag (id, organization_id, {table}_id, tag_type, value, match_key, gs1_key, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (tag_id, organization_id, local_id, *pair, match_key(*pair), gs1.identity(pair[1]), now)
            for tag_id, pair in zip(sorted(new_ids(len(missing))) if missing else [], missing, strict=True)
        ],
    )
    tagging.send_tag_attached(organization_id, [NewTag(*pair) for pair in missing])
    return set(held) != new_tags


def live_copies(after: int, until: int | None) -> list[int]:
    """Return the hub's ids of its live assets here, also lost ones and those in conflict, in a range. For sites."""
    return column(
        "SELECT remote_id FROM link JOIN asset ON asset.id = local_id AND (deleted_at IS NULL "
        "OR EXISTS (SELECT 1 FROM conflict c WHERE c.peer = link.peer AND c.remote_id = link.remote_id)) "
        "WHERE link.peer = ? AND remote_id > ? AND ifnull(remote_id <= ?, 1) ORDER BY remote_id",
        (HUB, after, until),
    )


def originals_in_conflicts(peer: int, kind: type[Record], span: tuple[int, int] = ALL_IDS) -> dict[int, Any]:
    """Return the original records in conflicts by the peer's ids, since their copies here are incomplete."""
    rows = execute(f"SELECT remote_id, record {_IN_CONFLICT}", (peer, _KINDS[kind], *span))
    return {ref: of_stored(kind, text) for ref, text in rows}


def sizes_in_conflicts(peer: int, kind: type[Record], span: tuple[int, int] = ALL_IDS) -> dict[int, int]:
    """Return the lengths of the original records in conflicts by the peer's ids."""
    return dict(execute(f"SELECT remote_id, length(record) {_IN_CONFLICT}", (peer, _KINDS[kind], *span)).fetchall())


_KINDS: Mapping[type[Record], Kind] = {AssetRecord: Kind.ASSET, LocationRecord: Kind.LOCATION}
_IN_CONFLICT = "FROM conflict WHERE peer = ? AND kind = ? AND remote_id BETWEEN ? AND ?"
