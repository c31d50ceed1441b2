"""Fixtures: two sites with a hub, whose history is moved to PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from edge.database.connection import close_database, execute
from edge.tracking import history_engine
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox

STAYS = 2 * 4 * 9


@pytest.fixture(scope="session")
def made_sites(tmp_path_factory: pytest.TempPathFactory) -> list[SiteBox]:
    return two_sites(tmp_path_factory.mktemp("two-sites"))


@pytest.fixture
def sites(made_sites: list[SiteBox], tmp_path: Path) -> Iterator[list[SiteBox]]:
    """Two sites with their hub. Those of each test are copies, because it takes a second to make them."""
    close_database()
    hub = copy(made_sites[0].hub)
    copies = [copy(site) for site in made_sites]
    for box in (hub, *copies):
        box.folder = Path(shutil.copytree(box.folder, tmp_path / box.name))
    for site in copies:
        site.hub = hub
    with hub.in_use():
        execute("UPDATE site SET box = NULL")  # a copy of a site looks like a second machine
    yield copies
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
