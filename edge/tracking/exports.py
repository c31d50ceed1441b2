"""Whole tables, streamed from one statement into files for download."""

from __future__ import annotations

from collections.abc import Iterator

from edge.database.connection import stream
from edge.tracking.board import BoardFilter, BoardRow, board_statement
from edge.tracking.past import PastFilter, PastRow, past_row, past_statement


def board_rows(organization_id: int, filters: BoardFilter) -> Iterator[BoardRow]:
    """The whole board, not divided into pages."""
    sql, values = board_statement(organization_id, filters)
    for row in stream(sql, {**values, "limit": -1, "offset": 0}):
        yield BoardRow(*row)


def past_rows(organization_id: int, filters: PastFilter) -> Iterator[PastRow]:
    """The whole board of a past moment, not divided into pages."""
    sql, values = past_statement(organization_id, filters)
    for row in stream(sql, {**values, "limit": -1, "offset": 0}):
        yield past_row(row)
