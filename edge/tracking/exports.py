"""Whole tables, streamed from one statement into files for download."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import NamedTuple

import orjson

from edge.database.connection import execute, stream
from edge.tracking import antenna_names
from edge.tracking.board import BELOW, BoardFilter, BoardRow, board_statement
from edge.tracking.past import PastFilter, PastRow, past_row, past_statement


class StayRow(NamedTuple):
    """One stay in the history; `until` is when the asset was last seen in it."""

    asset_key: str
    asset_name: str
    location_key: str
    location_name: str
    since: int
    until: int
    reader_name: str | None
    port: int | str | None  # or the name of the antenna
    site_name: str | None  # on a hub


def board_rows(organization_id: int, wanted: BoardFilter) -> Iterator[BoardRow]:
    """The whole board, not divided into pages."""
    sql, values = board_statement(organization_id, wanted)
    for row in stream(sql, {**values, "limit": -1, "offset": 0}):
        yield BoardRow(*row)


def past_rows(organization_id: int, wanted: PastFilter) -> Iterator[PastRow]:
    """The whole board of a past moment, not divided into pages."""
    sql, values = past_statement(organization_id, wanted)
    for row in stream(sql, {**values, "limit": -1, "offset": 0}):
        yield past_row(row)


# The tracks of each key, in the order of the file. The rows of a track are stored in their order, so that nothing is
# sorted: SQLite would hold the whole history in memory for that.
_TRACKS = """
SELECT json_group_array(t.no) FROM track t JOIN asset a ON a.id = t.asset_id
WHERE t.organization_id = :organization_id AND (:asset_id IS NULL OR t.asset_id = :asset_id)
GROUP BY a.external_key ORDER BY a.external_key
"""
_BELOW = f"{BELOW} SELECT json_group_array(id) FROM below"
_HISTORY = f"""
SELECT h.observed_at, h.seq, a.external_key, a.name, l.external_key, l.name, h.observed_at,
       iif(h.observed_at = t.row_at AND h.seq = t.row_seq, t.last_seen_at, h.observed_at + h.seen_for),
       ifnull(r.name, n.name), {antenna_names.SHOWN}, site.name
FROM track t
JOIN asset a ON a.id = t.asset_id
JOIN history h ON h.position_no = t.no
JOIN source s ON s.no = h.source_no
JOIN location l ON l.id = s.location_id
LEFT JOIN reader r ON r.id = s.reader_id
LEFT JOIN remote_name n ON n.site_no = s.site_no AND n.kind = 4 AND n.remote_id = s.remote_reader
LEFT JOIN site ON site.no = t.site_no
{antenna_names.JOINED}
WHERE t.no = :track AND t.organization_id = :organization_id
  AND h.observed_at < :until AND h.observed_at >= iif(:with_earlier, ifnull((
      SELECT observed_at FROM history WHERE position_no = :track AND observed_at <= :since
      ORDER BY observed_at DESC LIMIT 1), :since), :since)
  AND (:locations IS NULL OR s.location_id IN (SELECT value FROM json_each(:locations)))
ORDER BY h.observed_at, h.seq
"""


def history_rows(
    organization_id: int, *, since: int, until: int, asset_id: int | None = None, location_id: int | None = None
) -> Iterator[StayRow]:
    """Stays that began in this period, asset by asset, oldest first; each asset is read by itself.

    Those of one asset, or of a location with everything below it, include the stay in progress when the period begins,
    like the pages of their histories.
    """
    below = None if location_id is None else execute(_BELOW, {"location_id": location_id}).fetchone()[0]
    values = {
        "organization_id": organization_id,
        "locations": below,
        "since": since,
        "until": until,
        "with_earlier": asset_id is not None or location_id is not None,
    }
    for (numbers,) in list(stream(_TRACKS, {"organization_id": organization_id, "asset_id": asset_id})):
        tracks = [stream(_HISTORY, {**values, "track": track}) for track in orjson.loads(numbers)]
        for row in merge(*tracks, key=itemgetter(0, 1)):
            yield StayRow(*row[2:])
