"""Boards for download, streamed from one statement."""

from __future__ import annotations

from collections.abc import Iterator

from edge.database.connection import stream
from edge.tracking.board import BoardFilter, BoardRow, board_statement
from edge.tracking.past import PastFilter, PastRow, past_row, past_statement


def board_rows(organization_id: int, filters: BoardFilter) -> Iterator[BoardRow]:
    """Yield the whole board."""
    sql, values = board_statement(organization_id, filters)
    for row in stream(sql, {**values, "limit": -1, "offset": 0}):
        yield BoardRow(*row)


def past_rows(organization_id: int, filters: PastFilter) -> Iterator[PastRow]:
    """Yield the whole board of a past moment."""
    sql, values = past_statement(organization_id, filters)
    for row in stream(sql, {**values, "limit": -1, "offset": 0}):
        yield past_row(row)
