"""An idle network writes and sends no changes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from edge import clock
from edge.database.connection import FILE_NAME
from edge.sync.sender import Sender
from tests.sync.world import EPOCH, SECOND, Box, Hub, SiteBox

pytestmark = pytest.mark.slow

CONFLICTS = 30
CODES = ("BER", "HAM", "MUC")
CONTACT = {  # signs of life: the only columns that an idle machine may change
    "target": ("board_at", "last_contact_at", "clock_offset"),
    "site": ("report", "last_contact_at", "day", "bytes_received"),
}


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Set the clock of all machines; its only item is the current time."""
    now = [EPOCH + 1000 * SECOND]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    return now


def pallets_of_three_sites(folder: Path, time: list[int]) -> list[SiteBox]:
    """Create sites with assets that share keys or tags with other sites."""
    hub = Hub(folder / "hub", "hub")
    boxes = [SiteBox(folder / code, code, hub) for code in CODES]
    for box in boxes:
        time[0] += SECOND  # only the creation time distinguishes records with the same key
        for number in range(CONFLICTS):
            box.add_asset(f"ASSET-{number:04d}", f"{box.name}{number:02d}")
        for number in range(5):
            box.scan(box.add_asset(f"{box.name}-{number}", f"AA{number:02d}"), 0, EPOCH)
        box.join()
    return boxes


def talk(boxes: list[SiteBox], time: list[int], seconds: int) -> None:
    """Sync all sites every ten seconds, like their workers."""
    for _ in range(seconds // 10):
        time[0] += 10 * SECOND
        for box in boxes:
            with box.in_use():
                sender = Sender(box.call)
                sender.connect()
                while not sender.push().is_all:
                    pass
                sender.pull()


def contents(box: Box) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows except signs of life."""
    with closing(sqlite3.connect(box.folder / FILE_NAME)) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows_by_table = {}
        for name in names:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
            kept = [column for column in columns if column not in CONTACT.get(name, ())]
            rows_by_table[name] = database.execute(f"SELECT {', '.join(kept)} FROM {name}").fetchall()
        return rows_by_table


def test_an_idle_network_with_open_conflicts_writes_nothing(tmp_path: Path, time: list[int]) -> None:
    boxes = pallets_of_three_sites(tmp_path, time)
    hub = boxes[0].hub
    talk(boxes, time, 100)
    [(count,)] = hub.rows("SELECT count(*) FROM conflict")
    assert count == 2 * (CONFLICTS + 5)
    before = [contents(box) for box in (hub, *boxes)]
    talk(boxes, time, 600)
    assert [contents(box) for box in (hub, *boxes)] == before
