"""Site or hub crashes at each step of the protocol: in the end both agree.

A step is a commit on either side, and that side crashes just before it. Work between two commits is lost in any case,
so this covers all distinct moments. All steps: python -m tests.sync.test_sender_every_step
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from edge.database import connection as database_module
from edge.database.connection import close_database, database
from edge.records import assets
from edge.sync.sender import LinkError
from edge.sync.store import hub_link, recovered_history, state
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_equal
from tests.tracking.postgres import server

pytestmark = pytest.mark.slow


class Crash(BaseException):
    """The process is gone."""


class World:
    """A hub and a site with all kinds of changes, which can be copied for each run."""

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
        """Return the same installations in another folder."""
        made = copy.copy(self)
        made.hub, made.ber = copy.copy(self.hub), copy.copy(self.ber)
        made.ber.hub = made.hub
        for box in (made.hub, made.ber):
            shutil.copytree(box.folder, folder / box.folder.name)
            box.folder = folder / box.folder.name
        made.hub.copy_history()
        with made.hub.in_use():
            database_module.execute("UPDATE site SET box = NULL")  # another folder counts as another machine
        return made


def first_copy(world: World) -> None:
    world.ber.settle()


def changes(world: World) -> None:
    """Make moves, delete an asset, add one with its first scan, and move a tag."""
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
    """Restore a hub that lacks data which the site no longer has in its feed."""
    saved = world.hub.back_up()
    changes(world)
    world.ber.settle()
    with world.ber.in_use():
        hub_link.trim(EPOCH * 1000, 1000)
    world.hub.restore(saved)


def restored_site(world: World) -> None:
    """Restore a site, which recovers newer data from the hub."""
    world.ber.settle()
    saved = world.ber.back_up()
    changes(world)
    world.ber.settle()
    world.ber.restore(saved)
    with world.ber.in_use():
        recovered_history.begin(world.ber.actor)


def dies_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crash the side that makes the commit with this number, in its file or in PostgreSQL."""
    left = number

    def dying(commit: Callable[..., Any]) -> Callable[..., Any]:
        def commit_or_die(*of: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash
            return commit(*of)

        return commit_or_die

    monkeypatch.setattr(database, "commit", dying(database.commit))
    monkeypatch.setattr(psycopg.Connection, "commit", dying(psycopg.Connection.commit))


def line_to_one_that_dies(send: Callable[[], Any]) -> Any:
    """Turn a crash of the hub into a link error at the site."""
    try:
        return send()
    except Crash as error:
        raise LinkError("the connection was reset") from error


def die(folder: Path, prepare: Callable[[World], None], every: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Crash at the first commit and then at every so many. Returns the number of crashes."""
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
    """Return False if everything was sent before that commit."""
    with monkeypatch.context() as patched:
        dies_at(commit, patched)
        try:
            ber.settle()
        except (Crash, LinkError):
            close_database()
            return True
    return False


WORLDS = (first_copy, changes, restored_hub, restored_site)


@pytest.mark.usefixtures("engine")
@pytest.mark.long
@pytest.mark.parametrize("prepare", WORLDS)
def test_a_crash_at_every_fifth_commit(
    prepare: Callable[[World], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert die(tmp_path, prepare, 5, monkeypatch) > 2


def main() -> None:
    database_module.PRAGMAS["synchronous"] = "off"
    with server.running() as running:
        for engine in (None, running):
            Hub.server = engine
            for prepare in WORLDS:
                with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
                    deaths = die(Path(folder), prepare, 1, monkeypatch)
                where = "PostgreSQL" if engine else "its file"
                print(f"{prepare.__name__}, history in {where}: equal after each of {deaths} deaths", flush=True)


if __name__ == "__main__":
    main()
