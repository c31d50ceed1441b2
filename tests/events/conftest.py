"""A warehouse with two halls, and helpers to deliver its events."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from edge import clock
from edge.audit import actors
from edge.clock import SECOND
from edge.events import destinations, detection
from edge.events.delivery import Round
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.detection import Silence
from edge.events.family import Destination
from edge.events.log import KINDS, Filter
from edge.events.webhook import Webhook
from edge.events.worker import EventsPace
from edge.outbound import Network
from edge.people import secrets
from edge.people.secrets import new_webhook_secret
from edge.readers import readers
from edge.records import assets, locations
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.events.receiver import Receiver, receiving

SILENCE = Silence(24 * clock.HOUR, 15 * 60 * SECOND)
PACE = EventsPace(SILENCE, 7 * clock.DAY)
GAP = 300 * SECOND
TLS = ssl.create_default_context()  # slow to create, so only once


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


class Warehouse:
    """Halls `north` and `south`, each with a dock. Times are seconds after `began`."""

    def __init__(self, organization_id: int, prefix: str = "") -> None:
        self.organization_id = organization_id
        self.actor = actors.shell(organization_id)
        self.began = clock.now() - clock.HOUR
        self.places = {}
        for hall in ("north", "south"):
            parent = locations.create(self.actor, name=hall.title(), external_key=hall.upper())
            dock = locations.create(
                self.actor, name=f"Dock {hall}", external_key=f"DOCK-{hall.upper()}", parent_id=parent.id
            )
            self.places |= {hall: parent.id, f"{hall} dock": dock.id}
        self.reader = readers.add_reader(self.actor, name="Portal", topic=f"{prefix}portal", format="edge").id

    def add_asset(self, key: str) -> int:
        return assets.create(self.actor, name=f"Pallet {key}", external_key=key).id

    def seen(self, asset_id: int, place: str, second: int) -> None:
        self.record([(asset_id, place, second)])

    def record(self, sightings: Sequence[tuple[int, str, float]]) -> None:
        scans = [
            Scan(
                self.organization_id,
                asset_id,
                self.places[place],
                self.reader,
                None,
                self.began + round(second * SECOND),
                self.began + round(second * SECOND),
                Quality.READER,
            )
            for asset_id, place, second in sightings
        ]
        record(scans, GAP)

    def add_webhook(
        self, url: str, name: str = "ERP", kinds: tuple[str, ...] = KINDS, place: str | None = None
    ) -> Destination:
        event_filter = Filter(frozenset(kinds), self.places[place] if place else None)
        secret = secrets.seal(new_webhook_secret())
        new = NewDestination(DestinationKind.WEBHOOK, name, url, secret, event_filter, Network.LOOPBACK)
        return destinations.add(self.actor, new)

    def again(self, row: Destination) -> Destination:
        return destinations.get(self.organization_id, row.no)


@pytest.fixture
def warehouse(cast: Cast) -> Warehouse:
    made = Warehouse(cast.acme)
    detection.start(SILENCE)
    return made


def make_events() -> None:
    while detection.log_changes(SILENCE):
        pass


def deliver(row: Destination, network: Network | None = None) -> None:
    """Run rounds until no event is due."""
    secret = secrets.unseal(row.secret)
    with closing(Webhook(row.url, secret, network or row.network, TLS)) as sender:
        while Round(row, sender, threading.Event(), is_note_due=True).run():
            row = destinations.get(row.organization_id, row.no)
