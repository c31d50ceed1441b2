"""Random test: three sites and a hub with a faulty link, crashes, restores and copies agree in the end.

The long form: python -m tests.sync.test_sender_model 300 [FIRST_SEED]
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import person
from edge.database import connection as database_module
from edge.database.connection import close_database, database, execute
from edge.errors import Conflict, EdgeError
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import people
from edge.people.people import Role
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.sync import verify
from edge.sync.sender import LinkError, Sender, Stopped
from edge.sync.store import conflicts, digests, hub_link, recovered_history, site_lifecycle, sites
from edge.sync.store.digests import ALL_DAYS, Scope
from edge.tracking import deletion
from tests.sync.conftest import seeds
from tests.sync.world import (
    EPOCH,
    GAP,
    HOUR,
    SECOND,
    Box,
    Hub,
    SiteBox,
    assert_copies,
    assert_digests,
    assert_equal,
    kill_at_each_commit,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]

STEPS = 60
CODES = ("BER", "HAM", "MUC")


class Crash(BaseException):
    """Simulates a killed process."""


class Life:
    """Random activity at a site."""

    def __init__(self, site: SiteBox, chance: random.Random) -> None:
        self.site, self.chance = site, chance
        self.assets: list[int] = []
        self.scans: list[str] = []
        self.number = 0
        with site.in_use():
            self.person = people.add_person(site.actor, f"Ann of {site.name}", Role.OPERATOR).id

    def step(self) -> None:
        often = [self.scan] * 8
        seldom = [
            self.scan_asset_of_others,
            self.scan_by_hand,
            self.undo,
            self.add,
            self.rename,
            self.delete,
            self.move_tag,
        ]
        rarely = [self.change_location, self.rename_reader, self.prune]
        with self.site.in_use(), suppress(EdgeError):  # refused, so nothing has changed
            self.chance.choice([*often, *seldom, *rarely])()

    def know_again(self) -> None:
        """Reload the assets of a site that may have been restored."""
        known = "SELECT id FROM asset WHERE deleted_at IS NULL AND id NOT IN (SELECT record_id FROM mirror)"
        self.assets = [row[0] for row in self.site.rows(known)]

    def scan(self) -> None:
        if self.assets:
            self.site.scan_now(self.chance.choice(self.assets), self.chance.randrange(3), self.moment())

    def scan_asset_of_others(self) -> None:
        mirrored = "SELECT record_id FROM mirror JOIN asset ON id = record_id WHERE deleted_at IS NULL ORDER BY id"
        known = [row[0] for row in execute(mirrored)]
        if known:
            self.site.scan_now(self.chance.choice(known), self.chance.randrange(3), self.moment())

    def moment(self) -> int:
        return EPOCH + self.chance.randrange(40) * HOUR // 4 + self.chance.randrange(3) * SECOND

    def scan_by_hand(self) -> None:
        self.number += 1
        scan = f"{self.site.name}-{self.number}"
        self.scans.append(scan)
        key = f"{self.site.name}-{self.chance.randrange(4)}"
        submitted = Submitted(scan, key, self.chance.choice(self.site.docks), self.moment())
        scans.submit(self.hand, [submitted], EPOCH + 100 * HOUR)

    def undo(self) -> None:
        if self.scans:
            scans.undo(self.hand, self.chance.choice(self.scans), GAP)

    @property
    def hand(self) -> Any:
        return person(self.site.organization_id, self.person, "Ann")

    def add(self) -> None:
        self.number += 1
        key = f"{self.site.name}-{self.chance.randrange(4)}"
        tag = NewTag("rfid", f"{self.site.name}{self.number % 5}")
        self.assets.append(assets.create(self.site.actor, name=f"Thing {self.number}", external_key=key, tags=[tag]).id)

    def rename(self) -> None:
        if self.assets:
            key = f"{self.site.name}-{self.chance.randrange(4)}"
            assets.rename(self.site.actor, self.chance.choice(self.assets), key)

    def delete(self) -> None:
        if self.assets:
            assets.delete(self.site.actor, self.assets.pop(self.chance.randrange(len(self.assets))))

    def move_tag(self) -> None:
        if len(self.assets) > 1:
            giver, taker = self.chance.sample(self.assets, 2)
            tags = assets.get(self.site.organization_id, giver).tags
            if tags:
                assets.detach_tag(self.site.actor, giver, tags[0].id)
                assets.attach_tag(self.site.actor, taker, NewTag(tags[0].tag_type, tags[0].value))

    def change_location(self) -> None:
        dock = self.chance.choice(self.site.docks)
        locations.patch(self.site.actor, dock, {"name": f"Dock {self.chance.randrange(9)}"})

    def rename_reader(self) -> None:
        readers.change_reader(self.site.actor, self.site.reader_id, {"name": f"Gate {self.chance.randrange(9)}"})

    def prune(self) -> None:
        deletion.drop_history(EPOCH + self.chance.randrange(3) * HOUR)


class BadLink:
    """A link that loses requests or answers, repeats or delays them, or kills the waiting site."""

    def __init__(self, chance: random.Random) -> None:
        self.is_good = False
        self._chance = chance
        self._late: list[Callable[[], Any]] = []

    def __call__(self, send: Callable[[], Any]) -> Any:
        self._deliver_late()
        fate = None if self.is_good else self._chance.randrange(9)
        if fate == 0:
            raise LinkError("the question was lost")
        if fate == 1:
            self._late.append(send)
            raise LinkError("no answer came in time")
        answer = send()
        self._deliver_late()
        if fate == 2:
            raise LinkError("the answer was lost")
        if fate == 3:
            answer = send()
        if fate == 4:
            raise Crash
        return answer

    def _deliver_late(self) -> None:
        """Deliver delayed requests; their answers are ignored."""
        while self._late and self._chance.random() < 0.5:
            with suppress(EdgeError):
                self._late.pop(self._chance.randrange(len(self._late)))()


class Mishaps:
    """Faults of whole machines: restores of a hub or site, copied files, an activated copy."""

    def __init__(self, hub: Hub, chance: random.Random) -> None:
        self.hub, self.chance = hub, chance
        self.backups: dict[str, Path] = {}
        self.copies: dict[str, Path] = {}
        self.made = 0

    def step(self, life: Life) -> None:
        """Run one mishap, or make a backup or copy for a later one."""
        site = life.site
        if not site.rows("SELECT 1 FROM target"):
            return
        action = self.chance.randrange(9)
        if action == 0:
            self.backups["hub"] = self.hub.back_up()
        elif action == 1:
            self.backups[site.name] = site.back_up()
        elif action == 2:
            self.copies[site.name] = site.copy_files()
        elif action == 3 and "hub" in self.backups:
            self.hub.restore(self.backups["hub"])
        elif action == 4 and site.name in self.backups:
            site.restore(self.backups[site.name])
        elif action == 5 and site.name in self.copies:
            site.copy_back(self.copies[site.name])
        elif action == 6 and site.name in self.copies:
            self._switch_copy_on(site)
        elif action == 7:
            self.copies["hub"] = self.hub.copy_files()
        elif action == 8 and "hub" in self.copies:
            self.hub.copy_back(self.copies["hub"])
            with self.hub.in_use():  # assigns the same ids again
                self.made += 1
                assets.create(self.hub.actor, name="Made at the hub", external_key=f"HUB-{self.made}")
        life.know_again()

    def _switch_copy_on(self, site: SiteBox) -> None:
        original = site.copy_files()
        site.copy_back(self.copies[site.name])
        with suppress(EdgeError, Crash):
            site.settle()
        site.copy_back(original)


class Moves:
    """Sites leave, return, are renamed, retired and removed."""

    def __init__(self, hub: Hub, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hub, self.chance, self.monkeypatch = hub, chance, monkeypatch
        self.made = 0

    def step(self, life: Life) -> None:
        site = life.site
        site.follow_restored_hub()
        if not site.rows("SELECT 1 FROM target"):
            self.bring_back(site)
            return
        moves = [self.leave, self.retire, self.remove, self.rename]
        self.chance.choice(moves)(site)

    def leave(self, site: SiteBox) -> None:
        self._killed(site.leave)

    def retire(self, site: SiteBox) -> None:
        with self.hub.in_use():
            site_lifecycle.retire(self.hub.actor, site.site_no)
        site.leave()

    def remove(self, site: SiteBox) -> None:
        with self.hub.in_use():
            site_lifecycle.remove(self.hub.actor, site.site_no)
        site.leave()

    def rename(self, site: SiteBox) -> None:
        code = self._new_code()

        def rename() -> None:
            with self.hub.in_use():
                site_lifecycle.rename(self.hub.actor, site.site_no, code=code, name=f"Site {code}")

        self._killed(rename)
        site.name = code

    def bring_back(self, site: SiteBox) -> None:
        with self.hub.in_use(), suppress(Conflict):
            sites.add_site(self.hub.actor, site.name, site.name, f"code {site.name}".encode())
        site.rejoin()

    def _new_code(self) -> str:
        self.made += 1
        return f"X{self.made}"

    def _killed(self, do: Callable[[], object]) -> None:
        if self.chance.random() < 0.3:
            kill_at_each_commit(self.monkeypatch, do)
        else:
            do()


class Clocks:
    """The simulated clock of each box. Each look takes a millisecond, and the clock of a site may be wrong."""

    AHEAD = 30 * HOUR

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_790_000_000 * SECOND
        self.ahead: dict[str, int] = {}
        self.have_jumped = False
        monkeypatch.setattr(clock, "now", self.tell)

    def tell(self) -> int:
        self.now += 1000
        return self.now + self.ahead.get(str(Path(database.database or "").parent), 0)

    def jump(self, box: Box) -> None:
        """Set the clock of a box 30 hours ahead, or right again."""
        self.have_jumped = True
        if not self.ahead.pop(str(box.folder), 0):
            self.ahead[str(box.folder)] = self.AHEAD


class Shared:
    """Assets with the same few keys at the hub and at all sites, changed by whoever is their home at that time.

    A site that has left its hub is the home of its copies. A person at the hub decides on conflicts.
    """

    def __init__(self, hub: Hub, chance: random.Random) -> None:
        self.hub, self.chance = hub, chance
        self.number = 0

    def step(self, life: Life) -> None:
        """Change some assets within seconds at the hub and at a site."""
        boxes: list[Box] = [self.hub, life.site]
        for _ in range(self.chance.randrange(1, 4)):
            with self.chance.choice(boxes).in_use() as box, suppress(EdgeError):
                self.chance.choice([self.add, self.rename, self.change, self.change, self.delete, self.restore])(box)
        if self.chance.random() < 0.3:
            self.decide()

    def add(self, box: Box) -> None:
        self.number += 1
        tags = [NewTag("rfid", f"SHARED{self.chance.randrange(3)}")] if self.chance.random() < 0.3 else []
        assets.create(box.actor, name=f"Shared {self.number}", external_key=self._key(), tags=tags)

    def rename(self, box: Box) -> None:
        assets.rename(box.actor, self._one(), self._key())

    def change(self, box: Box) -> None:
        self.number += 1
        assets.patch(box.actor, self._one(), {"name": f"Changed {self.number}"})

    def delete(self, box: Box) -> None:
        assets.delete(box.actor, self._one())

    def restore(self, box: Box) -> None:
        gone = "SELECT id FROM asset WHERE deleted_at IS NOT NULL AND external_key LIKE 'SHARED%' ORDER BY id"
        if ids := [row[0] for row in execute(gone)]:
            assets.restore(box.actor, self.chance.choice(ids))

    def decide(self) -> bool:
        """Decide on a conflict at the hub. Returns False if there is none."""
        with self.hub.in_use():
            waiting = conflicts.list_conflicts(self.hub.organization_id).rows
            if not waiting:
                return False
            one = self.chance.choice(waiting)
            self.number += 1
            with suppress(EdgeError):
                if self.chance.random() < 0.5:
                    conflicts.merge(self.hub.actor, one.site_no, one.remote_id)
                else:
                    conflicts.rename(self.hub.actor, one.site_no, one.remote_id, f"SHARED-X{self.number}")
        return True

    def _one(self) -> int:
        live = "SELECT id FROM asset WHERE deleted_at IS NULL AND external_key LIKE 'SHARED%' ORDER BY id"
        return self.chance.choice([row[0] for row in execute(live)] or [0])

    def _key(self) -> str:
        return f"SHARED-{self.chance.randrange(4)}"


def one_conversation(site: SiteBox, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send some batches until a random end, possibly a crash at a commit."""
    commits = chance.randrange(40)

    def commit() -> None:
        nonlocal commits
        commits -= 1
        if commits == 0:
            raise Crash
        real_commit()

    real_commit = database.commit
    with site.in_use(), monkeypatch.context() as patched:
        if chance.random() < 0.3:
            patched.setattr(database, "commit", commit)
        try:
            sender = Sender(site.call)
            sender.connect()
            for _ in range(chance.randrange(6)):
                sender.push()
            sender.pull()
        except EdgeError:
            pass
        except Crash:
            close_database()


def store_digests(site: SiteBox) -> None:
    """Store the digests of all days at both ends. Later writes must drop them."""
    with site.in_use():
        digests.kept_by_day(Scope(site.organization_id, None), ALL_DAYS)
    with site.hub.in_use():
        digests.kept_by_day(Scope(site.hub.organization_id, site.site_no), ALL_DAYS)


def compare(site: SiteBox) -> list[str]:
    with site.in_use():
        here = hub_link.find()
        assert here
        return [difference.text for difference in verify.compare(here, site.call)]


def repair(site: SiteBox) -> None:
    """Compare as every night: validity that began with a wrong clock is corrected."""
    with site.in_use():
        here = hub_link.find()
        assert here
        verify.repair(here, verify.compare(here, site.call))


def bring_to_rest(site: SiteBox) -> None:
    """Repair the link, resolve pending manual steps, and sync."""
    if not site.rows("SELECT 1 FROM target"):
        site.join()
    try:
        site.settle(500)
    except Stopped:
        site.join_again()
        site.settle(500)
    if site.rows("SELECT 1 FROM target WHERE restored_from IS NOT NULL"):
        with site.in_use():
            recovered_history.begin(site.actor)
        site.settle(500)


def settle_all(lives: list[Life], shared: Shared) -> None:
    """Decide on all conflicts, and sync until the data of each site has reached the others."""
    for _ in range(100):
        for _ in range(3):  # a merge travels to a site, and what it retires there back
            for life in lives:
                life.site.settle()
        if not shared.decide():
            return
    raise AssertionError("there is always another conflict")


def live(
    folder: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    with_mishaps: bool = False,
    with_moves: bool = False,
    with_shared: bool = False,
    watch: Callable[[Hub], Callable[[], None]] = lambda _: lambda: None,
) -> None:
    """Live through random events. `watch` returns a function that is called from time to time, and at the end."""
    chance = random.Random(seed)
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", chance.choice([3, 10, 2000]))
    monkeypatch.setattr("edge.sync.sender.NOW_ROWS", chance.choice([2, 5000]))
    monkeypatch.setattr("edge.database.sliced_writing.SLICE_SECONDS", chance.choice([0, 0.05]))  # 0: a step in each
    rows = chance.choice([1, 50])
    for module in ("edge.database.sliced_writing", "edge.sync.store.incoming_stays"):
        monkeypatch.setattr(f"{module}.ROWS_OF_STEP", rows)
    for module in ("edge.sync.sender", "edge.sync.store.epochs"):  # tests restore copies more often than users do
        monkeypatch.setattr(f"{module}.RENEW_AGAIN", 0)
    clocks = Clocks(monkeypatch)
    hub = Hub(folder / "hub", "hub")
    lives = [Life(SiteBox(folder / code, code, hub), chance) for code in CODES]
    links = [BadLink(chance) for _ in lives]
    mishaps, moves, shared = Mishaps(hub, chance), Moves(hub, chance, monkeypatch), Shared(hub, chance)
    for life, link in zip(lives, links, strict=True):
        life.site.spoil = link
        with life.site.in_use():
            life.add()
        if chance.random() < 0.5:
            life.site.join()
    look = watch(hub)
    for _ in range(STEPS):
        life = chance.choice(lives)
        life.step()
        if with_mishaps and chance.random() < 0.3:
            mishaps.step(life)
        if with_moves and chance.random() < 0.15:
            moves.step(life)
        if with_shared and chance.random() < 0.4:
            shared.step(life)
        if with_shared and chance.random() < 0.1:
            clocks.jump(chance.choice([hub, life.site]))
        if chance.random() < 0.3 and life.site.rows("SELECT 1 FROM target"):
            one_conversation(life.site, chance, monkeypatch)
            look()
            store_digests(life.site)
    clocks.ahead.clear()
    for life, link in zip(lives, links, strict=True):
        link.is_good = True
        life.site.follow_restored_hub()
        if with_moves and not life.site.rows("SELECT 1 FROM target"):
            moves.bring_back(life.site)
        bring_to_rest(life.site)
    settle_all(lives, shared)
    if clocks.have_jumped:
        for _ in range(2):
            for life in lives:
                repair(life.site)
            settle_all(lives, shared)
    for box in (hub, *(life.site for life in lives)):
        assert box.rows("SELECT * FROM conflict") == []
        assert_digests(box)
    for life in lives:
        assert (found := compare(life.site)) == [], found
        assert life.site.rows("SELECT code FROM target") == [(life.site.name,)]
        assert_equal(life.site)
        assert_copies(life.site)
        usual = "what LIKE 'history before %' OR what LIKE 'change of asset %' OR reason LIKE '% no longer its home'"
        aside = life.site.rows(f"SELECT * FROM set_aside WHERE NOT ({usual})")
        assert with_mishaps or aside == [], aside
    wrong = hub.rows(
        "SELECT asset_id FROM track GROUP BY asset_id HAVING sum(is_newest) <> 1 "
        "OR max(last_seen_at) <> max(last_seen_at) FILTER (WHERE is_newest = 1)"
    )
    assert wrong == []
    assert hub.rows("PRAGMA foreign_key_check") == []
    look()


@seeds(6)
@pytest.mark.parametrize("with_mishaps", [False, True])
def test_in_the_end_the_hub_has_every_row_of_every_site(
    seed: int, with_mishaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(tmp_path, seed, monkeypatch, with_mishaps=with_mishaps)


@seeds(4)
@pytest.mark.parametrize("with_shared", [False, True])
def test_sites_that_leave_and_return_lose_nothing(
    seed: int, with_shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(tmp_path, seed, monkeypatch, with_moves=True, with_shared=with_shared)


@pytest.mark.parametrize("engine", ["file"], indirect=True)
@pytest.mark.parametrize("seed", [2003, 2014, 5067, 5069])
def test_shared_assets_survive_a_hub_that_lost_them_and_a_site_that_used_an_id_again(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(tmp_path, seed, monkeypatch, with_shared=True, with_mishaps=True)


def main() -> None:
    database_module.PRAGMAS["synchronous"] = "off"
    count, first = (int(word) for word in [*sys.argv[1:], *["100", "0"][len(sys.argv) - 1 :]])
    for seed in range(first, first + count):
        for names in ((), ("with_mishaps",), ("with_moves",), ("with_shared",), ("with_moves", "with_shared")):
            with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
                print(f"seed {seed}, {names}", flush=True)
                live(Path(folder), seed, monkeypatch, **dict.fromkeys(names, True))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
