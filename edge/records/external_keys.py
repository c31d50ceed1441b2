"""What assets and locations have in common: minted keys, the update token, and what is visible on lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute
from edge.errors import Conflict, Invalid

MILLISECOND = 1000
MAX_KEY_DIGITS = 18  # of a key that auto-mint still counts (contract: Keys and filters)


class Minted(NamedTuple):
    """One namespace of minted keys (spec: external_key auto-mint)."""

    table: str
    prefix: str
    width: int


ASSET_KEYS = Minted("asset", "ASSET-", 4)
LOCATION_KEYS = Minted("location", "LOC-", 3)


def moment() -> int:
    """Now, as records keep it: whole milliseconds, so that what the wire shows is what is compared."""
    now = clock.now()
    return now - now % MILLISECOND


def next_update(updated_at: int) -> int:
    """Strictly later than the row's last change, also within one millisecond (contract: Bodies)."""
    return max(moment(), updated_at + MILLISECOND)


def mint_key(minted: Minted, organization_id: int) -> str:
    """The highest live number plus one; to be called in the transaction that uses it."""
    number = execute(
        f"SELECT ifnull(max(key_number), 0) + 1 FROM {minted.table} "
        "WHERE organization_id = ? AND deleted_at IS NULL AND key_number IS NOT NULL",
        (organization_id,),
    ).fetchone()[0]
    while is_key_taken(minted, organization_id, key := f"{minted.prefix}{number:0{minted.width}d}"):
        number += 1  # only where a live key has too many digits to be counted
    return key


def key_number(minted: Minted, key: str) -> int | None:
    """The number in a key that looks minted."""
    match = re.fullmatch(rf"{minted.prefix}([0-9]{{{minted.width},{MAX_KEY_DIGITS}}})", key)
    return int(match[1]) if match else None


def is_key_taken(minted: Minted, organization_id: int, key: str) -> bool:
    sql = f"SELECT 1 FROM {minted.table} WHERE organization_id = ? AND external_key = ? AND deleted_at IS NULL"
    return execute(sql, (organization_id, key)).fetchone() is not None


def choose_key(minted: Minted, organization_id: int, key: str | None) -> str:
    """The wanted key, or a minted one. Raises Conflict when a live row has it."""
    if key is None:
        return mint_key(minted, organization_id)
    if is_key_taken(minted, organization_id, key):
        raise Conflict(f"external_key {key} already exists")
    return key


def check_window(valid_from: int, valid_to: int | None) -> None:
    if valid_to is not None and valid_to <= valid_from:
        raise Invalid.one("valid_to", "invalid_value", "valid_to must be later than valid_from")


def keep_microseconds(changes: Mapping[str, Any], current: Any) -> dict[str, Any]:
    """A window that is sent back as the wire showed it, in milliseconds, is not a change."""
    kept = dict(changes)
    for column in ("valid_from", "valid_to"):
        stored = getattr(current, column)
        if stored is not None and kept.get(column) == stored - stored % MILLISECOND:
            kept[column] = stored
    return kept


def update(table: str, record_id: int, values: Mapping[str, Any]) -> None:
    assignments = ", ".join(f"{column} = ?" for column in values)
    execute(f"UPDATE {table} SET {assignments} WHERE id = ?", (*values.values(), record_id))


def effective(alias: str) -> str:
    """Within its window at `:now`. The plus stops SQLite from using an index of the window instead of the order's."""
    return f"+{alias}.valid_from <= :now AND ({alias}.valid_to IS NULL OR {alias}.valid_to > :now)"


def visible(alias: str, *, include_deleted: bool) -> str:
    """The condition of every list: live and within its window, or deleted if wanted (contract: Lists)."""
    if include_deleted:
        return f"({alias}.deleted_at IS NOT NULL OR {effective(alias)})"
    return f"{alias}.deleted_at IS NULL AND {effective(alias)}"
