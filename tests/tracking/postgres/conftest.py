"""Fixtures: two sites with a hub, whose history is moved to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.tracking import history_engine
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox

STAYS = 2 * 4 * 9


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[list[SiteBox]]:
    yield two_sites(tmp_path)
    history_engine.use("")


def two_sites(folder: Path) -> list[SiteBox]:
    """Return two sites that saw the same pallet and others, and have sent everything to their hub."""
    hub = Hub(folder / "hub", "hub")
    made = [SiteBox(folder / code, code, hub) for code in ("BER", "HAM")]
    for number, site in enumerate(made):
        site.join()
        for asset in range(4):
            pallet = site.add_asset(f"P-{number}-{asset}")
            for step in range(9):
                site.scan(pallet, (step // 2 + asset) % 3, EPOCH + (step * 2 + number) * HOUR)
        site.sync()
    return made


def move(hub: Hub, url: str) -> None:
    """Move the history of a hub in use."""
    history_engine.use(url)
    history_engine.moving.check_free()
    assert list(history_engine.moving.copy_there())
    assert history_engine.moving.finish_there() == STAYS
