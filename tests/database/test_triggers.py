"""Without sync there is no overhead; with sync, reads that do not move an asset have none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edge.database.connection import database
from edge.sync.store import hub_link
from tests.sync.conftest import _quick
from tests.sync.world import EPOCH, SECOND, Hub, SiteBox

__all__ = ["_quick"]

# Statements of a batch with one move, in order, without tables of sync.
BATCH = [
    "BEGIN",
    "SELECT track",
    "SELECT source",
    "SELECT recent_read",
    "INSERT recent_read",
    "DELETE recent_read",
    "INSERT history",
    "UPDATE history",
    "UPDATE track",  # the time of the last read
    "UPDATE track",
    "UPDATE track",  # the location, of which two indexes have a copy
    "COMMIT",
]


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1")
    site.scan(site.pallet, 0, EPOCH)
    site.scan(site.pallet, 1, EPOCH + SECOND)
    return site


def statements(site: SiteBox, dock: int, at: int) -> list[str]:
    """Return the statements of one batch, including those of triggers."""
    with site.in_use():
        executed: list[str] = []
        database.connection().set_trace_callback(executed.append)
        site.scan_now(site.pallet, dock, at)
    return [_short(text) for text in executed]


def _short(sql: str) -> str:
    verb = sql.lstrip("- ").split()[0]
    table = re.search(r"(?:FROM|INTO|UPDATE(?: OF \w+ ON)?)\s+(\w+)", sql)
    return f"{verb} {table[1]}" if table else verb


def test_without_sync_a_batch_runs_no_statement_of_sync(ber: SiteBox) -> None:
    assert statements(ber, 0, EPOCH + 2 * SECOND) == BATCH


def test_after_leaving_the_hub_there_is_no_overhead(ber: SiteBox) -> None:
    ber.join()
    with ber.in_use():
        hub_link.end(ber.actor)
    assert statements(ber, 0, EPOCH + 2 * SECOND) == BATCH


def test_with_sync_only_a_move_is_recorded(ber: SiteBox) -> None:
    before = statements(ber, 1, EPOCH + 2 * SECOND)
    ber.join()
    assert statements(ber, 1, EPOCH + 3 * SECOND) == before
    assert len(statements(ber, 0, EPOCH + 4 * SECOND)) == len(BATCH) + 4  # two triggers with one insert each
