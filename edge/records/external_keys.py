"""External keys, update times and validity windows of assets and locations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute
from edge.errors import Conflict, Invalid
from edge.texts import N_, fill

MILLISECOND = 1000
MAX_KEY_DIGITS = 18  # keys with more digits do not count for auto-mint (interface: Keys and filters)


class KeySeries(NamedTuple):
    """A namespace of generated keys (interface: Auto-mint)."""

    table: str
    prefix: str
    width: int


ASSET_KEYS = KeySeries("asset", "ASSET-", 4)
LOCATION_KEYS = KeySeries("location", "LOC-", 3)


def moment() -> int:
    """Return the current time in microseconds, truncated to whole milliseconds, the precision of the API."""
    now = clock.now()
    return now - now % MILLISECOND


def next_update(updated_at: int) -> int:
    """Return the next `updated_at`: now, but always later than the last one (interface: Bodies)."""
    return max(moment(), updated_at + MILLISECOND)


def mint_key(series: KeySeries, organization_id: int) -> str:
    """Return the highest live number plus one as a key. Call in the transaction that uses the key."""
    number = execute(
        f"SELECT ifnull(max(key_number), 0) + 1 FROM {series.table} "
        "WHERE organization_id = ? AND deleted_at IS NULL AND key_number IS NOT NULL",
        (organization_id,),
    ).fetchone()[0]
    key = f"{series.prefix}{number:0{series.width}d}"
    if number < 10**MAX_KEY_DIGITS or not is_key_taken(series, organization_id, key):
        return key
    # Keys with more digits have no `key_number`. Among those that follow, the last one is found by its text.
    (last,) = execute(
        f"SELECT max(external_key) FROM {series.table} WHERE organization_id = ? AND deleted_at IS NULL "
        "AND external_key BETWEEN ? AND ? AND length(external_key) = ? AND substr(external_key, ?) NOT GLOB '*[^0-9]*'",
        (organization_id, key, f"{series.prefix}{number + 10**9}", len(key), len(series.prefix) + 1),
    ).fetchone()
    return f"{series.prefix}{int(last.removeprefix(series.prefix)) + 1}"


def key_number(series: KeySeries, key: str) -> int | None:
    """Return the number in a key of the series, or None for any other key."""
    match = re.fullmatch(rf"{series.prefix}([0-9]{{{series.width},{MAX_KEY_DIGITS}}})", key)
    return int(match[1]) if match else None


def is_key_taken(series: KeySeries, organization_id: int, key: str) -> bool:
    """True if a live row of the organization has the key."""
    sql = f"SELECT 1 FROM {series.table} WHERE organization_id = ? AND external_key = ? AND deleted_at IS NULL"
    return execute(sql, (organization_id, key)).fetchone() is not None


def choose_key(series: KeySeries, organization_id: int, key: str | None) -> str:
    """Return `key`, or a generated one if it is None. Raises Conflict if a live row has the key."""
    if key is None:
        return mint_key(series, organization_id)
    if is_key_taken(series, organization_id, key):
        raise Conflict(fill(N_("external_key %(key)s already exists"), key=key))
    return key


def is_chosen(key: str, chosen: str) -> str:
    """Return the SQL condition that a key is chosen: begins with a text, or is one of the keys after a `=`.

    Both arguments are SQL expressions. The second one comes from `chosen_keys`; keys contain neither `=` nor blanks.
    """
    return (
        f"iif(substr({chosen}, 1, 1) = '=', instr(' ' || substr({chosen}, 2) || ' ', ' ' || {key} || ' ') > 0, "
        f"substr({key}, 1, length({chosen})) = {chosen})"
    )


def chosen_keys(entered: str) -> str:
    """Return an entered choice of keys in its stored form: a text, or `=` and keys separated by one blank."""
    return "=" + " ".join(re.split(r"[\s,;=]+", entered.strip("=,; "))) if entered.startswith("=") else entered


def check_window(valid_from: int, valid_to: int | None) -> None:
    """Raise Invalid if the window ends before it begins. Times are in microseconds."""
    if valid_to is not None and valid_to <= valid_from:
        raise Invalid.one("valid_to", "invalid_value", N_("valid_to must be later than valid_from"))


def keep_microseconds(changes: Mapping[str, Any], current: Any) -> dict[str, Any]:
    """Drop the change of a window that equals the stored one at the millisecond precision of the API."""
    kept = dict(changes)
    for column in ("valid_from", "valid_to"):
        stored = getattr(current, column)
        if stored is not None and kept.get(column) == stored - stored % MILLISECOND:
            kept[column] = stored
    return kept


def effective(alias: str) -> str:
    """Return the SQL condition that `:now` is within the window of a row.

    The unary plus keeps SQLite from choosing the index on the window instead of the index for ORDER BY.
    """
    return f"+{alias}.valid_from <= :now AND ({alias}.valid_to IS NULL OR {alias}.valid_to > :now)"


def visible(alias: str, *, include_deleted: bool) -> str:
    """Return the SQL condition of every list: live and within the window, or deleted if included (interface: Lists)."""
    if include_deleted:
        return f"({alias}.deleted_at IS NOT NULL OR {effective(alias)})"
    return f"{alias}.deleted_at IS NULL AND {effective(alias)}"
