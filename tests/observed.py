"""Counts of a site as plain values: tests compare these instead of rows of tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from edge.database.connection import database, execute


class Count(NamedTuple):
    """Numbers of one bucket of the ledger, over all hours, since a test may begin at the end of one."""

    messages: int
    reads: int
    not_kept: int


def counted(reader_id: int | None = None) -> dict[str, Count]:
    """Return the numbers of each bucket of the ledger, of one reader or of all organizations."""
    rows = execute(
        "SELECT bucket, sum(messages), sum(reads), sum(not_kept) FROM ledger "
        "WHERE ?1 IS NULL OR reader_id = ?1 GROUP BY bucket",
        (reader_id,),
    )
    return {bucket: Count(*numbers) for bucket, *numbers in rows}


def scans_by_people() -> int:
    """Return how many scans by people are stored, undone and waiting ones included."""
    return _number("SELECT count(*) FROM handheld_scan")


def scanned_assets() -> int:
    """Return how many assets were scanned by people."""
    return _number("SELECT count(DISTINCT asset_id) FROM handheld_scan")


def steps_of(work: Callable[[], object]) -> int:
    """Return the number of instructions that SQLite needed in this thread."""
    steps = count()
    database.connection().set_progress_handler(lambda: next(steps) < 0, 1)
    work()
    database.connection().set_progress_handler(None, 1)
    return next(steps)


def _number(sql: str) -> int:
    number: int = execute(sql).fetchone()[0]
    return number
