"""A box without sync does nothing for it, and one with sync nothing for a read that moves nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edge.database.connection import database
from edge.sync.store import hub_link
from tests.sync.conftest import _quick
from tests.sync.world import EPOCH, SECOND, Hub, SiteBox

__all__ = ["_quick"]

# What one batch with a move asks of the database, in order: no table of sync is among it.
BATCH = [
    "BEGIN",
    "SELECT track",
    "SELECT source",
    "INSERT recent_read",
    "DELETE recent_read",
    "INSERT history",
    "UPDATE history",
    "UPDATE track",
    "UPDATE track",
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
    """Of one batch; a trigger that fires shows, and so does what it does."""
    with site.in_use():
        told: list[str] = []
        database.connection().set_trace_callback(told.append)
        site.scan_now(site.pallet, dock, at)
    return [_short(text) for text in told]


def _short(sql: str) -> str:
    verb = sql.lstrip("- ").split()[0]
    table = re.search(r"(?:FROM|INTO|UPDATE(?: OF \w+ ON)?)\s+(\w+)", sql)
    return f"{verb} {table[1]}" if table else verb


def test_without_sync_a_batch_asks_what_it_always_did(ber: SiteBox) -> None:
    assert statements(ber, 0, EPOCH + 2 * SECOND) == BATCH


def test_after_leaving_it_is_the_same_again(ber: SiteBox) -> None:
    ber.join()
    with ber.in_use():
        hub_link.end(ber.actor)
    assert statements(ber, 0, EPOCH + 2 * SECOND) == BATCH


def test_with_sync_only_a_move_is_noted(ber: SiteBox) -> None:
    before = statements(ber, 1, EPOCH + 2 * SECOND)
    ber.join()
    assert statements(ber, 1, EPOCH + 3 * SECOND) == before
    assert len(statements(ber, 0, EPOCH + 4 * SECOND)) == len(BATCH) + 4  # two triggers, and what they do
