"""History of a site, from a hub back to a new machine of the site."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from edge.database.connection import execute, execute_many
from edge.tracking import history_engine
from edge.tracking.copies import INSERT, VALUES, Key, StayColumns, TrackColumns, recount, site_tracks, update_tracks


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
    with history_engine.lending(lambda: history_engine.lent_rows.of_tracks([track], (track, at, seq), limit)):
        return execute(
            f"SELECT {_SITE_STAY_COLUMNS} FROM history h JOIN track t ON t.no = h.position_no "
            "JOIN source s ON s.no = h.source_no "
            "WHERE t.site_no = ?1 AND h.position_no = ?2 AND (h.observed_at, h.seq) > (?3, ?4) "
            "ORDER BY h.observed_at, h.seq LIMIT ?5",
            (site_no, track, at, seq, limit),
        ).fetchall()


def stays_by_key(site_no: int, keys: Sequence[Key]) -> list[StayColumns]:
    """Return these stays of a site; the keys hold its track numbers."""

    def stored() -> Sequence[tuple[Any, ...]]:
        here = {remote_no: track.no for remote_no, track in site_tracks(site_no, [key[0] for key in keys]).items()}
        return history_engine.lent_rows.within(sorted({(here[no], at, at) for no, at, _ in keys if no in here}))

    with history_engine.lending(stored):
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
    """Add the missing ones of these rows. A row without a track or a source is left out."""
    execute_many(INSERT.format("IGNORE"), rows)
    recount({row[0] for row in rows if row[0] is not None})
