"""Retention: deletes old and excess rows in transactions short enough not to delay ingest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.audit import Subject, acting
from edge.database.bounds import Bounds
from edge.database.connection import execute, execute_many, reading, writing
from edge.errors import HistoryUnavailable
from edge.records import idempotency
from edge.tracking import copies, history_engine, report

# About a millisecond of writing each, to keep the ingest writer's wait short.
ROWS = 500
PAGES = 200
RAW_MESSAGES = 10  # packs of up to a megabyte


def newest_scan() -> int | None:
    """Return the time of the newest scan on this machine."""
    return report.newest_scan() or None


@contextmanager
def _forgetting() -> Iterator[None]:
    """Open a transaction that deletes by age, so that EPCIS does not declare the deleted events as errors."""
    with writing():
        execute("UPDATE epcis SET is_forgetting = 1")
        yield
        execute("UPDATE epcis SET is_forgetting = 0")


def drop_history(before: int, limit: int = ROWS) -> int:
    """Delete stays that ended before a time, oldest first. The newest row of every asset is kept at any age."""
    dropped = 0
    try:
        tracks = copies.tracks_ended_before(before, limit)  # outside the transaction, because it may scan all tracks
    except HistoryUnavailable:
        return 0  # later
    with _forgetting():
        if tracks:  # earlier stays are no longer sent to a hub or compared with it
            _report_unsent_history(before)
            execute("UPDATE target SET horizon = max(horizon, ?)", (before,))
            execute("UPDATE hub SET horizon = max(horizon, ?)", (before,))
            execute("UPDATE former_hub SET horizon = max(horizon, ?)", (before,))
            execute("UPDATE feed SET horizon = max(horizon, ?)", (before,))
        for track in () if history_engine.is_remote() else tracks:
            dropped += copies.delete_rows_before(track, before, limit - dropped)
            if dropped >= limit:
                break
    return _drop_remote(tracks, before, limit) if history_engine.is_remote() else dropped


def _drop_remote(tracks: Sequence[int], before: int, limit: int) -> int:
    """Delete stays of these tracks in PostgreSQL, after the horizon is written here."""
    try:
        copies.count_after_deletion()
        return copies.drop_remote_rows(tracks, before, limit)
    except HistoryUnavailable:
        return 0


def drop_history_of_people(organization_id: int, before: int, limit: int = ROWS) -> int:
    """Delete stays, scans and passages of people that ended before a time; a hub deletes its copies of the stays."""
    dropped = 0
    tracks = copies.people_tracks_ended_before(organization_id, before, limit)  # outside the transaction, as below
    if tracks:
        with _forgetting():
            for track in tracks:
                dropped += copies.delete_rows_before(track, before, limit - dropped)
                if dropped >= limit:
                    return dropped
    for table, key, sql in _OF_PEOPLE:
        rows = execute(sql, (organization_id, before, limit)).fetchall()
        if rows:
            with writing():
                execute_many(f"DELETE FROM {table} WHERE {key} = ?", rows)
        dropped += len(rows)
    return dropped


# Table, primary key, search. CROSS JOIN: by the index of the assets, since most rows are not of people.
_OF_PEOPLE = (
    (
        *("handheld_scan", "id"),
        "SELECT scan.id FROM tracked_person p CROSS JOIN handheld_scan scan ON scan.asset_id = p.asset_id "
        "WHERE scan.organization_id = ? AND scan.received_at < ? LIMIT ?",
    ),
    (
        *("passage", "no"),
        "SELECT passage.no FROM tracked_person p CROSS JOIN passage ON passage.asset_id = p.asset_id "
        "WHERE passage.organization_id = ? AND passage.at < ? AND passage.site_no IS NULL LIMIT ?",
    ),
    (
        *("epcis_withdrawn", "no"),
        "SELECT w.no FROM tracked_person p CROSS JOIN epcis_withdrawn w ON w.asset_id = p.asset_id "
        "WHERE w.organization_id = ? AND w.at < ? LIMIT ?",
    ),
)


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
                return _delete(_DEAD_LETTERS, (reader_id, no, limit))
    return 0


def drop_unknown_tags(keep: int, limit: int = ROWS) -> int:
    """Keep the most recently seen tags of each reader."""
    crowded = execute(
        "SELECT organization_id, reader_id FROM unknown_tag GROUP BY organization_id, reader_id HAVING count(*) > ?",
        (keep,),
    ).fetchone()
    if crowded is None:
        return 0
    (oldest_kept,) = execute(_UNKNOWN_TAG_CUT, (*crowded, keep)).fetchone()
    return _delete(_UNKNOWN_TAGS, (*crowded, oldest_kept, limit))


def drop_unassigned_topics(keep: int, limit: int = ROWS) -> int:
    """Keep the most recently used topics of each organization."""
    crowded = execute(
        "SELECT organization_id FROM unassigned_topic GROUP BY organization_id HAVING count(*) > ?", (keep,)
    ).fetchone()
    if crowded is None:
        return 0
    (oldest_kept,) = execute(_UNASSIGNED_TOPIC_CUT, (*crowded, keep)).fetchone()
    return _delete(_UNASSIGNED_TOPICS, (*crowded, oldest_kept, limit))


def _delete(sql: str, parameters: tuple[Any, ...]) -> int:
    """Delete a range. The caller finds its end by an index, outside the transaction."""
    with writing():
        return execute(sql, parameters).rowcount


_DEAD_LETTERS = """
    DELETE FROM dead_letter WHERE no IN (
        SELECT no FROM dead_letter WHERE reader_id IS ? AND no <= ? ORDER BY no LIMIT ?)
"""
_UNKNOWN_TAG_CUT = """
    SELECT last_seen_at FROM unknown_tag WHERE organization_id = ? AND reader_id = ?
    ORDER BY last_seen_at DESC LIMIT 1 OFFSET ?
"""
_UNKNOWN_TAGS = """
    DELETE FROM unknown_tag WHERE (organization_id, tag_type, match_key, reader_id) IN (
        SELECT organization_id, tag_type, match_key, reader_id FROM unknown_tag
        WHERE organization_id = ? AND reader_id = ? AND last_seen_at <= ? ORDER BY last_seen_at LIMIT ?)
"""
_UNASSIGNED_TOPIC_CUT = """
    SELECT last_heard_at FROM unassigned_topic WHERE organization_id IS ?
    ORDER BY last_heard_at DESC LIMIT 1 OFFSET ?
"""
_UNASSIGNED_TOPICS = """
    DELETE FROM unassigned_topic WHERE topic IN (
        SELECT topic FROM unassigned_topic WHERE organization_id IS ? AND last_heard_at <= ?
        ORDER BY last_heard_at LIMIT ?)
"""


def drop_old_records(before: int, limit: int = ROWS) -> int:
    """Delete records as old as the deleted history: people's scans, hours of the ledger, past loads of carriers,
    passages, and EPCIS events that were taken away.
    """
    return sum(_drop_records(table, key, age, before, limit) for table, key, age in _WITH_HISTORY)


_WITH_HISTORY = (  # table, primary key, age column
    ("handheld_scan", ("id",), "received_at"),
    ("device_use", ("no",), "ended_at"),
    ("ledger", ("reader_id", "hour", "bucket"), f"hour * {clock.HOUR} + {clock.HOUR} - 1"),
    ("carrier_load", ("asset_id", "loaded_at"), "unloaded_at"),
    ("passage", ("no",), "at"),
    ("epcis_withdrawn", ("no",), "at"),
)


def _drop_records(table: str, key: Sequence[str], age: str, before: int, limit: int) -> int:
    """Delete rows by age. There is no index by age, so they are searched outside the transaction."""
    rows = execute(f"SELECT {', '.join(key)} FROM {table} WHERE {age} < ? LIMIT ?", (before, limit)).fetchall()
    if rows:
        with _forgetting():
            execute_many(f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = ?' for name in key)}", rows)
    return len(rows)


def drop_stock_takes(before: int, limit: int = ROWS) -> int:
    """Delete rows of one stock-take that ended before a time: its details first, then the stock-take itself."""
    ended = (
        "SELECT id FROM stock_take WHERE ifnull(finished_at, cancelled_at) < ? LIMIT 1"  # started_at is from a device
    )
    old = execute(ended, (before,)).fetchone()
    return _drop_stock_take(old[0], limit) if old else 0


def _drop_stock_take(stock_take_id: str, limit: int) -> int:
    with writing():
        dropped = (execute(sql, (stock_take_id, limit)).rowcount for sql in _DETAILS_OF_STOCK_TAKE)
        one = (stock_take_id,)
        return next(filter(None, dropped), 0) or execute("DELETE FROM stock_take WHERE id = ?", one).rowcount


def ended_stock_takes() -> list[str]:
    """Return ended stock-takes, least valuable first: canceled ones, then signed-off ones, oldest first."""
    ended = "SELECT id FROM stock_take WHERE finished_at IS NOT NULL OR cancelled_at IS NOT NULL "
    return [row[0] for row in execute(ended + "ORDER BY finished_at IS NOT NULL, ifnull(finished_at, cancelled_at)")]


def drop_these_stock_takes(ids: Sequence[str], limit: int = ROWS) -> int:
    """Delete rows of the first of these stock-takes that still exists."""
    for stock_take_id in ids:
        dropped = _drop_stock_take(stock_take_id, limit)
        if dropped:
            return dropped
    return 0


def drop_raw_messages(limit: int = RAW_MESSAGES) -> int:
    """Delete the oldest packs of unrecorded messages."""
    return _delete("DELETE FROM raw_message WHERE no IN (SELECT no FROM raw_message ORDER BY no LIMIT ?)", (limit,))


_DETAILS_OF_STOCK_TAKE = (
    "DELETE FROM stock_take_line WHERE (stock_take_id, no) IN (SELECT stock_take_id, no FROM stock_take_line "
    "WHERE stock_take_id = ? LIMIT ?)",
    "DELETE FROM stock_take_expected WHERE (stock_take_id, asset_id) IN (SELECT stock_take_id, asset_id "
    "FROM stock_take_expected WHERE stock_take_id = ? LIMIT ?)",
    "DELETE FROM stock_take_unsent WHERE (stock_take_id, no) IN (SELECT stock_take_id, no FROM stock_take_unsent "
    "WHERE stock_take_id = ? LIMIT ?)",
    "DELETE FROM stock_take_scan WHERE id IN (SELECT id FROM stock_take_scan WHERE stock_take_id = ? LIMIT ?)",
)


def drop_audit(before: int, limit: int = ROWS) -> int:
    """Delete audit lines from before a time, by the index of each organization."""
    with writing():
        owners = [row[0] for row in execute("SELECT id FROM organization UNION ALL SELECT NULL")]
        return sum(execute(_DROP_AUDIT, (owner, before, limit)).rowcount for owner in owners)


_DROP_AUDIT = """
    DELETE FROM audit WHERE no IN (SELECT no FROM audit WHERE organization_id IS ? AND at < ? ORDER BY at LIMIT ?)
"""


def newest_audit() -> int | None:
    newest: int | None = execute(_NEWEST_AUDIT).fetchone()[0]
    return newest


_NEWEST_AUDIT = """
    SELECT max(newest) FROM (SELECT (SELECT max(at) FROM audit WHERE organization_id = organization.id) AS newest
                             FROM organization)
"""


def drop_audit_over(keep: int, limit: int = ROWS) -> int:
    """Keep `keep` lines. The author of the most entries of the last week loses the oldest, so that nobody can
    erase those of others.
    """
    first, last = execute("SELECT ifnull(min(no), 0), ifnull(max(no), -1) FROM audit").fetchone()
    if last - first < keep:  # without counting
        return 0
    counts = execute(_AUDIT_OF_ACTORS, (clock.now() - 7 * clock.DAY,)).fetchall()
    excess = sum(row[-1] for row in counts) - keep
    if excess <= 0:
        return 0
    *actor, _, _ = max(counts, key=lambda row: row[-2:])
    with writing():
        return execute(_DROP_AUDIT_OVER, (*actor, min(excess, limit))).rowcount


_AUDIT_OF_ACTORS = """
    SELECT organization_id, actor_kind, actor_id, sum(at > ?), count(*) FROM audit GROUP BY 1, 2, 3
"""
_DROP_AUDIT_OVER = """
    DELETE FROM audit WHERE no IN (SELECT no FROM audit WHERE organization_id IS ? AND actor_kind = ? AND actor_id IS ?
                                   ORDER BY at, no LIMIT ?)
"""


BULK_JOBS_KEPT = 7 * clock.DAY  # after their end


def drop_expired(now: int, limit: int = ROWS) -> int:
    """Delete expired sessions, refresh tokens, idempotent answers and bulk jobs, and token families without tokens."""
    with writing():
        dropped = sum(
            execute(f"DELETE FROM {table} WHERE token_hash IN"
                    f" (SELECT token_hash FROM {table} WHERE expires_at < ? LIMIT ?)", (now, limit)).rowcount
            for table in ("web_session", "refresh_token")
        )  # fmt: skip
        dropped += idempotency.drop_expired(now, limit)
        dropped += _drop_bulk_jobs(now - BULK_JOBS_KEPT, limit)
        return dropped + execute(_DROP_FAMILIES, (now - clock.DAY, limit)).rowcount


def _drop_bulk_jobs(before: int, limit: int) -> int:
    """Delete the assets and rows of finished jobs first, then the jobs without any."""
    dropped = execute(
        "DELETE FROM bulk_job_asset WHERE (job_id, asset_id) IN ("
        "SELECT a.job_id, a.asset_id FROM bulk_job j JOIN bulk_job_asset a ON a.job_id = j.id "
        "WHERE j.finished_at < ? LIMIT ?)",
        (before, limit),
    ).rowcount
    dropped += execute(
        "DELETE FROM bulk_job_row WHERE (job_id, line) IN ("
        "SELECT r.job_id, r.line FROM bulk_job j JOIN bulk_job_row r ON r.job_id = j.id "
        "WHERE j.finished_at < ? LIMIT ?)",
        (before, limit),
    ).rowcount
    jobs = (
        "DELETE FROM bulk_job WHERE finished_at < ? AND NOT EXISTS (SELECT 1 FROM bulk_job_asset WHERE job_id = id) "
        "AND NOT EXISTS (SELECT 1 FROM bulk_job_row WHERE job_id = id)"
    )
    return dropped + execute(jobs, (before,)).rowcount


_DROP_FAMILIES = """
    DELETE FROM token_family WHERE no IN (
        SELECT no FROM token_family WHERE created_at < ?
          AND NOT EXISTS (SELECT 1 FROM refresh_token WHERE family_id = token_family.no) LIMIT ?)
"""


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
