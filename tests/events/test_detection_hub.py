"""Who listens at a hub is told what happens at its sites, by the same events as what the hub sees itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.clock import HOUR
from edge.events import detection, log
from edge.events.detection import Silence
from edge.sync.sender import Sender
from tests.sync.conftest import _quick
from tests.sync.world import Hub, SiteBox

__all__ = ["_quick"]

SILENCE = Silence(24 * HOUR, 15 * 60 * clock.SECOND)


class Listened:
    """A hub where somebody listens, and its site BER."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.ber = SiteBox(folder / "ber", "BER", self.hub)
        self.ber.join()
        self.ber.sync()
        self.began = clock.now() - HOUR
        with self.hub.in_use():
            detection.start(SILENCE)
        self._heard = 0

    def told(self) -> list[tuple[str, Any, Any]]:
        """What is new: kind, key of the asset, key of the location."""
        self.ber.sync()
        with self.hub.in_use():
            while detection.log_changes(SILENCE):
                pass
            found = log.after(self.hub.organization_id, self._heard, 100)
        self._heard = found[-1].seq if found else self._heard
        return [
            (event.kind, event.data["asset"]["external_key"], (event.data["location"] or {}).get("external_key"))
            for event in found
        ]


@pytest.fixture
def listened(tmp_path: Path) -> Listened:
    return Listened(tmp_path)


def test_what_happens_at_a_site_is_told_at_the_hub_once(listened: Listened) -> None:
    ber = listened.ber
    pallet = ber.add_asset("P-1", "AA01")
    ber.scan(pallet, 0, listened.began)
    assert listened.told() == [("asset.created", "P-1", None), ("asset.arrived", "P-1", "BER-DOCK-0")]
    ber.scan(pallet, 1, listened.began + 60 * clock.SECOND)
    ber.scan(pallet, 2, listened.began + 120 * clock.SECOND)
    assert listened.told() == [("asset.moved", "P-1", "BER-DOCK-1"), ("asset.moved", "P-1", "BER-DOCK-2")]
    ber.scan(pallet, 2, listened.began + 130 * clock.SECOND)  # there still
    assert listened.told() == []


def test_of_a_site_that_was_offline_it_is_told_where_everything_is_now(
    listened: Listened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", 2)  # history comes in many batches, behind where things are
    ber = listened.ber
    pallet = ber.add_asset("P-1")
    ber.scan(pallet, 0, listened.began)
    listened.told()
    for step in range(1, 21):
        ber.scan(pallet, step % 3, listened.began + step * 60 * clock.SECOND)
    with ber.in_use():
        sender = Sender(ber.call)
        sender.connect()
        sender.push()
    with listened.hub.in_use():
        detection.log_changes(SILENCE)
    told = listened.told()
    assert told[-1] == ("asset.moved", "P-1", "BER-DOCK-2")
    assert len(told) < 5


def test_a_filter_by_the_location_of_the_site_covers_all_below_it(listened: Listened) -> None:
    ber = listened.ber
    ber.scan(ber.add_asset("P-1"), 0, listened.began)
    listened.told()
    [(berlin,)] = listened.hub.rows("SELECT id FROM location WHERE external_key = 'BER'")
    with listened.hub.in_use():
        of = listened.hub.organization_id
        [arrived] = [event for event in log.after(of, 0, 100) if event.kind == "asset.arrived"]
        assert log.Filter({"asset.arrived"}, berlin).kind_of(arrived) == "asset.arrived"


def test_a_restored_hub_tells_nothing_twice_that_is_as_it_was(listened: Listened) -> None:
    ber = listened.ber
    ber.scan(ber.add_asset("P-1"), 0, listened.began)
    listened.told()
    saved = listened.hub.back_up()
    ber.scan(ber.add_asset("P-2"), 1, listened.began + clock.SECOND)
    listened.told()
    listened.hub.restore(saved)
    assert ("asset.arrived", "P-1", "BER-DOCK-0") not in listened.told()
