"""A site with a door between two antennas, and its hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.database import connection
from edge.database.connection import writing
from edge.doors import doors
from edge.doors.doors import DoorAntenna
from edge.doors.passage_rule import Side
from edge.doors.passages import DoorReads
from tests.doors.site import GateRead
from tests.sync.world import EPOCH, SECOND, Hub, SiteBox


@pytest.fixture
def ber(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteBox:
    monkeypatch.setitem(connection.PRAGMAS, "synchronous", "off")
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1")
    with site.in_use():
        door = doors.add_door(site.actor, "Dock 4", site.docks[0])
        sides = [DoorAntenna(Side.INNER, site.reader_id, 1), DoorAntenna(Side.OUTER, site.reader_id, 2)]
        doors.set_antennas(site.actor, door, sides)
    return site


def read(site: SiteBox, reads: list[GateRead]) -> None:
    with site.in_use(), writing():
        at_door = DoorReads()
        at_door.refresh()
        for one in reads:
            at_door.note(at_door.of(site.reader_id, one.port), site.pallet, EPOCH + round(one.at * SECOND), one.rssi)
        at_door.record()
