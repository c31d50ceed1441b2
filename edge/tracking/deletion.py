"""Retention: deletes old and excess rows in transactions short enough not to delay ingest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.audit import Subject, acting
from edge.database.bounds import Bounds
from edge.database.connection import column, execute, execute_many, find_scalar, reading, writing
from edge.database.deletes import delete_some, delete_whole
from edge.errors import HistoryUnavailable
from edge.records import idempotency
from edge.tracking import copies, history_engine

# About a millisecond of writing each, to keep the ingest writer's wait short.
ROWS = 500
PAGES = 200
PHOTOS = 20  # of up to 256 KB
RAW_MESSAGES = 10  # packs of up to a megabyte


@contextmanager
def _forgetting() -> Iterator[None]:
    """Open a transaction that deletes by age: EPCIS does not declare the deleted events as errors."""
    with writing():
        execute("UPDATE epcis SET is_forgetting = 1")
        yield
        execute("UPDATE epcis SET is_forgetting = 0")


def drop_history(before: int, limit: int = ROWS) -> int:
    """Delete stays that ended before a time, oldest first. The newest row of every asset is kept at any age."""
    try:
        tracks = copies.tracks_ended_before(before, limit)  # outside the transaction, because it may scan all tracks
    except HistoryUnavailable:
        return 0  # later
    with _forgetting():
        if tracks:  # earlier stays are no longer sent to a hub or compared with it
            _report_unsent_history(before)
            for table in ("target", "hub", "former_hub", "feed"):
                execute(f"UPDATE {table} SET horizon = max(horizon, ?)", (before,))
        if not history_engine.is_remote():
            return _drop_of(tracks, before, limit)
    try:  # after the horizon is written here
        return copies.drop_remote_rows(tracks, before, limit)
    except HistoryUnavailable:
        return 0


def _drop_of(tracks: Sequence[int], before: int, limit: int) -> int:
    """Delete stays of these tracks, at most `limit`. Within the caller's transaction. Returns their number."""
    dropped = 0
    for track in tracks:
        dropped += copies.delete_rows_before(track, before, limit - dropped)
        if dropped >= limit:
            break
    return dropped


def drop_history_of_people(organization_id: int, before: int, limit: int = ROWS) -> int:
    """Delete stays, scans and passages of people that ended before a time; a hub deletes its copies of the stays."""
    dropped = 0
    tracks = copies.people_tracks_ended_before(organization_id, before, limit)  # outside the transaction, as below
    if tracks:
        with _forgetting():
            dropped = _drop_of(tracks, before, limit)
        if dropped >= limit:
            return dropped
    for one in _OF_PEOPLE:
        dropped += _drop_by_age(one, before, limit, organization_id)
    return dropped


def _report_unsent_history(before: int) -> None:
    """List history that is deleted before the hub has it, for the sync page."""
    execute(
        "INSERT OR IGNORE INTO set_aside (peer, what, reason, since) "
        "SELECT 0, 'history before ' || strftime('%Y-%m-%d', ?1 / 1000000, 'unixepoch'), "
        "'retention dropped it here before the hub had all of it', ?2 FROM target "
        "WHERE EXISTS (SELECT 1 FROM (SELECT b FROM change WHERE seq > acked_seq AND kind IN (1, 7) "
        "ORDER BY seq LIMIT 1000) WHERE b < ?1)",  # kinds: a stay, and a range of stays
        (before, clock.now()),
    )


def drop_dead_letters(bounds: Bounds, limit: int = ROWS) -> int:
    """Keep the newest dead letters of each reader, up to a number and a total size."""
    for (reader_id,) in execute("SELECT DISTINCT reader_id FROM dead_letter").fetchall():
        newest = execute("SELECT no, kept_bytes FROM dead_letter WHERE reader_id IS ? ORDER BY no DESC", (reader_id,))
        total = 0
        for position, (no, size) in enumerate(newest.fetchall()):
            total += size
            if position >= bounds.dead_letters or total > bounds.dead_letter_bytes:
                return delete_some(
                    "dead_letter", "no", "reader_id IS ? AND no <= ? ORDER BY no", (reader_id, no), limit
                )
    return 0


CROWDED = {  # name in the audit: table, key, condition for the rows of an owner, and the time that counts
    "unknown_tags": (
        *("unknown_tag", "organization_id, tag_type, match_key, reader_id"),
        *("organization_id IS ? AND reader_id = ?", "last_seen_at"),
    ),
    "unassigned_topics": ("unassigned_topic", "topic", "organization_id IS ?", "last_heard_at"),
}


def drop_crowded(name: str, keep: int, limit: int = ROWS) -> int:
    """Keep the newest rows of an owner with too many. Finds the end by an index, outside the transaction.

    `name`: in `CROWDED`.
    """
    table, key, owner, age = CROWDED[name]
    columns = ", ".join(condition.split()[0] for condition in owner.split(" AND "))
    crowded = execute(f"SELECT {columns} FROM {table} GROUP BY {columns} HAVING count(*) > ?", (keep,)).fetchone()
    if crowded is None:
        return 0
    cut = f"SELECT {age} FROM {table} WHERE {owner} ORDER BY {age} DESC LIMIT 1 OFFSET ?"
    (oldest_kept,) = execute(cut, (*crowded, keep)).fetchone()
    return delete_some(table, key, f"{owner} AND {age} <= ? ORDER BY {age}", (*crowded, oldest_kept), limit)


class Aged(NamedTuple):
    """Rows that are deleted by age: the columns of their key, and the time that counts."""

    table: str
    key: str
    age: str
    is_own: str = "1"  # condition for those of this box
    most: int = ROWS  # in one transaction


_SCANS = Aged("handheld_scan", "id", "handheld_scan.received_at")
_PASSAGES = Aged("passage", "no", "passage.at", is_own="passage.site_no IS NULL")
_WITHDRAWN = Aged("epcis_withdrawn", "no", "epcis_withdrawn.at")
WITH_HISTORY = {  # name in the audit: tables as old as the deleted history
    "records": (
        _SCANS,
        _PASSAGES,
        _WITHDRAWN,
        Aged("device_use", "no", "ended_at"),
        Aged("ledger", "reader_id, hour, bucket", f"hour * {clock.HOUR} + {clock.HOUR} - 1"),
        Aged("carrier_load", "asset_id, loaded_at", "unloaded_at"),
    ),
    "sensor_values": (
        Aged("asset_value", "asset_id", "max(ifnull(battery_at, 0), ifnull(temperature_at, 0), ifnull(pressed_at, 0))"),
    ),
    "notes": (Aged("asset_note", "id", "received_at"),),
    "photos": (Aged("asset_photo", "no", "received_at", most=PHOTOS),),
}
_OF_PEOPLE = (_SCANS, _PASSAGES, _WITHDRAWN)


def drop_old_records(name: str, before: int, limit: int = ROWS) -> int:
    """Delete records older than a time. `name`: in `WITH_HISTORY`."""
    return sum(_drop_by_age(one, before, limit) for one in WITH_HISTORY[name])


def _drop_by_age(one: Aged, before: int, limit: int, organization_id: int | None = None) -> int:
    """Delete rows by age. There is no index by age, so they are searched outside the transaction."""
    key = one.key.split(", ")
    source, where, values = one.table, f"{one.age} < ?", [before]
    if organization_id is not None:  # CROSS JOIN: by the index of the assets, since most rows are not of people
        source = f"tracked_person p CROSS JOIN {one.table} ON {one.table}.asset_id = p.asset_id"
        where, values = f"{where} AND {one.table}.organization_id = ? AND {one.is_own}", [before, organization_id]
    chosen = ", ".join(f"{one.table}.{name}" for name in key)
    rows = execute(f"SELECT {chosen} FROM {source} WHERE {where} LIMIT ?", (*values, min(limit, one.most))).fetchall()
    if rows:
        with _forgetting():
            execute_many(f"DELETE FROM {one.table} WHERE {' AND '.join(f'{name} = ?' for name in key)}", rows)
    return len(rows)


_STOCK_TAKE_DETAILS = {
    "stock_take_line": "no",
    "stock_take_expected": "asset_id",
    "stock_take_unsent": "no",
    "stock_take_scan": "id",
}
# Name in the audit: table, column of its details, details, and the time that counts. started_at is from a device.
WHOLE = {
    "stock_take_rows": ("stock_take", "stock_take_id", _STOCK_TAKE_DETAILS, "ifnull(finished_at, cancelled_at)"),
    "expected_list_rows": (
        *("expected_list", "list_id"),
        *({"expected_line": "no", "expected_item": "asset_id"}, "ifnull(signed_at, created_at)"),
    ),
}


def drop_whole(name: str, before: int, limit: int = ROWS) -> int:
    """Delete rows of one that ended before a time: its details first, then itself. `name`: in `WHOLE`."""
    table, owner, details, age = WHOLE[name]
    old = execute(f"SELECT id FROM {table} WHERE {age} < ? LIMIT 1", (before,)).fetchone()
    return delete_whole(table, owner, details, old[0], limit) if old else 0


def ended_stock_takes() -> list[str]:
    """Return ended stock-takes, least valuable first: canceled ones, then signed-off ones, oldest first."""
    ended = "SELECT id FROM stock_take WHERE finished_at IS NOT NULL OR cancelled_at IS NOT NULL "
    return column(ended + "ORDER BY finished_at IS NOT NULL, ifnull(finished_at, cancelled_at)")


def drop_these_stock_takes(ids: Sequence[str], limit: int = ROWS) -> int:
    """Delete rows of the first of these stock-takes that still exists."""
    dropped = (delete_whole("stock_take", "stock_take_id", _STOCK_TAKE_DETAILS, one, limit) for one in ids)
    return next(filter(None, dropped), 0)


def drop_raw_messages(limit: int = RAW_MESSAGES) -> int:
    """Delete the oldest packs of unrecorded messages."""
    return delete_some("raw_message", "no", "1 ORDER BY no", (), limit)


def drop_audit(before: int, limit: int = ROWS) -> int:
    """Delete audit lines from before a time, by the index of each organization."""
    with writing():
        owners = column("SELECT id FROM organization UNION ALL SELECT NULL")
        return sum(delete_some("audit", "no", _OLD_AUDIT, (owner, before), limit) for owner in owners)


_OLD_AUDIT = "organization_id IS ? AND at < ? ORDER BY at"


def newest_audit() -> int | None:
    """Return the time of the newest line, by the index of each organization."""
    newest = "SELECT (SELECT max(at) FROM audit WHERE organization_id = organization.id) AS at FROM organization"
    return find_scalar(f"SELECT max(at) FROM ({newest})")


def drop_audit_over(keep: int, limit: int = ROWS) -> Iterator[int]:
    """Keep `keep` lines, and yield how many each step deleted.

    The author of the most entries of the last week loses the oldest, so that nobody can erase those of others.
    """
    first, last = execute("SELECT ifnull(min(no), 0), ifnull(max(no), -1) FROM audit").fetchone()
    if last - first < keep:  # without counting
        return
    rows = execute(_AUDIT_OF_ACTORS, (clock.now() - 7 * clock.DAY,))  # once, because it reads the whole audit
    counts = {tuple(key): (recent, total) for *key, recent, total in rows}
    excess = sum(total for _, total in counts.values()) - keep
    while excess > 0:
        actor = max(counts, key=counts.__getitem__)
        recent, total = counts[actor]
        dropped = delete_some("audit", "no", _OF_SHELL if actor[0] is None else _OF_ACTOR, actor, min(excess, limit))
        if not dropped:  # deleted meanwhile
            return
        counts[actor] = (min(recent, total - dropped), total - dropped)
        excess -= dropped
        yield dropped


_AUDIT_OF_ACTORS = """
    SELECT actor_id, organization_id, actor_kind, sum(at > ?), count(*) FROM audit GROUP BY 1, 2, 3
"""
_OF_ACTOR = "actor_id = ? AND +organization_id IS ? AND actor_kind = ? ORDER BY at, no"  # by the index of actors
_OF_SHELL = "actor_id IS ? AND organization_id IS ? AND actor_kind = ? ORDER BY at, no"


BULK_JOBS_KEPT = 7 * clock.DAY  # after their end
CHOICES_KEPT = 7 * clock.DAY  # of locations for sleds, after receipt; they ended long before
SLED_READS_KEPT = clock.DAY


_OLD_JOB = f"SELECT id FROM bulk_job WHERE finished_at < ? - {BULK_JOBS_KEPT}"
_EXPIRED = (  # table, key, condition for the time now; details before their records
    ("web_session", "token_hash", "expires_at < ?"),
    ("refresh_token", "token_hash", "expires_at < ?"),
    ("idempotent_answer", "no", f"created_at <= ? - {idempotency.LIFETIME} ORDER BY created_at"),
    ("location_choice", "id", f"received_at < ? - {CHOICES_KEPT}"),
    (
        *("sled_read", "reader_id, observed_at, asset_id"),
        f"reader_id IN (SELECT reader_id FROM sled_assignment) AND observed_at < ? - {SLED_READS_KEPT}",
    ),
    ("bulk_job_asset", "job_id, asset_id", f"job_id IN ({_OLD_JOB})"),
    ("bulk_job_row", "job_id, line", f"job_id IN ({_OLD_JOB})"),
    (
        *("bulk_job", "id"),
        f"finished_at < ? - {BULK_JOBS_KEPT} AND NOT EXISTS (SELECT 1 FROM bulk_job_asset WHERE job_id = id) "
        "AND NOT EXISTS (SELECT 1 FROM bulk_job_row WHERE job_id = id)",
    ),
    (
        *("token_family", "no"),
        f"created_at < ? - {clock.DAY} AND NOT EXISTS (SELECT 1 FROM refresh_token WHERE family_id = token_family.no)",
    ),
)


def drop_expired(now: int, limit: int = ROWS) -> int:
    """Delete some rows of each table whose time has passed, such as expired sessions and finished bulk jobs."""
    with writing():
        return sum(delete_some(*one, (now,), limit) for one in _EXPIRED)


def free_pages() -> tuple[int, int]:
    """Return the number of unused pages in the file, and the size of a page in bytes."""
    with reading():
        return execute("PRAGMA freelist_count").fetchone()[0], execute("PRAGMA page_size").fetchone()[0]


def shrink(pages: int = PAGES) -> None:
    """Return some unused pages to the file system."""
    with writing():
        execute(f"PRAGMA incremental_vacuum({pages:d})").fetchall()  # each row read frees one page


def record_dropped(reason: str, dropped: Mapping[str, int]) -> None:
    """Write an audit line about deleted data, for the people of the site."""
    with acting(actors.service()) as act:
        act.note("data.dropped", Subject("box", 0, "this box"), {"reason": reason, **dropped})


class Dropped(NamedTuple):
    at: int
    reason: str
    counts: dict[str, int]


def last_dropped(count: int) -> list[Dropped]:
    """Return the last deletions, newest first."""
    rows = execute(
        "SELECT at, detail FROM audit WHERE organization_id IS NULL AND action = 'data.dropped' "
        "ORDER BY at DESC LIMIT ?",
        (count,),
    )
    details = [(at, json.loads(detail)) for at, detail in rows]
    return [Dropped(at, detail.pop("reason"), detail) for at, detail in details]
