"""Site or hub dies at every single step of what they tell each other: at rest they agree all the same.

A step is a commit of either side, and the box whose commit it is dies just before it. That is also just after the one
before: what a box did between two commits is gone with it. So these are all the moments that differ.
All of them: python -m tests.sync.test_sender_every_step
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge.database import connection as database_module
from edge.database.connection import close_database, database
from edge.records import assets
from edge.sync.sender import LinkError
from edge.sync.store import hub_link, recovered_history, state
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_equal


class Crash(BaseException):
    """The process is gone."""


class World:
    """A hub and a site that has something of everything to tell, and can be had again as it was."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.ber = ber = SiteBox(folder / "ber", "BER", self.hub)
        ber.pallet = ber.add_asset("P-1", "AA01")
        for step in range(5):
            ber.scan(ber.pallet, step % 3, EPOCH + step * HOUR)
        with self.hub.in_use():
            assets.create(self.hub.actor, name="Forklift", external_key="F-1")
        ber.join()

    def again(self, folder: Path) -> World:
        """The same boxes in another folder."""
        made = copy.copy(self)
        made.hub, made.ber = copy.copy(self.hub), copy.copy(self.ber)
        made.ber.hub = made.hub
        for box in (made.hub, made.ber):
            shutil.copytree(box.folder, folder / box.folder.name)
            box.folder = folder / box.folder.name
        with made.hub.in_use():
            database_module.execute("UPDATE site SET box = NULL")  # in another folder it passes for another box
        return made


def first_copy(world: World) -> None:
    world.ber.settle()


def changes(world: World) -> None:
    """Moves, an asset that goes, one that comes with its first scan, and a tag that changes hands."""
    world.ber.settle()
    ber = world.ber
    gone = ber.add_asset("P-2", "AA02")
    ber.scan(gone, 0, EPOCH)
    ber.settle()
    with ber.in_use():
        assets.delete(ber.actor, gone)
        assets.rename(ber.actor, ber.pallet, "P-1B")
    ber.scan(ber.add_asset("P-2", "AA02"), 1, EPOCH + 9 * HOUR)
    ber.scan(ber.pallet, 2, EPOCH + HOUR // 2)


def restored_hub(world: World) -> None:
    """It lacks what the site has told since, and the site does not remember all of it."""
    saved = world.hub.back_up()
    changes(world)
    world.ber.settle()
    with world.ber.in_use():
        hub_link.trim(EPOCH * 1000, 1000)
    world.hub.restore(saved)


def restored_site(world: World) -> None:
    """It gets back from the hub what came after its backup."""
    world.ber.settle()
    saved = world.ber.back_up()
    changes(world)
    world.ber.settle()
    world.ber.restore(saved)
    with world.ber.in_use():
        recovered_history.begin(world.ber.actor)


def dies_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The box whose commit that is."""
    left = number
    real = database.commit

    def commit() -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash
        return real()

    monkeypatch.setattr(database, "commit", commit)


def line_to_one_that_dies(send: Callable[[], Any]) -> Any:
    """What a site notices of it when its hub dies."""
    try:
        return send()
    except Crash as error:
        raise LinkError("the connection was reset") from error


def die(folder: Path, prepare: Callable[[World], None], every: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """At the first commit, and at so many after it each time; how often."""
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", 4)
    begun = World(folder / "begun")
    if prepare is not first_copy:
        prepare(begun)
    commit, deaths, is_dead = 1, 0, True
    while is_dead:
        world = begun.again(folder / str(commit))
        world.ber.spoil = line_to_one_that_dies
        is_dead = _dies(world.ber, commit, monkeypatch)
        deaths += is_dead
        world.ber.settle()
        assert_equal(world.ber)
        assert world.ber.rows("SELECT * FROM set_aside") == world.hub.rows("SELECT * FROM set_aside") == []
        with world.ber.in_use():
            assert state.site_trouble() == ""
        commit += every
    return deaths


def _dies(ber: SiteBox, commit: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """False when all was told before there were so many commits."""
    with monkeypatch.context() as patched:
        dies_at(commit, patched)
        try:
            ber.settle()
        except (Crash, LinkError):
            close_database()
            return True
    return False


WORLDS = (first_copy, changes, restored_hub, restored_site)


@pytest.mark.parametrize("prepare", WORLDS)
def test_a_death_at_every_fifth_commit(
    prepare: Callable[[World], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert die(tmp_path, prepare, 5, monkeypatch) > 2


def main() -> None:
    database_module.PRAGMAS["synchronous"] = "off"
    for prepare in WORLDS:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
            print(f"{prepare.__name__}: equal after each of {die(Path(folder), prepare, 1, monkeypatch)} deaths")


if __name__ == "__main__":
    main()
