"""Webhooks of a hub with its stays in PostgreSQL while batches arrive, and after their receiver was down for a day."""

from __future__ import annotations

import copy
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.database.connection import close_database, execute, writing
from edge.epcis import subscriptions
from edge.events import destinations
from edge.events.delivery import Outcome, Result
from edge.events.family import Destination
from edge.sync import hub
from edge.sync.store import sites
from edge.tracking.postgres import pool
from tests.epcis.test_hub import scan_by_hand
from tests.epcis.test_same_events import Partner, add_webhook, by_id, queried
from tests.epcis.test_subscribers import Unsteady, run
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox
from tests.tracking.postgres.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def site(tmp_path: Path, postgres_server: Server) -> Iterator[SiteBox]:
    """A site with a pallet that was never read, of a hub that has a webhook."""
    Hub.server = postgres_server
    made = SiteBox(tmp_path / "BER", "BER", Hub(tmp_path / "hub", "hub"))
    made.pallet = made.add_asset("P-1")
    made.join()
    made.settle()
    with made.hub.in_use():
        add_webhook(made.hub.actor)
        subscriptions.log_changes(is_needed=True)
    yield made
    Hub.server = None


def log_all() -> None:
    while subscriptions.log_changes(is_needed=True):
        pass


def destination_of(box: Hub) -> Destination:
    [row] = destinations.list_destinations(box.organization_id)
    return row


class Changing:
    """A site with random reads, late ones too, undone scans and corrected locations."""

    def __init__(self, site: SiteBox, seed: int) -> None:
        self.site, self._chance, self._undo = site, random.Random(seed), list[Callable[[], object]]()

    def change(self, number: int) -> None:
        chance = self._chance
        self.site.scan(self.site.pallet, chance.randrange(3), EPOCH + chance.randrange(12) * HOUR // 2)
        with self.site.in_use():
            if chance.random() < 0.5:
                at = EPOCH + chance.randrange(40) * HOUR // 7 + number
                self._undo.append(scan_by_hand(self.site, chance.randrange(3), at))
            elif self._undo:
                self._undo.pop(chance.randrange(len(self._undo)))()
            if chance.random() < 0.5:
                self._correct(chance.randrange(3))
        self.site.settle()

    def _correct(self, dock: int) -> None:
        """Move the oldest stay that is elsewhere to a dock, as a correction does."""
        with writing():
            execute(
                "UPDATE history SET source_no = (SELECT min(no) FROM source WHERE location_id = ?1) "
                "WHERE EXISTS (SELECT 1 FROM source WHERE location_id = ?1) AND (observed_at, seq) IN (SELECT "
                "observed_at, seq FROM history ORDER BY observed_at, seq LIMIT 1 OFFSET ?2)",
                (self.site.docks[dock], dock),
            )


def test_a_receiver_that_was_down_for_a_day_gets_everything(site: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    changing, sender, began = Changing(site, 1), Unsteady(), clock.now()
    for hour in range(26):
        monkeypatch.setattr(clock, "now", lambda hour=hour: began + hour * clock.HOUR)
        changing.change(hour)
        with site.hub.in_use():
            log_all()
            run(destination_of(site.hub), sender)
    assert sender.events == []
    sender.outcome = Outcome(Result.DELIVERED, "")
    with site.hub.in_use():
        for minute in range(180):
            monkeypatch.setattr(clock, "now", lambda minute=minute: began + (26 * 60 + minute) * 60 * clock.SECOND)
            run(destination_of(site.hub), sender)
        shown = by_id(queried(site.hub.organization_id))
    assert by_id({event["eventID"]: event for event in sender.events}.values()) == shown
    assert any("errorDeclaration" in event for event in shown.values())


@pytest.mark.parametrize("seed", range(2))
def test_messages_that_are_made_while_batches_arrive_miss_nothing(seed: int, site: SiteBox, tmp_path: Path) -> None:
    """A message can read PostgreSQL between its commit and the note of the hub. The batches are recorded first."""
    again = copy.copy(site.hub)
    again.folder = tmp_path / "again"
    shutil.copytree(site.hub.folder, again.folder)
    pool.close()
    again.copy_history()
    bodies, changing = recorded(site), Changing(site, seed)
    for number in range(40):
        changing.change(number)
    with again.in_use():
        partner, is_over = Partner(destination_of(again)), threading.Event()

        def follow() -> None:
            while not is_over.is_set():
                log_all()
                partner.receive(3)
            close_database()

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            for body in bodies:
                assert hub.changes(sites.get_site(again.organization_id, site.site_no), body)["applied"]
        finally:
            is_over.set()
            thread.join()
        log_all()
        partner.receive(100_000)
        shown = by_id(queried(again.organization_id))
    assert by_id(partner.events.values()) == shown
    assert any("errorDeclaration" in event for event in shown.values())


def recorded(site: SiteBox) -> list[bytes]:
    """Return a list to which the batches of a site are added."""
    bodies: list[bytes] = []
    answer = site.hub.answer

    def keep(site_no: int, path: str, body: bytes) -> Any:
        answered = answer(site_no, path, body)
        if path == "changes" and answered.get("applied"):
            bodies.append(body)
        return answered

    site.hub.answer = keep  # type: ignore[method-assign]
    return bodies
