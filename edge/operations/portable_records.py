"""Rows that `edge export` writes and `edge import` reads, in a format independent of the schema.

It omits secrets (password, PIN and badge hashes, API keys, broker accounts, devices, walls, the secrets of channels),
photos, and computed or short-lived rows such as alerts.

Each new table or column that is not left out requires a new FORMAT. An earlier format lacks it (FIRST_FORMATS,
FIRST_FORMATS_OF_FIELDS): it is written without it, and read with the default of the table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edge import clock
from edge.database.connection import column, execute, execute_many, reading, writing
from edge.errors import Conflict, Corrupt
from edge.records import gs1, search, tags

FORMAT = 3
Record = dict[str, Any]

# In write order: referenced records come first. The setting of people comes before the assets, because triggers keep
# the positions of people apart.
TABLES = (
    *("organization", "person", "people_setting", "location", "asset", "tag", "reader", "antenna", "antenna_name"),
    *("antenna_kind", "rssi_offset", "remote_name", "source", "track", "history", "handheld_scan", "carrier_load"),
    *("lost_asset", "door", "door_antenna", "passage", "channel", "rule", "output", "muster_plan", "muster_plan_point"),
    *("muster_plan_person", "muster", "muster_point", "muster_reader", "muster_person", "asset_note", "expected_list"),
    *("expected_item", "expected_line"),
)
LEFT_OUT = {  # columns with secrets, computed values, or the state of this box
    "person": {"password_hash", "pin_hash", "wrong_pins", "badge_hash", "badge_mark"},
    "tag": {"match_key", "gs1_key"},
    "source": {"site_no"},
    "track": {"site_no", "remote_no", "is_newest", "is_retired", "is_person"},
    "handheld_scan": {"device_id"},
    "door": {"site_no", "remote_id"},
    "passage": {"reads", "site_no", "remote_no"},
    "channel": {
        *("failures", "failing_since", "next_try_at", "last_error", "last_success_at", "sent", "lost"),
        *("is_test_requested", "tested_at", "test_ms", "test_result", "is_test_ok"),
    },
    "rule": {"is_seeded", "after_alert"},
    "output": {
        *("after_alert", "tested_at", "account", "password_hash", "is_on", "switched_at", "failing_since"),
        "last_error",
    },
}
_RENAMED = {("channel", "secret"): "has_secret"}
# Tables that earlier formats do not have.
FIRST_FORMATS = dict.fromkeys(
    (
        *("people_setting", "door", "door_antenna", "passage", "channel", "rule"),
        *("expected_list", "expected_item", "expected_line"),
    ),
    2,
) | dict.fromkeys(
    (
        *("output", "muster_plan", "muster_plan_point", "muster_plan_person", "muster", "muster_point"),
        *("muster_reader", "muster_person", "asset_note"),
    ),
    3,
)
FIRST_FORMATS_OF_FIELDS = {("rule", "outputs"): 3, ("rule", "musters"): 3, ("people_setting", "is_on_walls"): 3}
_EXPRESSIONS = {"has_secret": "length(secret) > 0"}  # of fields that are not columns
_HAS_PEOPLE = "SELECT 1 FROM people_setting WHERE key_prefix <> '' OR metadata_name <> ''"
_AT_ONCE = 1_000


def check_exportable(number: int = FORMAT) -> None:
    """Raise Conflict on a hub, whose history belongs to its sites, or if a format lacks the protection of people."""
    if number < FIRST_FORMATS["people_setting"] and execute(_HAS_PEOPLE).fetchone():
        raise Conflict(
            f"Format {number} cannot tell which assets are people, and everybody could see their positions: export "
            f"without --format"
        )
    if execute("SELECT 1 FROM site WHERE removed_at IS NULL").fetchone():
        raise Conflict("This box is a hub: create an export at each site, and use edge backup here")


def ids() -> tuple[bytes, int]:
    """Return the key of the id permutation and the number of assigned ids."""
    key, count = execute("SELECT id_key, id_count FROM instance").fetchone()
    return key, count


def fields() -> dict[str, tuple[str, ...]]:
    """Return the fields of each table: its columns in the open database, except those that are left out."""
    columns = {table: [row[1] for row in execute(f"PRAGMA table_info({table})")] for table in TABLES}
    return {
        table: tuple(_RENAMED.get((table, name), name) for name in names if name not in LEFT_OUT.get(table, ()))
        for table, names in columns.items()
    }


def read_tables(number: int = FORMAT) -> Iterator[tuple[str, Iterator[Record]]]:
    """Yield each table of a format with its records, in one consistent view. Consume them before the next table."""
    with reading():
        for table, every in fields().items():
            if FIRST_FORMATS.get(table, 1) > number:
                continue
            chosen = tuple(one for one in every if FIRST_FORMATS_OF_FIELDS.get((table, one), 1) <= number)
            rows = execute(f"SELECT {', '.join(_EXPRESSIONS.get(field, field) for field in chosen)} FROM {table}")
            yield table, (dict(zip(chosen, row, strict=True)) for row in rows)


def set_id_sequence(key: bytes, count: int) -> None:
    """Continue the id sequence of the exported box: no id of its records is assigned again."""
    with writing():
        execute("UPDATE instance SET id_key = ?, id_count = ?", (key, count))


def add(records: Iterable[tuple[str, Record]]) -> None:
    """Insert records into a new database, in batches of one transaction. Call `finish` after the last one."""
    execute("PRAGMA foreign_keys = off")  # a location may come before its parent; the whole file is checked at the end
    known, batch = fields(), list[tuple[str, Record]]()
    for table, record in records:
        _check(table, record, known)
        batch.append((table, _add_computed(table, record)))
        if len(batch) == _AT_ONCE:
            _insert(batch)
            batch = []
    _insert(batch)


def finish() -> None:
    """Build the search index from the imported records."""
    for kind in _SEARCHED:
        newest = 0
        while ids := column(f"SELECT id FROM {kind} WHERE id > ? ORDER BY id LIMIT 500", (newest,)):
            newest = ids[-1]
            with writing():
                search.index_stored(kind, ids)


def _check(table: str, record: Mapping[str, Any], known: Mapping[str, tuple[str, ...]]) -> None:
    unknown = set(record) - set(known.get(table, ()))
    if table not in known or unknown:
        unknown_names = f"fields of {table}: {', '.join(sorted(unknown))}" if table in known else f"records: {table}"
        raise Corrupt(f"The export contains unknown {unknown_names[:200]}")
    if any(isinstance(value, dict | list) for value in record.values()):
        raise Corrupt(f"The export contains a value of {table} that is neither text nor a number")


def _add_computed(table: str, record: Record) -> Record:
    """Add the fields that this release computes."""
    if table == "channel":
        return _without_secret(record)
    if table != "tag":
        return record
    keys = {
        "match_key": tags.match_key(str(record.get("tag_type")), str(record.get("value"))),
        "gs1_key": gs1.identity(str(record.get("value"))),
    }
    return record | keys


def _without_secret(record: Mapping[str, Any]) -> Record:
    """Disable a channel whose password, token or address is not in the export, until somebody enters it again."""
    channel = {field: value for field, value in record.items() if field != "has_secret"} | {"secret": b""}
    if record.get("has_secret") and channel.get("disabled_at") is None:
        channel["disabled_at"] = clock.now()
    return channel


def _insert(batch: Iterable[tuple[str, Record]]) -> None:
    """Insert a batch, one statement for each set of fields. Missing fields get the default of the table."""
    by_fields: dict[tuple[str, ...], list[list[Any]]] = {}
    for table, record in batch:
        by_fields.setdefault((table, *record), []).append(list(record.values()))
    with writing():
        for (table, *fields), rows in by_fields.items():
            marks = ", ".join("?" * len(fields))
            try:
                execute_many(f"INSERT INTO {table} ({', '.join(fields)}) VALUES ({marks})", rows)
            except sqlite3.DatabaseError as error:  # a constraint or a column type rejects the row
                raise Corrupt(f"A record of {table} cannot be imported: {error}") from error


_SEARCHED: tuple[search.Kind, ...] = ("asset", "location")
