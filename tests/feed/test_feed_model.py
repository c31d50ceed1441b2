"""A copy that follows the feed of a hub equals the hub in the end, whatever happens to sites, hub and PostgreSQL."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from edge.database.connection import close_database
from edge.feed import pages
from edge.sync.sender import LinkError
from tests.feed.test_feed import Mirror, assert_equal, box_of
from tests.sync.conftest import seeds
from tests.sync.test_sender_every_step import Crash, World, changes, dies_at, line_to_one_that_dies
from tests.sync.test_sender_model import live
from tests.sync.world import Hub, SiteBox

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_CHANGES", 7)
    monkeypatch.setattr(pages, "MOST_ROWS", 5)
    monkeypatch.setattr(pages, "TRACKS_AT_ONCE", 2)


class Watcher:
    """A program that follows the feed of a hub, at times page by page."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self._number = hub, 0
        with hub.in_use():
            self.mirror = Mirror(box_of(hub.organization_id))
            self.mirror.follow()

    def of(self, hub: Hub) -> Watcher:
        """Return one with the same copy, for the copy of a hub."""
        made = copy.copy(self)
        made.hub, made.mirror = hub, Mirror(self.mirror.box)
        self.mirror.db.backup(made.mirror.db)
        return made

    def look(self) -> None:
        self._number += 1
        with self.hub.in_use():
            if self._number % 3:
                self.mirror.follow()
            elif (answer := self.mirror.box.get(self.mirror.cursor)).status_code == 200:
                self.mirror.apply(self.mirror.db, answer.data)

    def check(self) -> None:
        with self.hub.in_use():
            self.mirror.follow()
            assert_equal(self.mirror)
        assert self.mirror.rows("stay")


@seeds(4)
@pytest.mark.parametrize("kind", ["with_mishaps", "with_moves"])
def test_a_copy_equals_the_hub_after_restores_crashes_and_merges(
    seed: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchers: list[Watcher] = []

    def watch(hub: Hub) -> Callable[[], None]:
        watchers.append(Watcher(hub))
        return watchers[0].look

    live(tmp_path, seed, monkeypatch, watch=watch, **{kind: True})
    watchers[0].check()


def dies(site: SiteBox, commit: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return False if everything was sent before that commit of site, hub or PostgreSQL."""
    with monkeypatch.context() as patched:
        dies_at(commit, patched)
        try:
            site.settle()
        except (Crash, LinkError):
            close_database()
            return True
    return False


@pytest.mark.parametrize("every", [3])
def test_a_death_at_any_commit_skips_no_change(every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", 4)
    begun = World(tmp_path / "begun")
    begun.ber.settle()
    watcher = Watcher(begun.hub)
    changes(begun)
    commit, is_dead = 1, True
    while is_dead:
        world = begun.again(tmp_path / str(commit))
        world.ber.spoil = line_to_one_that_dies
        again = watcher.of(world.hub)
        is_dead = dies(world.ber, commit, monkeypatch)
        if commit % 2:
            again.look()  # before the hub has completed the batch
        world.ber.settle()
        again.check()
        commit += every
    assert commit > 4 * every
