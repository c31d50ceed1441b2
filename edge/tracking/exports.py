"""Boards for download, streamed from one statement."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from itertools import islice

from edge import clock
from edge.database.connection import stream
from edge.tracking import past
from edge.tracking.board import BoardFilter, BoardRow, board_statement
from edge.tracking.past import PastFilter, PastRow, past_statement

_AT_ONCE = 1000  # rows
BOARD_HEADING = ("external_key", "name", "is_active", "location_key", "location", "area", "there_since", "last_seen")


def board_cells(row: BoardRow, zone: tzinfo) -> tuple[str | None, ...]:
    """Return the cells of an asset, in the order of BOARD_HEADING."""
    return (
        *(row.external_key, row.name, "yes" if row.is_active else "no"),
        *(row.location_key, row.location_name, row.area_name),
        *(local_time(row.dwell_started_at, zone), local_time(row.last_seen_at, zone)),
    )


def local_time(moment: int | None, zone: tzinfo) -> str:
    """Format a time with the offset from UTC, or nothing."""
    return clock.to_datetime(moment).astimezone(zone).isoformat(" ", "seconds") if moment is not None else ""


def board_rows(organization_id: int, filters: BoardFilter) -> Iterator[BoardRow]:
    """Yield the whole board."""
    sql, values = board_statement(organization_id, filters)
    for row in stream(sql, {**values, "limit": -1, "offset": 0}):
        yield BoardRow(*row)


def past_rows(organization_id: int, filters: PastFilter) -> Iterator[PastRow]:
    """Yield the whole board of a past moment."""
    sql, values = past_statement(organization_id, filters)
    with past.then(organization_id, filters.at, None):
        rows = stream(sql, {**values, "limit": -1, "offset": 0})
        while some := list(islice(rows, _AT_ONCE)):
            yield from past.past_rows(some)
