"""Whoever a hub tells of events hears of what its sites see, as of what it sees itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.events import destinations, detection
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.outbound import Network
from edge.people import secrets
from edge.people.secrets import new_webhook_secret
from tests.events.conftest import SILENCE, deliver, make_events
from tests.events.receiver import Receiver, receiving
from tests.sync.world import HOUR, SECOND, Hub, SiteBox

BEGAN = clock.now() - HOUR


class Company:
    """A hub with a webhook, and two sites."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.receiver = receiver
        with self.hub.in_use():
            new = NewDestination(
                *(DestinationKind.WEBHOOK, "ERP", receiver.url, secrets.seal(new_webhook_secret())),
                Filter(frozenset(KINDS)),
                Network.LOOPBACK,
            )
            self.webhook = destinations.add(self.hub.actor, new).no
            detection.start(SILENCE)
        self.ber, self.ham = (SiteBox(folder / code, code, self.hub) for code in ("BER", "HAM"))
        for site in (self.ber, self.ham):
            site.join()
            site.sync()

    def told(self) -> list[tuple[str, str | None, str | None]]:
        """What came since the last time: kind, location, and where it was before."""
        before = len(self.receiver.received)
        with self.hub.in_use():
            make_events()
            deliver(destinations.get(self.hub.organization_id, self.webhook))
        found = [one.told for one in self.receiver.received[before:]]
        assert {told["data"]["asset"]["external_key"] for told in found} <= {"P-1"}
        return [(told["type"], key_of(told, "location"), key_of(told, "previous_location")) for told in found]


def key_of(told: Any, name: str) -> str | None:
    """Of a location that an event names; none for some kinds."""
    return (told["data"].get(name) or {}).get("external_key")


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    with receiving() as receiver:
        yield Company(tmp_path, receiver)


def test_a_webhook_of_the_hub_follows_an_asset_through_the_sites(company: Company) -> None:
    ber, ham = company.ber, company.ham
    pallet = ber.add_asset("P-1", "AA01")
    ber.scan(pallet, 1, BEGAN)
    ber.sync()
    assert company.told() == [("asset.created", None, None), ("asset.arrived", "BER-DOCK-1", None)]
    ber.scan(pallet, 2, BEGAN + 60 * SECOND)
    ber.sync()
    assert company.told() == [("asset.moved", "BER-DOCK-2", "BER-DOCK-1")]
    ham.fetch()
    [(there,)] = ham.rows("SELECT id FROM asset WHERE external_key = 'P-1'")
    ham.scan(there, 0, BEGAN + 600 * SECOND)
    ham.sync()
    assert company.told() == [("asset.moved", "HAM-DOCK-0", "BER-DOCK-2")]


def test_what_a_site_read_late_moves_nothing_and_what_comes_in_one_batch_is_told_in_order(company: Company) -> None:
    ber = company.ber
    pallet = ber.add_asset("P-1")
    ber.scan(pallet, 1, BEGAN + 100 * SECOND)
    ber.sync()
    company.told()
    ber.scan(pallet, 2, BEGAN)  # read before, heard after
    ber.sync()
    assert company.told() == []
    ber.scan(pallet, 2, BEGAN + 1000 * SECOND)
    ber.scan(pallet, 0, BEGAN + 1060 * SECOND)
    ber.sync()
    assert company.told() == [
        ("asset.moved", "BER-DOCK-2", "BER-DOCK-1"),
        ("asset.moved", "BER-DOCK-0", "BER-DOCK-2"),
    ]
