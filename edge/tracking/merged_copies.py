"""History that one box has sent to a hub as two sites."""

from __future__ import annotations

import json
from typing import Any

from edge.database.connection import execute
from edge.tracking import changed_stays, history_engine
from edge.tracking.copies import recount, release_number, remove_track, set_row_counts, update_tracks


def drop_repeated_rows(site_no: int, other_no: int, limit: int) -> int:
    """Delete the rows that one box has sent as two sites, from the first of the two. Returns the number of tracks.

    The first site keeps the older rows, which the box no longer had when it joined as the second. Call until it
    returns 0.
    """
    tracks = execute(
        "SELECT t.no, o.no FROM track t JOIN track o ON o.site_no = ?2 AND o.remote_no = t.remote_no "
        "AND o.asset_id = t.asset_id WHERE t.site_no = ?1 AND t.remote_no > 0 LIMIT ?3",
        (site_no, other_no, limit),
    ).fetchall()
    for no, other in tracks:
        if history_engine.is_remote():
            repeated = _repeated_rows(no, other)
            changed_stays.note_rows([(no, at, source, delay) for _, at, _, _, source, delay, *_ in repeated], [])
            left = history_engine.batches.delete_rows(no, [(at, seq) for _, at, seq, *_ in repeated])
            with history_engine.lent_rows.lent(history_engine.lent_rows.newest([no], 1)):
                _keep_rest(no)
            set_row_counts({no: left})
            execute(_SEND_AGAIN, (no,))
        else:
            execute(_DROP_REPEATED, (no, other))
            if _keep_rest(no):
                recount([no])
    return len(tracks)


def _keep_rest(no: int) -> bool:
    """Set the position of a track to its newest row. Without rows, delete it and return False."""
    release_number(no)
    newest = execute(
        "SELECT location_id, observed_at + seen_for, observed_at, observed_at, seq, rule FROM history "
        "JOIN source ON source.no = source_no WHERE position_no = ? ORDER BY observed_at DESC, seq DESC LIMIT 1",
        (no,),
    ).fetchone()
    if newest is None:
        remove_track(no)
        return False
    update_tracks([(*newest, no)])
    return True


def _repeated_rows(no: int, other: int) -> list[tuple[Any, ...]]:
    """Return the rows in PostgreSQL of a track that another one has, too, from the same origin."""
    rows = list(history_engine.lent_rows.newest([no, other], None))
    numbers = json.dumps(sorted({row[4] for row in rows}))
    sql = "SELECT no, remote_reader, port, remote_person FROM source WHERE no IN (SELECT value FROM json_each(?))"
    origins = {source: tuple(origin) for source, *origin in execute(sql, (numbers,))}
    theirs = {(at, seq, origins[source]) for track, at, seq, _, source, *_ in rows if track == other}
    return [row for row in rows if row[0] == no and (row[1], row[2], origins[row[4]]) in theirs]


# The whole track, because rows that were deleted before a crash cannot be named any more.
_SEND_AGAIN = "INSERT INTO change (kind, a) SELECT 11, ? WHERE EXISTS (SELECT 1 FROM feed)"
_DROP_REPEATED = """
DELETE FROM history WHERE position_no = ?1 AND EXISTS (
    SELECT 1 FROM history o JOIN source s ON s.no = o.source_no JOIN source own ON own.no = history.source_no
    WHERE o.position_no = ?2 AND o.observed_at = history.observed_at AND o.seq = history.seq
    AND s.remote_reader IS own.remote_reader AND s.port IS own.port AND s.remote_person IS own.remote_person)
"""
