"""What a site shows to people, as plain values: tests compare these instead of rows of tables."""

from __future__ import annotations

from typing import NamedTuple

from edge.audit import trail
from edge.database.connection import execute
from edge.events import log
from edge.readers import unknown_tags
from edge.rules.alerts import AlertFilter, list_alerts
from edge.tracking import board, report
from edge.tracking.board import BoardFilter

MOST = 10_000


class Count(NamedTuple):
    """Numbers of one bucket of the ledger, over all hours, since a test may begin at the end of one."""

    messages: int
    reads: int
    not_kept: int


class Observed(NamedTuple):
    """A site at one time. Times are microseconds, lists are in order of time."""

    positions: dict[str, str]  # location by key of the asset
    stays: dict[str, list[tuple[str, int, int]]]  # location, begin and last read, by key of the asset
    messages: dict[str, int]  # by bucket of the ledger, of all organizations
    inbox: list[tuple[str, str]]  # type and value of each unknown tag
    alerts: list[str]  # sentences
    events: list[str]  # kinds
    audit: list[str]  # actions


def observed(organization_id: int) -> Observed:
    """Return what the site of an organization shows to its administrators."""
    rows = board.board(organization_id, BoardFilter(), limit=MOST).rows
    return Observed(
        {row.external_key: row.location_key for row in rows if row.location_key},
        {row.external_key: stays(organization_id, row.asset_id) for row in rows if row.location_key},
        {bucket: count.messages for bucket, count in counted().items()},
        sorted((tag.tag_type, tag.value) for tag in unknown_tags.list_tags(organization_id)),
        [alert.sentence for alert in reversed(list_alerts(organization_id, AlertFilter(is_open=False), MOST))],
        [str(event.kind) for event in log.after(organization_id, 0, MOST)],
        [str(row.action) for row in reversed(trail.recent(organization_id, MOST))],
    )


def stays(organization_id: int, asset_id: int) -> list[tuple[str, int, int]]:
    """Return location, begin and last read of each stay of an asset, oldest first."""
    moves = report.moves(organization_id, asset_id, limit=MOST)
    return [(move.location_key, move.observed_at, move.last_seen_at) for move in reversed(moves)]


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


def _number(sql: str) -> int:
    number: int = execute(sql).fetchone()[0]
    return number
