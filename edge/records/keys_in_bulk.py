"""Prefixes many external keys, for example before a box with the same keys as others joins a hub."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import database, execute
from edge.errors import EdgeError
from edge.records import assets, locations
from edge.records.record import Kind
from edge.validation import values

ASSET, LOCATION = 2, 3  # as in the change feed
KINDS: Mapping[int, Kind[Any]] = {LOCATION: locations.KIND, ASSET: assets.KIND}
PER_TRANSACTION = 100


class Prefixed(NamedTuple):
    """How many keys changed, and why others could not."""

    changed: int
    refused: list[str]


def prefix_keys(actor: Actor, records: Iterable[tuple[int, int]], prefix: str) -> Prefixed:
    """Put a prefix before the keys of records (kind, id). Keys that begin with it stay, so a repeat changes nothing.

    Each rename is audited. Copies of another box's records and taken keys are refused one by one. Raises Invalid for a
    prefix that is no key.
    """
    values.external_key("prefix", prefix)
    changed = 0
    refused: list[str] = []
    pending = list(records)
    while pending:
        part, pending = pending[:PER_TRANSACTION], pending[PER_TRANSACTION:]
        with acting(actor) as act:
            act.note_changes("key.prefixed", Subject("key", prefix, prefix), {})
            keys = _keys(actor.organization_id, part)
            for kind, record_id in part:
                key = keys.get(record_id)
                if key is None or key.startswith(prefix):
                    continue
                try:
                    with database.savepoint():
                        new = values.external_key("external_key", f"{prefix}{key}")
                        KINDS[kind].rename(actor, record_id, new)
                    changed += 1
                except EdgeError as error:
                    refused.append(str(error))
    return Prefixed(changed, refused)


_KEYS = """
SELECT id, external_key FROM {} WHERE id IN (SELECT value FROM json_each(?)) AND +organization_id = ?
    AND deleted_at IS NULL
"""
_OWN = "SELECT id FROM {} WHERE organization_id = ? AND deleted_at IS NULL AND id NOT IN (SELECT record_id FROM mirror)"


def _keys(organization_id: int, records: Sequence[tuple[int, int]]) -> dict[int, str]:
    """Return the keys of those records that are live, by id."""
    values = json.dumps([record_id for _, record_id in records]), organization_id
    return dict(row for kind in KINDS.values() for row in execute(_KEYS.format(kind.owner), values))


def all_records(organization_id: int) -> list[tuple[int, int]]:
    """Return kind and id of all live records whose home is this box."""
    return [
        (number, record_id)
        for number, kind in KINDS.items()
        for (record_id,) in execute(_OWN.format(kind.owner), (organization_id,))
    ]
