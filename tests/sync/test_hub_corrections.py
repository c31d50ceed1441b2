"""Corrections of an antenna's location at a site reach its hub and the hub's webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge import clock
from edge.readers.location_corrections import Correction, correct
from tests.chance import began
from tests.events.receiver import receiving
from tests.sync.test_hub_events import Company
from tests.sync.world import GAP, HOUR, SECOND, assert_equal

PLACES = """
SELECT l.external_key FROM history h JOIN source s ON s.no = h.source_no JOIN location l ON l.id = s.location_id
"""


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    with receiving() as receiver:
        yield Company(tmp_path, receiver)


def test_a_correction_at_a_site_reaches_the_hub(company: Company) -> None:
    ber = company.ber
    pallet = ber.add_asset("P-1", "AA01")
    for number in range(6):
        ber.scan(pallet, 1 + number % 2, (began() - HOUR) + number * 60 * SECOND)
    ber.sync()
    assert company.new_events()[-1] == ("asset.moved", "BER-DOCK-2", "BER-DOCK-1")
    correction = Correction(ber.reader_id, None, ber.docks[2], ber.docks[0], (began() - HOUR), clock.now())
    with ber.in_use():
        assert correct(ber.actor, correction, GAP).rows == 3
    ber.sync()
    assert_equal(ber)
    assert {key for (key,) in company.hub.rows(PLACES)} == {"BER-DOCK-0", "BER-DOCK-1"}
    assert company.new_events() == [("asset.moved", "BER-DOCK-0", "BER-DOCK-2")]


def test_joined_stays_are_joined_at_the_hub(company: Company) -> None:
    """One stay joins a sent one, another joins an unsent one, and the newest continues."""
    ber = company.ber
    pallet = ber.add_asset("P-1", "AA01")
    for number in range(6):
        ber.scan(pallet, 1 + number % 2, (began() - HOUR) + number * 60 * SECOND)
    ber.sync()
    ber.scan(pallet, 1, (began() - HOUR) + 360 * SECOND)
    correction = Correction(ber.reader_id, None, ber.docks[2], ber.docks[1], (began() - HOUR), clock.now())
    with ber.in_use():
        assert correct(ber.actor, correction, GAP).rows == 3
    ber.scan(pallet, 1, (began() - HOUR) + 420 * SECOND)
    ber.sync()
    assert_equal(ber)
    assert company.hub.rows(f"{PLACES} ORDER BY h.observed_at") == [("BER-DOCK-1",)]
    ber.scan(pallet, 0, (began() - HOUR) + 480 * SECOND)
    ber.sync()
    assert_equal(ber)
    assert company.hub.rows(f"{PLACES} ORDER BY h.observed_at") == [("BER-DOCK-1",), ("BER-DOCK-0",)]
