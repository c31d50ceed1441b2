"""History as a whole: its retention, and its exchange between a site and its hub."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from edge.database.connection import execute, execute_many
from edge.validation import json_text

# Retention ------------------------------------------------------------------------------------------------------


def oldest_end() -> int | None:
    """Return the end of the oldest stay that is not the newest of its asset."""
    oldest: int | None = execute(f"SELECT min({_FIRST_END}) FROM track WHERE history_rows > 1").fetchone()[0]
    return oldest


def tracks_ended_before(before: int, limit: int) -> list[int]:
    """Return tracks with a stay that ended before a time and is not the newest of its asset."""
    rows = execute(f"SELECT no FROM track WHERE history_rows > 1 AND {_FIRST_END} < ? LIMIT ?", (before, limit))
    return [no for (no,) in rows]


def delete_rows_before(track: int, before: int, limit: int) -> int:
    """Delete stays that ended before a time, oldest first, never the newest of the asset. Return their number."""
    count = execute(_DELETE_BEFORE, (track, before, track, limit)).rowcount
    execute("UPDATE track SET history_rows = history_rows - ? WHERE no = ?", (count, track))
    return count


_FIRST_END = "(SELECT observed_at + seen_for FROM history WHERE position_no = no ORDER BY observed_at, seq LIMIT 1)"
_DELETE_BEFORE = """
    DELETE FROM history WHERE (position_no, observed_at, seq) IN (
        SELECT position_no, observed_at, seq FROM history
        WHERE position_no = ? AND observed_at + seen_for < ?
          AND (observed_at, seq) < (SELECT observed_at, seq FROM history AS newest WHERE newest.position_no = ?
                                    ORDER BY observed_at DESC, seq DESC LIMIT 1)
        ORDER BY observed_at, seq LIMIT ?)
"""


# Comparison ------------------------------------------------------------------------------------------------------


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
    """Yield rows of this machine, or on a hub of one site, in storage order, with the site's track numbers."""
    tracks = execute(
        "SELECT no, ifnull(remote_no, no) FROM track "
        "WHERE organization_id = ?1 AND site_no IS ?2 AND ifnull(remote_no, 1) > 0",
        (organization_id, site_no),
    ).fetchall()
    for no, remote_no in tracks:
        for row in execute(_FOR_DIGEST, (no, since, until)):
            yield remote_no, *row


_FOR_DIGEST = """
SELECT observed_at, seq, seen_for, source_no, delay, quality, rule, rssi FROM history
WHERE position_no = ? AND observed_at BETWEEN ? AND ?
"""

# Numbers of tracks --------------------------------------------------------------------------------------------------

# Track numbers that may have been used since a copy of the database was made.
TRACK_LEAP = 1_000_000
# For a database file that was copied, run on a connection of its own: skip those numbers, find the newest read, and
# regard all positions as reported to the hub.
SKIP_TRACK_NUMBERS = (
    "INSERT INTO sqlite_sequence (name, seq) SELECT 'track', 0 "
    "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'track')",  # there never was a track
    f"UPDATE sqlite_sequence SET seq = seq + {TRACK_LEAP} WHERE name = 'track'",
)
NEWEST_READ = "(SELECT ifnull(max(last_seen_at), 0) FROM track)"
KEEP_HUB_POSITIONS = (
    "INSERT OR REPLACE INTO told SELECT no, last_seen_at FROM track WHERE EXISTS (SELECT 1 FROM target)"
)


def reserve_tracks(last_track: int) -> None:
    """Skip track numbers that were used before, including some that the hub may not know."""
    execute("DELETE FROM sqlite_sequence WHERE name = 'track' AND seq < ?", (last_track + TRACK_LEAP,))
    execute(
        "INSERT INTO sqlite_sequence (name, seq) SELECT 'track', ? "
        "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'track')",
        (last_track + TRACK_LEAP,),
    )


def own_tracks(organization_id: int) -> list[int]:
    """Return this machine's own tracks by number."""
    rows = execute("SELECT no FROM track WHERE organization_id = ? AND site_no IS NULL ORDER BY no", (organization_id,))
    return [no for (no,) in rows]


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


def unreported(organization_id: int, limit: int) -> list[tuple[int, bool, bool]]:
    """Return tracks with a last-seen time that the hub does not have, the one reported longest ago first.

    Each comes with two flags: the hub does not know it; the hub may have newer data after a restore here.
    """
    return execute(
        "SELECT no, told.track_no IS NULL, told.last_seen_at <= (SELECT restored_from FROM target) "
        "FROM track LEFT JOIN told ON told.track_no = track.no "
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


def site_tracks(site_no: int, remote_numbers: Sequence[int]) -> dict[int, SiteTrack]:
    """Return the known tracks among these numbers of a site."""
    rows = execute(
        f"SELECT remote_no, no, asset_id, {', '.join(VALUES)} FROM track "
        "WHERE site_no = ? AND remote_no IN (SELECT value FROM json_each(?))",
        (site_no, json.dumps(list(remote_numbers))),
    )
    return {remote_no: SiteTrack(no, asset_id, tuple(values)) for remote_no, no, asset_id, *values in rows}


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


def release_numbers(site_no: int) -> None:
    """Keep the history of all tracks of a site whose new machine restarts the numbers."""
    execute("UPDATE track SET remote_no = -no WHERE site_no = ? AND remote_no > 0", (site_no,))


def delete_tracks(numbers: Iterable[int]) -> None:
    for no in numbers:
        execute("DELETE FROM history WHERE position_no = ?", (no,))
        execute("DELETE FROM track WHERE no = ?", (no,))


def keys_within(ranges: Sequence[tuple[int, int, int]], ended_from: int) -> set[Key]:
    """Return the keys of rows that begin in these ranges and end at or after `ended_from`."""
    return set(
        execute(
            "SELECT position_no, observed_at, seq FROM json_each(?) JOIN history ON position_no = value ->> 0 "
            "AND observed_at BETWEEN value ->> 1 AND value ->> 2 WHERE observed_at + seen_for >= ?",
            (json_text.text(ranges), ended_from),
        )
    )


_INSERT = (
    "INSERT OR {0} INTO history (position_no, observed_at, seq, seen_for, source_no, delay, quality, rule, rssi) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_RECOUNT = "UPDATE track SET history_rows = (SELECT count(*) FROM history WHERE position_no = track.no) WHERE no = ?"


def replace_rows(gone: Iterable[Key], new_rows: Mapping[Key, tuple[int | None, ...]]) -> None:
    """Delete rows, and insert or replace others. Call `count_rows` afterwards."""
    execute_many("DELETE FROM history WHERE position_no = ? AND observed_at = ? AND seq = ?", gone)
    execute_many(_INSERT.format("REPLACE"), [(*key, *values) for key, values in new_rows.items()])


def count_rows(more: Mapping[int, int], recounted: Collection[int]) -> None:
    """Update row counts. Tracks patched over a range are recounted, because a repair must also correct the count."""
    execute_many(
        "UPDATE track SET history_rows = history_rows + ? WHERE no = ?",
        [(rows, no) for no, rows in more.items() if rows and no not in recounted],
    )
    execute_many(_RECOUNT, [(no,) for no in recounted])


# From a hub back to a new machine of a site ---------------------------------------------------------------------------


def last_track(site_no: int) -> int:
    """Return the highest track number used by any machine of the site."""
    row = execute("SELECT max(abs(remote_no)) FROM track WHERE site_no = ?", (site_no,)).fetchone()
    return row[0] or 0


# A record may have several ids at a site; always use the lowest.
_SITE_REF = "ifnull((SELECT min(remote_id) FROM link WHERE local_id = {0} AND peer = ?1 AND remote_id > 0), -{0})"
_SITE_TRACKS = (
    f"SELECT remote_no, {_SITE_REF.format('asset_id')}, {_SITE_REF.format('location_id')}, "
    "last_seen_at, dwell_started_at, row_at, row_seq, row_rule FROM track WHERE site_no = ?1 AND "
)
_SITE_STAY_COLUMNS = (
    "t.remote_no, h.observed_at, h.seq, h.seen_for, h.delay, h.quality, h.rule, h.rssi, "
    f"{_SITE_REF.format('s.location_id')}, s.remote_reader, s.port, s.remote_person"
)


def tracks_after(site_no: int, after: int, limit: int) -> list[TrackColumns]:
    """Return the next tracks of a site by its numbers."""
    return execute(_SITE_TRACKS + "remote_no > ?2 ORDER BY remote_no LIMIT ?3", (site_no, after, limit)).fetchall()


def tracks_by_number(site_no: int, remote_numbers: Iterable[int]) -> list[TrackColumns]:
    return execute(
        _SITE_TRACKS + "remote_no IN (SELECT value FROM json_each(?2)) ORDER BY remote_no",
        (site_no, json.dumps(list(remote_numbers))),
    ).fetchall()


def numbers_from(site_no: int, remote_no: int) -> list[tuple[int, int]]:
    """Return the tracks of a site from one of its numbers on: number here, number there."""
    return execute(
        "SELECT no, remote_no FROM track WHERE site_no = ? AND remote_no > 0 AND remote_no >= ? ORDER BY 2",
        (site_no, remote_no),
    ).fetchall()


def stays_after(site_no: int, track: int, at: int, seq: int, limit: int) -> list[StayColumns]:
    """Return the next stays of one track of a site."""
    return execute(
        f"SELECT {_SITE_STAY_COLUMNS} FROM history h JOIN track t ON t.no = h.position_no "
        "JOIN source s ON s.no = h.source_no "
        "WHERE t.site_no = ?1 AND h.position_no = ?2 AND (h.observed_at, h.seq) > (?3, ?4) "
        "ORDER BY h.observed_at, h.seq LIMIT ?5",
        (site_no, track, at, seq, limit),
    ).fetchall()


def stays_by_key(site_no: int, keys: Sequence[Key]) -> list[StayColumns]:
    """Return these stays of a site; the keys hold its track numbers."""
    return execute(
        f"SELECT {_SITE_STAY_COLUMNS} FROM json_each(?2) k "
        "CROSS JOIN track t ON t.site_no = ?1 AND t.remote_no = k.value ->> 0 "
        "CROSS JOIN history h ON h.position_no = t.no AND h.observed_at = k.value ->> 1 AND h.seq = k.value ->> 2 "
        "JOIN source s ON s.no = h.source_no",
        (site_no, json.dumps(keys)),
    ).fetchall()


def own_track(asset_id: int) -> tuple[int, int] | None:
    """Return number and last-seen time of the track that this machine has of an asset."""
    row: tuple[int, int] | None = execute(
        "SELECT no, last_seen_at FROM track WHERE asset_id = ? AND site_no IS NULL", (asset_id,)
    ).fetchone()
    return row


def recover_track(no: int, asset_id: int, organization_id: int, values: tuple[int, ...]) -> None:
    """Insert a track with the number that it had before."""
    execute(
        f"INSERT INTO track (no, asset_id, organization_id, {', '.join(VALUES)}, history_rows) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (no, asset_id, organization_id, *values),
    )


def recover_position(no: int, values: tuple[int, ...]) -> None:
    """Replace the position of a track by a newer one, and close the stay that was its newest."""
    execute(
        "UPDATE history SET seen_for = (SELECT last_seen_at - row_at FROM track WHERE no = ?1) "
        "WHERE (position_no, observed_at, seq) = (SELECT no, row_at, row_seq FROM track WHERE no = ?1)",
        (no,),
    )
    update_tracks([(*values, no)])


def recover_rows(rows: Sequence[tuple[int | None, ...]]) -> None:
    """Add the missing ones of these rows."""
    execute_many(_INSERT.format("IGNORE"), rows)
    execute_many(_RECOUNT, [(no,) for no in {row[0] for row in rows}])
