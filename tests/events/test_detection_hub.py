"""A hub logs the events of its sites like its own."""

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
    """A hub with event logging, and its site BER."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.ber = SiteBox(folder / "ber", "BER", self.hub)
        self.ber.join()
        self.ber.sync()
        self.began = clock.now() - HOUR
        with self.hub.in_use():
            detection.start(SILENCE)
        self._last_seq = 0

    def new_events(self) -> list[tuple[str, Any, Any]]:
        """Sync and return new events: kind, asset key, location key."""
        self.ber.sync()
        with self.hub.in_use():
            while detection.log_changes(SILENCE):
                pass
            events = log.after(self.hub.organization_id, self._last_seq, 100)
        self._last_seq = events[-1].seq if events else self._last_seq
        return [
            (event.kind, event.data["asset"]["external_key"], (event.data["location"] or {}).get("external_key"))
            for event in events
        ]


@pytest.fixture
def site_events(tmp_path: Path) -> Listened:
    return Listened(tmp_path)


def test_the_hub_logs_events_of_a_site_once(site_events: Listened) -> None:
    ber = site_events.ber
    pallet = ber.add_asset("P-1", "AA01")
    ber.scan(pallet, 0, site_events.began)
    assert site_events.new_events() == [("asset.created", "P-1", None), ("asset.arrived", "P-1", "BER-DOCK-0")]
    ber.scan(pallet, 1, site_events.began + 60 * clock.SECOND)
    ber.scan(pallet, 2, site_events.began + 120 * clock.SECOND)
    assert site_events.new_events() == [("asset.moved", "P-1", "BER-DOCK-1"), ("asset.moved", "P-1", "BER-DOCK-2")]
    ber.scan(pallet, 2, site_events.began + 130 * clock.SECOND)  # still there
    assert site_events.new_events() == []


def test_after_an_offline_period_the_hub_logs_current_locations(
    site_events: Listened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", 2)  # history follows positions in many batches
    ber = site_events.ber
    pallet = ber.add_asset("P-1")
    ber.scan(pallet, 0, site_events.began)
    site_events.new_events()
    for step in range(1, 21):
        ber.scan(pallet, step % 3, site_events.began + step * 60 * clock.SECOND)
    with ber.in_use():
        sender = Sender(ber.call)
        sender.connect()
        sender.push()
    with site_events.hub.in_use():
        detection.log_changes(SILENCE)
    events = site_events.new_events()
    assert events[-1] == ("asset.moved", "P-1", "BER-DOCK-2")
    assert len(events) < 5


def test_a_filter_by_the_site_includes_its_locations(site_events: Listened) -> None:
    ber = site_events.ber
    ber.scan(ber.add_asset("P-1"), 0, site_events.began)
    site_events.new_events()
    [(berlin,)] = site_events.hub.rows("SELECT id FROM location WHERE external_key = 'BER'")
    with site_events.hub.in_use():
        of = site_events.hub.organization_id
        [arrived] = [event for event in log.after(of, 0, 100) if event.kind == "asset.arrived"]
        assert log.Filter({"asset.arrived"}, berlin).kind_of(arrived) == "asset.arrived"


def test_a_restored_hub_repeats_no_unchanged_event(site_events: Listened) -> None:
    ber = site_events.ber
    ber.scan(ber.add_asset("P-1"), 0, site_events.began)
    site_events.new_events()
    saved = site_events.hub.back_up()
    ber.scan(ber.add_asset("P-2"), 1, site_events.began + clock.SECOND)
    site_events.new_events()
    site_events.hub.restore(saved)
    assert ("asset.arrived", "P-1", "BER-DOCK-0") not in site_events.new_events()
