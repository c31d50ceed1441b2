"""Rows that `edge export` writes and `edge import` reads, in a format independent of the schema.

It omits secrets (password, PIN and badge hashes, API keys, broker accounts, devices, walls, the secrets of channels),
photos, and computed or short-lived rows such as alerts.

Each new table or field of FIELDS requires a new FORMAT. An earlier format lacks it (FIRST_FORMATS,
FIRST_FORMATS_OF_FIELDS): it is written without it, and read with the default of the table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edge import clock
from edge.database.connection import execute, execute_many, reading, writing
from edge.errors import Conflict, Corrupt
from edge.records import gs1, search, tags
from edge.records.search import Searchable
from edge.records.tags import TagRow

FORMAT = 3
Record = dict[str, Any]

# In write order: referenced records come first.
FIELDS: dict[str, tuple[str, ...]] = {
    "organization": ("id", "name", "created_at", "topic_prefix"),
    "person": ("id", "organization_id", "email", "name", "role", "language", "created_at", "updated_at", "disabled_at"),
    # Before the assets: triggers keep the positions of people apart.
    "people_setting": (
        *("organization_id", "key_prefix", "metadata_name", "metadata_value", "seen_by", "muster_by", "is_in_api"),
        *("history_days", "report_days", "is_on_walls"),
    ),
    "location": (
        *("id", "organization_id", "parent_id", "external_key", "key_number", "name", "description", "is_active"),
        *("valid_from", "valid_to", "created_at", "updated_at", "deleted_at"),
    ),
    "asset": (
        *("id", "organization_id", "external_key", "key_number", "name", "description", "is_active", "metadata"),
        *("valid_from", "valid_to", "created_at", "updated_at", "deleted_at"),
    ),
    "tag": ("id", "organization_id", "asset_id", "location_id", "tag_type", "value", "created_at", "deleted_at"),
    "reader": (
        *("id", "organization_id", "name", "topic", "status_topic", "format", "mapping", "location_id", "min_rssi"),
        *("clock_setting", "is_enabled", "created_at", "updated_at", "deleted_at"),
    ),
    "antenna": ("reader_id", "port", "location_id", "min_rssi", "is_enabled"),
    "antenna_name": ("reader_id", "name", "port"),
    "antenna_kind": ("no", "organization_id", "reader_id", "port", "location_id", "kind"),
    "rssi_offset": ("no", "organization_id", "reader_id", "port", "decibels"),
    "remote_name": ("site_no", "remote_id", "kind", "name"),
    "source": ("no", "organization_id", "location_id", "reader_id", "port", "remote_reader", "remote_person"),
    "track": (
        *("no", "asset_id", "organization_id", "location_id", "last_seen_at", "dwell_started_at", "row_at", "row_seq"),
        *("row_rule", "history_rows"),
    ),
    "history": (*("position_no", "observed_at", "seq", "seen_for", "source_no", "delay", "quality", "rssi", "rule"),),
    "handheld_scan": (
        *("id", "organization_id", "person_id", "sent_by", "location_id", "asset_id", "code", "outcome"),
        *("observed_at", "received_at", "seq", "undone_at", "waits_for", "carrier_act", "carrier_id", "load_ended_at"),
    ),
    "carrier_load": ("asset_id", "loaded_at", "carrier_id", "loaded_by", "location_id", "unloaded_at"),
    "lost_asset": ("asset_id", "organization_id", "marked_at", "marked_by"),
    "door": ("id", "organization_id", "name", "location_id", "created_at", "deleted_at"),
    "door_antenna": ("no", "door_id", "side", "reader_id", "port"),
    "passage": (
        *("no", "organization_id", "door_id", "asset_id", "at", "direction", "confidence", "inner_reads"),
        *("outer_reads", "since", "until", "decided_at", "revision"),
    ),
    "channel": (
        *("no", "organization_id", "kind", "name", "settings", "has_secret", "network", "digest", "quiet_from"),
        *("quiet_until", "is_sent_when_over", "created_at", "disabled_at"),
    ),
    "rule": (
        *("no", "organization_id", "name", "asset_kind", "asset_name", "asset_value", "kind", "location_id", "door_id"),
        *("direction", "reader_id", "span", "number", "days", "from_minute", "until_minute", "channels", "created_at"),
        *("changed_at", "disabled_at", "deleted_at", "outputs", "musters"),
    ),
    "output": (
        *("no", "organization_id", "name", "form", "device", "relay", "topic", "on_payload", "off_payload", "seconds"),
        *("created_at", "disabled_at"),
    ),
    "muster_plan": ("id", "organization_id", "name", "chosen", "chosen_name", "chosen_value", "created_at"),
    "muster_plan_point": ("plan_id", "location_id"),
    "muster_plan_person": ("plan_id", "asset_id"),
    "muster": (
        *("id", "organization_id", "plan_id", "name", "is_drill", "started_at", "started_by", "ended_at", "ended_by"),
        "note",
    ),
    "muster_point": ("muster_id", "location_id", "name"),
    "muster_reader": ("muster_id", "reader_id"),
    "muster_person": (
        *("muster_id", "asset_id", "asset_key", "name", "seen_before", "ticked_at", "ticked_by", "result", "how"),
        *("place", "seen_at"),
    ),
    "asset_note": ("id", "organization_id", "asset_id", "person_id", "text", "made_at", "received_at"),
    "expected_list": (
        *("id", "organization_id", "name", "door_id", "direction", "location_id", "created_at", "created_by"),
        *("started_at", "signed_at", "signed_by"),
    ),
    "expected_item": ("list_id", "asset_id"),
    "expected_line": ("list_id", "no", "result", "asset_id", "asset_key", "name", "how", "seen_at", "other"),
}
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


def read_tables(number: int = FORMAT) -> Iterator[tuple[str, Iterator[Record]]]:
    """Yield each table of a format with its records, in one consistent view. Consume them before the next table."""
    with reading():
        for table, every in FIELDS.items():
            if FIRST_FORMATS.get(table, 1) > number:
                continue
            fields = tuple(one for one in every if FIRST_FORMATS_OF_FIELDS.get((table, one), 1) <= number)
            rows = execute(f"SELECT {', '.join(_EXPRESSIONS.get(field, field) for field in fields)} FROM {table}")
            yield table, (dict(zip(fields, row, strict=True)) for row in rows)


def set_id_sequence(key: bytes, count: int) -> None:
    """Continue the id sequence of the exported box: no id of its records is assigned again."""
    with writing():
        execute("UPDATE instance SET id_key = ?, id_count = ?", (key, count))


def add(records: Iterable[tuple[str, Record]]) -> None:
    """Insert records into a new database, in batches of one transaction. Call `finish` after the last one."""
    execute("PRAGMA foreign_keys = off")  # a location may come before its parent; the whole file is checked at the end
    batch: list[tuple[str, Record]] = []
    for table, record in records:
        _check(table, record)
        batch.append((table, _add_computed(table, record)))
        if len(batch) == _AT_ONCE:
            _insert(batch)
            batch = []
    _insert(batch)


def finish() -> None:
    """Build the search index from the imported records."""
    for kind in _SEARCHED:
        newest = 0
        while page := execute(_RECORDS.format(kind), (newest,)).fetchall():
            newest = page[-1][1]
            with writing():
                for organization_id, *row in page:
                    search.index_record(kind, organization_id, Searchable(*row), _live_tags(kind, row[0]))


def _check(table: str, record: Mapping[str, Any]) -> None:
    unknown = set(record) - set(FIELDS.get(table, ()))
    if table not in FIELDS or unknown:
        unknown_names = f"fields of {table}: {', '.join(sorted(unknown))}" if table in FIELDS else f"records: {table}"
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


def _live_tags(kind: search.Kind, record_id: int) -> list[TagRow]:
    rows = execute(
        f"SELECT id, tag_type, value FROM tag WHERE {kind}_id = ? AND deleted_at IS NULL ORDER BY id", (record_id,)
    )
    return [TagRow(*row) for row in rows]


_SEARCHED: tuple[search.Kind, ...] = ("asset", "location")
_RECORDS = """
    SELECT organization_id, id, external_key, name, description, is_active, valid_from, valid_to, deleted_at
    FROM {} WHERE id > ? ORDER BY id LIMIT 500
"""
