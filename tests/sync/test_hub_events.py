"""A hub's webhook receives the events of its sites like the hub's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge.events import destinations, detection
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.outbound import Network
from edge.people import secrets
from edge.people.secrets import new_webhook_secret
from tests.chance import began
from tests.events.conftest import SILENCE, deliver, make_events
from tests.events.receiver import Receiver, receiving
from tests.sync.world import HOUR, SECOND, Hub, SiteBox


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

    def new_events(self) -> list[tuple[str, str | None, str | None]]:
        """Return the new events: kind, location, and previous location."""
        before = len(self.receiver.received)
        with self.hub.in_use():
            make_events()
            deliver(destinations.get(self.hub.organization_id, self.webhook))
        events = [one.event for one in self.receiver.received[before:]]
        assert {event["data"]["asset"]["external_key"] for event in events} <= {"P-1"}
        return [(event["type"], key_of(event, "location"), key_of(event, "previous_location")) for event in events]


def key_of(event: Any, name: str) -> str | None:
    """Return the key of a location in an event, or None."""
    return (event["data"].get(name) or {}).get("external_key")


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    with receiving() as receiver:
        yield Company(tmp_path, receiver)


def test_a_webhook_of_the_hub_follows_an_asset_across_sites(company: Company) -> None:
    ber, ham = company.ber, company.ham
    pallet = ber.add_asset("P-1", "AA01")
    ber.scan(pallet, 1, (began() - HOUR))
    ber.sync()
    assert company.new_events() == [("asset.created", None, None), ("asset.arrived", "BER-DOCK-1", None)]
    ber.scan(pallet, 2, (began() - HOUR) + 60 * SECOND)
    ber.sync()
    assert company.new_events() == [("asset.moved", "BER-DOCK-2", "BER-DOCK-1")]
    ham.fetch()
    [(there,)] = ham.rows("SELECT id FROM asset WHERE external_key = 'P-1'")
    ham.scan(there, 0, (began() - HOUR) + 600 * SECOND)
    ham.sync()
    assert company.new_events() == [("asset.moved", "HAM-DOCK-0", "BER-DOCK-2")]


def test_late_reads_make_no_event_and_batches_keep_their_order(company: Company) -> None:
    ber = company.ber
    pallet = ber.add_asset("P-1")
    ber.scan(pallet, 1, (began() - HOUR) + 100 * SECOND)
    ber.sync()
    company.new_events()
    ber.scan(pallet, 2, (began() - HOUR))  # read earlier, received later
    ber.sync()
    assert company.new_events() == []
    ber.scan(pallet, 2, (began() - HOUR) + 1000 * SECOND)
    ber.scan(pallet, 0, (began() - HOUR) + 1060 * SECOND)
    ber.sync()
    assert company.new_events() == [
        ("asset.moved", "BER-DOCK-2", "BER-DOCK-1"),
        ("asset.moved", "BER-DOCK-0", "BER-DOCK-2"),
    ]
