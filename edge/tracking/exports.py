"""Boards for download, streamed from one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

from edge import clock
from edge.database.connection import stream
from edge.records import loans
from edge.records.loans import Loan
from edge.tracking import past
from edge.tracking.board import BoardFilter, BoardRow, board_statement
from edge.tracking.past import PastFilter, PastRow, past_statement

_AT_ONCE = 1000  # rows
BOARD_HEADING = ("external_key", "name", "is_active", "location_key", "location", "area", "there_since", "last_seen")
# Cells of the file by column of the board. The others identify the asset and are always there.
CELLS_BY_COLUMN = {
    "location": ("location_key", "location"),
    "area": ("area",),
    "since": ("there_since",),
    "seen": ("last_seen",),
    "borrower": ("borrower", "due"),
}


def chosen_heading(columns: Collection[str]) -> tuple[str, ...]:
    """Return the heading of a file with some columns of the board."""
    return (
        *BOARD_HEADING[:3],
        *(cell for name in CELLS_BY_COLUMN if name in columns for cell in CELLS_BY_COLUMN[name]),
    )


def chosen_cells(
    organization_id: int, rows: Iterable[BoardRow], columns: Collection[str], zone: tzinfo
) -> Iterator[list[Any]]:
    """Yield the cells of assets, in the order of `chosen_heading`."""
    heading, rest = chosen_heading(columns), iter(rows)
    while some := list(islice(rest, _AT_ONCE)):
        lent = loans.of_assets(organization_id, [row.asset_id for row in some]) if "borrower" in columns else {}
        for row in some:
            cells = dict(zip(BOARD_HEADING, board_cells(row, zone), strict=True)) | _loan_cells(
                lent.get(row.asset_id), zone
            )
            yield [cells[name] for name in heading]


def _loan_cells(loan: Loan | None, zone: tzinfo) -> dict[str, Any]:
    last = local_time(loan.last_moment, zone) if loan else None
    return {"borrower": loan.borrower if loan else "", "due": last and last.date()}


def board_cells(row: BoardRow, zone: tzinfo) -> tuple[Any, ...]:
    """Return the cells of an asset, in the order of BOARD_HEADING."""
    return (
        *(row.external_key, row.name, "yes" if row.is_active else "no"),
        *(row.location_key, row.location_name, row.area_name),
        *(local_time(row.dwell_started_at, zone), local_time(row.last_seen_at, zone)),
    )


def local_time(moment: int | None, zone: tzinfo) -> datetime | None:
    """Return a time in a time zone, in seconds."""
    return clock.to_datetime(moment).astimezone(zone).replace(microsecond=0) if moment is not None else None


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
