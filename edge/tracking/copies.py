"""History as a whole: its retention, and its exchange between a site and its hub."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from edge.database.connection import column, execute, execute_many, find_scalar, scalar, writing
from edge.database.ids import Execute, skip_numbers
from edge.database.sliced_writing import ROWS_OF_STEP
from edge.tracking import history_engine
from edge.validation import json_text

# Retention ------------------------------------------------------------------------------------------------------


def oldest_end() -> int | None:
    """Return the end of the oldest stay of this file that is not the newest of its asset."""
    return find_scalar(f"SELECT min({_FIRST_END}) FROM track WHERE history_rows > 1")


def tracks_ended_before(before: int, limit: int) -> list[int]:
    """Return tracks with a stay that ended before a time and is not the newest of its asset."""
    if history_engine.is_remote():
        several = column("SELECT no FROM track WHERE history_rows > 1")
        return history_engine.batches.tracks_ended_before(several, before, limit)
    return column(f"SELECT no FROM track WHERE history_rows > 1 AND {_FIRST_END} < ? LIMIT ?", (before, limit))


def people_tracks_ended_before(organization_id: int, before: int, limit: int) -> list[int]:
    """Return the same of people whom this box read itself: a hub's copies follow the site."""
    return column(
        "SELECT no FROM tracked_person JOIN track USING (asset_id) WHERE organization_id = ? AND site_no IS NULL "
        f"AND history_rows > 1 AND {_FIRST_END} < ? LIMIT ?",
        (organization_id, before, limit),
    )


def delete_rows_before(track: int, before: int, limit: int) -> int:
    """Delete stays that ended before a time, oldest first, never the newest of the asset. Return their number."""
    count = execute(_DELETE_BEFORE, (track, before, track, limit)).rowcount
    execute("UPDATE track SET history_rows = history_rows - ? WHERE no = ?", (count, track))
    return count


def drop_remote_rows(tracks: Sequence[int], before: int, limit: int) -> int:
    """Delete the same in PostgreSQL, and count the rows that are left. Return their number."""
    count_after_deletion()
    dropped: int = history_engine.batches.drop_before(tracks, before, limit)
    count_after_deletion()
    return dropped


def count_after_deletion() -> None:
    """Count the rows of tracks again from which PostgreSQL has deleted some, also before a crash of this hub.

    Not those of a site whose last batch is not complete here, since it adds to the counts.
    """
    tracks = history_engine.batches.dropped_tracks()
    if not tracks:
        return
    with writing():
        counts = history_engine.batches.row_counts(tracks)
        there = history_engine.batches.cursors()  # read after the counts, so none of them has a batch that is not here
        complete = execute(_CHOSEN_TRACKS, (json.dumps(tracks),)).fetchall()
        waiting = {no for no, site, *cursor in complete if there.get(site) not in (None, cursor)}
        set_row_counts({no: count for no, count in counts.items() if no not in waiting})
    history_engine.batches.forget_dropped([no for no in tracks if no not in waiting])


_CHOSEN_TRACKS = """
SELECT track.no, site.no, site.epoch, site.acked_seq, lower(hex(site.chain))
FROM track JOIN site ON site.no = track.site_no WHERE track.no IN (SELECT value FROM json_each(?))
"""


_FIRST_END = "(SELECT observed_at + seen_for FROM history WHERE position_no = no ORDER BY observed_at, seq LIMIT 1)"
_DELETE_BEFORE = """
    DELETE FROM history WHERE (position_no, observed_at, seq) IN (
        SELECT position_no, observed_at, seq FROM history
        WHERE position_no = ? AND observed_at + seen_for < ?
          AND (observed_at, seq) < (SELECT observed_at, seq FROM history AS newest WHERE newest.position_no = ?
                                    ORDER BY observed_at DESC, seq DESC LIMIT 1)
        ORDER BY observed_at, seq LIMIT ?)
"""


def forget_remote_stays() -> None:
    """Make a copy of a hub's database usable without the stays in PostgreSQL, for the trial of a release."""
    with writing():
        execute("UPDATE track SET history_rows = 0 WHERE history_rows > 0")


# Comparison ------------------------------------------------------------------------------------------------------


def seen_after(tracks: Collection[int], at: int) -> set[int]:
    """Return those of the tracks that were last seen after a time (µs)."""
    sql = "SELECT no FROM track WHERE no IN (SELECT value FROM json_each(?)) AND last_seen_at > ?"
    return set(column(sql, (json.dumps(sorted(tracks)), at)))


def sites_of_tracks(tracks: Collection[int]) -> dict[int, int]:
    """Return the site of each of these tracks that exists, 0 for this box."""
    sql = "SELECT no, ifnull(site_no, 0) FROM track WHERE no IN (SELECT value FROM json_each(?))"
    return dict(execute(sql, (json.dumps(list(tracks)),)).fetchall())


def asset_keys(tracks: Iterable[int]) -> dict[int, str]:
    """Return the asset's external key of each track."""
    rows = execute(
        "SELECT t.no, a.external_key FROM track t JOIN asset a ON a.id = t.asset_id "
        "WHERE t.no IN (SELECT value FROM json_each(?))",
        (json.dumps(list(tracks)),),
    )
    return dict(rows.fetchall())


# track, observed_at, seq, seen_for, source, delay, quality, rule, rssi
DigestRow = tuple[int, int, int, int, int, int, int, int, int | None]


def rows_for_digest(organization_id: int, site_no: int | None, since: int, until: int) -> Iterator[DigestRow]:
    """Yield rows of this machine, or on a hub of one site, in any order, with the site's track numbers."""
    if history_engine.is_remote():
        remote_numbers = _numbers_of_site(organization_id, site_no)
        for no, *columns in history_engine.lent_rows.within([(no, since, until) for no in remote_numbers]):
            yield (remote_numbers[no], *columns)
        return
    sql = _FOR_DIGEST.format(_SCOPE[site_no is not None])
    yield from execute(sql, (organization_id, site_no or 0, since, until))


def extent(organization_id: int, site_no: int | None) -> tuple[int, int] | None:
    """Return the begin of the oldest and of the newest stay of this machine, or on a hub of one site."""
    if history_engine.is_remote():
        return history_engine.lent_rows.extent(_numbers_of_site(organization_id, site_no))
    oldest, newest = execute(_EXTENT.format(_SCOPE[site_no is not None]), (organization_id, site_no or 0)).fetchone()
    return None if oldest is None else (oldest, newest)


def _numbers_of_site(organization_id: int, site_no: int | None) -> dict[int, int]:
    """Return the tracks that are compared: number here, number there."""
    sql = f"SELECT t.no, ifnull(t.remote_no, t.no) FROM track t WHERE {_SCOPE[site_no is not None]}"
    return dict(execute(sql, (organization_id, site_no or 0)).fetchall())


# Two texts, because an index of the tracks serves only the second.
_SCOPE = {
    False: "t.organization_id = ?1 AND t.site_no IS NULL AND ?2 = 0",
    True: "t.organization_id = ?1 AND t.site_no = ?2 AND t.remote_no > 0",
}
_FOR_DIGEST = """
SELECT ifnull(t.remote_no, t.no), h.observed_at, h.seq, h.seen_for, h.source_no, h.delay, h.quality, h.rule, h.rssi
FROM track t CROSS JOIN history h ON h.position_no = t.no AND h.observed_at BETWEEN ?3 AND ?4 WHERE {0}
"""
_EXTENT = """
SELECT min((SELECT observed_at FROM history WHERE position_no = t.no ORDER BY observed_at LIMIT 1)),
       max((SELECT observed_at FROM history WHERE position_no = t.no ORDER BY observed_at DESC LIMIT 1))
FROM track t WHERE {0}
"""

# Numbers of tracks --------------------------------------------------------------------------------------------------

# Track numbers that may have been used since a copy of the database was made.
TRACK_LEAP = 1_000_000


def skip_track_numbers(run: Execute) -> None:
    """Skip the track numbers that may have been used since the database was copied."""
    skip_numbers("track", TRACK_LEAP, run)


def newest_read(run: Execute) -> int:
    """Return the time of the newest read of all tracks, 0 if there is none."""
    newest: int = run("SELECT ifnull(max(last_seen_at), 0) FROM track").fetchone()[0]
    return newest


def keep_hub_positions(run: Execute) -> None:
    """Regard all positions as reported to the hub."""
    run("INSERT OR REPLACE INTO told SELECT no, last_seen_at FROM track WHERE EXISTS (SELECT 1 FROM target)")


def read_positions(run: Execute) -> dict[int, int]:
    """Return the current location of each asset."""
    return dict(run("SELECT asset_id, location_id FROM position"))


def reserve_tracks(last_track: int) -> None:
    """Skip track numbers that were used before, including some that the hub may not know."""
    skip_numbers("track", 0)
    execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'track'", (last_track + TRACK_LEAP,))


def own_tracks(organization_id: int) -> list[int]:
    """Return this machine's own tracks by number."""
    return column("SELECT no FROM track WHERE organization_id = ? AND site_no IS NULL ORDER BY no", (organization_id,))


# From a site to its hub ---------------------------------------------------------------------------------------------

_REF = "ifnull((SELECT -link.remote_id FROM link WHERE link.local_id = {0} AND link.peer = 0), {0})"
_PERSON = (
    "(SELECT hs.person_id FROM handheld_scan hs JOIN track t ON t.no = h.position_no WHERE hs.asset_id = t.asset_id "
    "AND hs.observed_at = h.observed_at AND hs.seq = h.seq AND hs.undone_at IS NULL ORDER BY hs.id LIMIT 1)"
)
_STAY_COLUMNS = (
    "h.position_no, h.observed_at, h.seq, h.seen_for, h.delay, h.quality, h.rule, h.rssi, "
    f"{_REF.format('s.location_id')}, "
    f"ifnull(s.reader_id, s.remote_reader), s.port, iif(s.reader_id IS NULL, ifnull({_PERSON}, s.remote_person), NULL)"
)
_IN_RANGE = (
    f"SELECT {_STAY_COLUMNS} FROM history h JOIN source s ON s.no = h.source_no "
    "WHERE h.position_no = ? AND h.observed_at BETWEEN ? AND ? AND s.organization_id = ? "
    "ORDER BY h.observed_at, h.seq LIMIT ?"
)
_AT_INSTANTS = (
    f"SELECT {_STAY_COLUMNS} FROM json_each(?) k "
    "CROSS JOIN history h ON h.position_no = k.value ->> 0 AND h.observed_at = k.value ->> 1 "
    "JOIN source s ON s.no = h.source_no AND s.organization_id = ? ORDER BY h.position_no, h.observed_at, h.seq"
)
# track, observed_at, seq, seen_for, delay, quality, rule, rssi, location, reader, port, person
StayColumns = tuple[int, int, int, int, int, int, int, int | None, int, int | None, int | None, int | None]
# track, asset (None if the receiver knows it), location, last_seen_at, dwell_started_at, row_at, row_seq, row_rule
TrackColumns = tuple[int, int | None, int, int, int, int, int, int]


def stays_in_range(organization_id: int, track: int, since: int, until: int, limit: int = -1) -> list[StayColumns]:
    return execute(_IN_RANGE, (track, since, until, organization_id, limit)).fetchall()


def stays_at(organization_id: int, instants: Iterable[tuple[int, int]]) -> list[StayColumns]:
    """Return the stays that began at these instants (track, time)."""
    return execute(_AT_INSTANTS, (json.dumps(sorted(instants)), organization_id)).fetchall()


def tracks_to_send(organization_id: int, numbers: set[int], asked: set[int]) -> list[TrackColumns]:
    """Return the tracks that still exist, by number; with the asset if the hub may not know it."""
    return execute(
        f"SELECT no, iif(told.track_no IS NULL OR no IN (SELECT value FROM json_each(?3)), {_REF.format('asset_id')}, "
        f"NULL), {_REF.format('location_id')}, track.last_seen_at, dwell_started_at, row_at, row_seq, row_rule "
        "FROM track LEFT JOIN told ON told.track_no = track.no "
        "WHERE no IN (SELECT value FROM json_each(?1)) AND organization_id = ?2 AND site_no IS NULL ORDER BY no",
        (json.dumps(list(numbers)), organization_id, json.dumps(list(asked))),
    ).fetchall()


def last_seen(organization_id: int, numbers: set[int]) -> list[tuple[int, int]]:
    """Return the last-seen time of each of these tracks."""
    return execute(
        "SELECT no, last_seen_at FROM track WHERE no IN (SELECT value FROM json_each(?)) AND organization_id = ? "
        "AND site_no IS NULL ORDER BY no",
        (json.dumps(list(numbers)), organization_id),
    ).fetchall()


def unreported(organization_id: int, limit: int, *, with_new: bool = True) -> list[tuple[int, bool, bool]]:
    """Return tracks with a last-seen time that the hub does not have, the one reported longest ago first.

    Each comes with two flags: the hub does not know it; the hub may have newer data after a restore here. `with_new`
    includes tracks that it does not know.
    """
    return execute(
        "SELECT no, told.track_no IS NULL, told.last_seen_at <= (SELECT restored_from FROM target) "
        f"FROM track {'LEFT ' if with_new else ''}JOIN told ON told.track_no = track.no "
        "WHERE organization_id = ? AND site_no IS NULL AND told.last_seen_at IS NOT track.last_seen_at "
        "ORDER BY told.last_seen_at, no LIMIT ?",
        (organization_id, limit),
    ).fetchall()


def is_track(no: int) -> bool:
    return execute("SELECT 1 FROM track WHERE no = ?", (no,)).fetchone() is not None


# At a hub, the history of its sites -----------------------------------------------------------------------------------


class SiteTrack(NamedTuple):
    """A track of a site at the hub. `values` are in the order of VALUES."""

    no: int
    asset_id: int
    values: tuple[int, ...]


VALUES = ("location_id", "last_seen_at", "dwell_started_at", "row_at", "row_seq", "row_rule")
Key = tuple[int, int, int]  # of a row: track, observed_at, seq
_KNOWN_TRACKS = "SELECT remote_no, {} FROM track WHERE site_no = ? AND remote_no IN (SELECT value FROM json_each(?))"


def site_tracks(site_no: int, remote_numbers: Sequence[int]) -> dict[int, SiteTrack]:
    """Return the known tracks among these numbers of a site."""
    rows = execute(
        _KNOWN_TRACKS.format(f"no, asset_id, {', '.join(VALUES)}"), (site_no, json_text.text(list(remote_numbers)))
    )
    return {remote_no: SiteTrack(no, asset_id, tuple(values)) for remote_no, no, asset_id, *values in rows}


def track_numbers(site_no: int, remote_numbers: Iterable[int]) -> dict[int, int]:
    """Return the numbers here of the known tracks among these numbers of a site."""
    return dict(execute(_KNOWN_TRACKS.format("no"), (site_no, json_text.text(list(remote_numbers)))).fetchall())


def assets_of_tracks(site_no: int, remote_numbers: Iterable[int]) -> dict[int, int]:
    """Return the assets of the known tracks among these numbers of a site."""
    return dict(execute(_KNOWN_TRACKS.format("asset_id"), (site_no, json_text.text(list(remote_numbers)))).fetchall())


def count_site_tracks(site_no: int, asset_ids: Collection[int]) -> dict[int, int]:
    """Return the number of tracks that a site has of each of these assets, released ones included."""
    rows = execute(
        "SELECT asset_id, count(*) FROM json_each(?) JOIN track ON asset_id = value AND ifnull(site_no, 0) = ? "
        "GROUP BY asset_id",
        (json_text.text(sorted(asset_ids)), site_no),
    )
    return dict(rows.fetchall())


def add_site_track(
    organization_id: int, site_no: int, remote_no: int, asset_id: int, values: tuple[int, ...]
) -> SiteTrack:
    """Insert a track of a site, without rows yet."""
    no = execute(
        f"INSERT INTO track (asset_id, site_no, remote_no, organization_id, {', '.join(VALUES)}, history_rows) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) RETURNING no",
        (asset_id, site_no, remote_no, organization_id, *values),
    ).fetchone()[0]
    return SiteTrack(no, asset_id, values)


def update_tracks(changed: Sequence[tuple[int, ...]]) -> None:
    """Set the values of tracks. Each row holds the values in the order of VALUES, then the track."""
    execute_many(f"UPDATE track SET {', '.join(f'{name} = ?' for name in VALUES)} WHERE no = ?", changed)


def update_last_seen(seen: Sequence[tuple[int, int]]) -> None:
    """Set the last-seen times (time, track)."""
    execute_many("UPDATE track SET last_seen_at = ? WHERE no = ?", seen)


def release_number(track: int) -> None:
    """Keep the history of a track whose number the site reused after a restore."""
    execute("UPDATE track SET remote_no = -no WHERE no = ?", (track,))


def release_numbers(site_no: int) -> Iterator[None]:
    """Keep the history of all tracks of a site whose new machine restarts the numbers. Runs in steps of few tracks."""
    while execute(_RELEASE_NUMBERS, (site_no, ROWS_OF_STEP)).rowcount:
        yield


_RELEASE_NUMBERS = (
    "UPDATE track SET remote_no = -no WHERE no IN (SELECT no FROM track WHERE site_no = ? AND remote_no > 0 LIMIT ?)"
)


@history_engine.of_engine
def delete_track(no: int) -> None:
    """Delete a track without rows. With PostgreSQL, this follows its batch."""
    remove_track(no)


def remove_track(no: int) -> None:
    execute("DELETE FROM track WHERE no = ?", (no,))


def newest_keys(site_no: int) -> list[Key]:
    """Return the key of the newest row of each track of a site."""
    return execute("SELECT no, row_at, row_seq FROM track WHERE site_no = ?", (site_no,)).fetchall()


def keys_of_newest(tracks: Collection[int]) -> set[Key]:
    """Return the key of the newest row of each of these tracks, as far as their positions say."""
    sql = "SELECT no, row_at, row_seq FROM track WHERE no IN (SELECT value FROM json_each(?))"
    return set(execute(sql, (json.dumps(list(tracks)),)))


def last_number() -> int:
    """Return the highest number of a track, 0 if there is none."""
    return scalar("SELECT ifnull(max(no), 0) FROM track")


def add_to_row_counts(more: Mapping[int, int]) -> None:
    """Add to row counts with one statement for each number of rows, because most tracks of a batch have the same."""
    for rows in set(more.values()) - {0}:
        tracks = json_text.text([no for no, added in more.items() if added == rows])
        sql = "UPDATE track SET history_rows = history_rows + ? WHERE no IN (SELECT value FROM json_each(?))"
        execute(sql, (rows, tracks))


def set_row_counts(row_counts: Mapping[int, int]) -> None:
    execute_many(
        "UPDATE track SET history_rows = ?1 WHERE no = ?2 AND history_rows <> ?1",
        [(count, no) for no, count in row_counts.items()],
    )


@history_engine.of_engine
def keys_within(ranges: Sequence[tuple[int, int, int]], ended_from: int, most: int) -> set[Key] | None:
    """Return the keys of rows that begin in these ranges and end at or after `ended_from`.

    Returns None if at least `most` begin in these ranges.
    """
    if _count_within(ranges, most) >= most:
        return None
    return set(
        execute(
            "SELECT position_no, observed_at, seq FROM json_each(?) JOIN history ON position_no = value ->> 0 "
            "AND observed_at BETWEEN value ->> 1 AND value ->> 2 WHERE observed_at + seen_for >= ?",
            (json_text.text(ranges), ended_from),
        )
    )


def _count_within(ranges: Sequence[tuple[int, int, int]], most: int) -> int:
    """Return the number of rows that begin in these ranges, at most `most`."""
    return scalar(
        "SELECT count(*) FROM (SELECT 1 FROM json_each(?) JOIN history ON position_no = value ->> 0 "
        "AND observed_at BETWEEN value ->> 1 AND value ->> 2 LIMIT ?)",
        (json_text.text(ranges), most),
    )


@history_engine.of_engine
def keys_after(track: int, after: tuple[int, int], until: int, limit: int) -> list[tuple[int, int, int]]:
    """Return the next rows of a track that begin until then: begin, number, end."""
    return execute(
        "SELECT observed_at, seq, observed_at + seen_for FROM history WHERE position_no = ? "
        "AND (observed_at, seq) > (?, ?) AND observed_at <= ? ORDER BY observed_at, seq LIMIT ?",
        (track, *after, until, limit),
    ).fetchall()


INSERT = (
    "INSERT OR {} INTO history (position_no, observed_at, seq, seen_for, source_no, delay, quality, rule, rssi) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DELETE = "DELETE FROM history WHERE position_no = ? AND observed_at = ? AND seq = ?"
_RECOUNT = "UPDATE track SET history_rows = (SELECT count(*) FROM history WHERE position_no = track.no) WHERE no = ?"


@history_engine.of_engine
def replace_rows(gone: Iterable[Key], new_rows: Mapping[Key, tuple[int | None, ...]]) -> None:
    """Delete rows, and insert or replace others. Call `count_rows` afterwards.

    REPLACE fires no triggers for deletion, so rows with another source are deleted first.
    """
    execute_many(_DELETE, gone)
    execute_many(f"{_DELETE} AND source_no <> ?", [(*key, values[1]) for key, values in new_rows.items()])
    execute_many(INSERT.format("REPLACE"), [(*key, *values) for key, values in new_rows.items()])


@history_engine.of_engine
def count_rows(more: Mapping[int, int]) -> None:
    """Add to row counts. With PostgreSQL, this follows the batch."""
    add_to_row_counts(more)


@history_engine.of_engine
def recount(tracks: Collection[int]) -> None:
    execute_many(_RECOUNT, [(no,) for no in tracks])
