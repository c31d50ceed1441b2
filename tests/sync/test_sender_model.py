"""Three sites and a hub, a link that loses, repeats and delays, and boxes that die at any step: at rest they agree."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from edge.errors import EdgeError
from edge.store import assets, handheld, locations, people, readers, retention
from edge.store.actors import person
from edge.store.database import close_database, database
from edge.store.handheld import Submitted
from edge.store.people import Role
from edge.store.tags import NewTag
from edge.sync.sender import LinkError, Sender
from tests.sync.world import EPOCH, GAP, HOUR, SECOND, Hub, SiteBox, assert_equal

STEPS = 60
CODES = ("BER", "HAM", "MUC")


class Crash(BaseException):
    """The process is gone, in the middle of whatever it did."""


class Life:
    """What happens at a site, by chance."""

    def __init__(self, site: SiteBox, chance: random.Random) -> None:
        self.site, self.chance = site, chance
        self.assets: list[int] = []
        self.scans: list[str] = []
        self.number = 0
        with site.in_use():
            self.person = people.add_person(site.actor, f"Ann of {site.name}", Role.OPERATOR).id

    def step(self) -> None:
        often = [self.scan] * 8
        seldom = [self.scan_by_hand, self.undo, self.add, self.rename, self.delete, self.move_tag]
        rarely = [self.change_location, self.rename_reader, self.prune]
        with self.site.in_use(), suppress(EdgeError):  # refused by the program: nothing happened
            self.chance.choice([*often, *seldom, *rarely])()

    def scan(self) -> None:
        if self.assets:
            self.site.scan_now(self.chance.choice(self.assets), self.chance.randrange(3), self.moment())

    def moment(self) -> int:
        return EPOCH + self.chance.randrange(40) * HOUR // 4 + self.chance.randrange(3) * SECOND

    def scan_by_hand(self) -> None:
        self.number += 1
        scan = f"{self.site.name}-{self.number}"
        self.scans.append(scan)
        key = f"{self.site.name}-{self.chance.randrange(4)}"
        submitted = Submitted(scan, key, self.chance.choice(self.site.docks), self.moment())
        handheld.submit(self.hand, [submitted], EPOCH + 100 * HOUR)

    def undo(self) -> None:
        if self.scans:
            handheld.undo(self.hand, self.chance.choice(self.scans), GAP)

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
        retention.drop_history(EPOCH + self.chance.randrange(3) * HOUR)


def bad_link(chance: random.Random) -> Callable[[Callable[[], Any]], Any]:
    """Loses the question or the answer, or delivers twice; or the site dies while it waits."""

    def spoil(send: Callable[[], Any]) -> Any:
        fate = chance.randrange(8)
        if fate == 0:
            raise LinkError("the question was lost")
        answer = send()
        if fate == 1:
            raise LinkError("the answer was lost")
        if fate == 2:
            answer = send()
        if fate == 3:
            raise Crash
        return answer

    return spoil


def one_conversation(site: SiteBox, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some batches, ending by chance: also by the death of the site at one of its commits."""
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
        except LinkError:
            pass
        except Crash:
            close_database()


@pytest.mark.parametrize("seed", range(12))
def test_at_rest_every_site_is_at_the_hub_row_for_row(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", chance.choice([3, 10, 2000]))
    monkeypatch.setattr("edge.sync.sender.NOW_ROWS", chance.choice([2, 5000]))
    hub = Hub(tmp_path / "hub", "hub")
    lives = [Life(SiteBox(tmp_path / code, code, hub), chance) for code in CODES]
    for life in lives:
        with life.site.in_use():
            life.add()
        if chance.random() < 0.5:
            life.site.join()
    for _ in range(STEPS):
        life = chance.choice(lives)
        life.step()
        if chance.random() < 0.3 and life.site.rows("SELECT 1 FROM target"):
            life.site.spoil = bad_link(chance)
            one_conversation(life.site, chance, monkeypatch)
    for life in lives:
        life.site.spoil = lambda send: send()
        if not life.site.rows("SELECT 1 FROM target"):
            life.site.join()
        life.site.sync(500)
    for life in lives:
        assert_equal(life.site)
        pruned = "what NOT LIKE 'history before %'"
        assert life.site.rows(f"SELECT * FROM set_aside WHERE {pruned}") == []
    wrong = hub.rows(
        "SELECT asset_id FROM track GROUP BY asset_id HAVING sum(is_newest) <> 1 "
        "OR max(last_seen_at) <> max(last_seen_at) FILTER (WHERE is_newest = 1)"
    )
    assert wrong == []
    assert hub.rows("PRAGMA foreign_key_check") == []
