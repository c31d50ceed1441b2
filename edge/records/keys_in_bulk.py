"""Prefixes many external keys, for example before a box with the same keys as others joins a hub."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import database, execute
from edge.errors import EdgeError
from edge.records import assets, locations
from edge.validation import values

ASSET, LOCATION = 2, 3  # kinds, as in the change feed
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
                        _rename(actor, kind, record_id, values.external_key("external_key", f"{prefix}{key}"))
                    changed += 1
                except EdgeError as error:
                    refused.append(str(error))
    return Prefixed(changed, refused)


def _keys(organization_id: int, records: Sequence[tuple[int, int]]) -> dict[int, str]:
    """Return the keys of those records that are live, by id."""
    rows = execute(
        "SELECT id, external_key FROM asset WHERE id IN (SELECT value FROM json_each(?1)) "
        "AND +organization_id = ?2 AND deleted_at IS NULL UNION ALL "
        "SELECT id, external_key FROM location WHERE id IN (SELECT value FROM json_each(?1)) "
        "AND +organization_id = ?2 AND deleted_at IS NULL",
        (json.dumps([record_id for _, record_id in records]), organization_id),
    )
    return dict(rows.fetchall())


def _rename(actor: Actor, kind: int, record_id: int, key: str) -> None:
    if kind == ASSET:
        assets.rename(actor, record_id, key)
    else:
        locations.rename(actor, record_id, key)


def all_records(organization_id: int) -> list[tuple[int, int]]:
    """Return kind and id of all live records whose home is this box."""
    rows = execute(
        "SELECT ?2, id FROM location WHERE organization_id = ?1 AND deleted_at IS NULL "
        "AND id NOT IN (SELECT record_id FROM mirror) UNION ALL SELECT ?3, id FROM asset WHERE organization_id = ?1 "
        "AND deleted_at IS NULL AND id NOT IN (SELECT record_id FROM mirror)",
        (organization_id, LOCATION, ASSET),
    )
    return rows.fetchall()
