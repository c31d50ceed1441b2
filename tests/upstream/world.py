"""A box with an upstream, and the comparison of both ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import Actor
from edge.database.connection import FILE_NAME, open_database
from edge.outbound import Network
from edge.people import secrets
from edge.records import assets, locations
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from edge.upstream import rounds, upstreams
from edge.upstream.client import Client
from edge.upstream.upstreams import NewUpstream, Upstream
from tests.sync.world import Box
from tests.upstream.service import Service

_ASSETS = (
    "SELECT a.external_key, a.name, a.description, a.is_active, json(a.metadata), a.valid_from / 1000, "
    "a.valid_to / 1000, (SELECT json_group_array(tag_type || ':' || value) FROM (SELECT * FROM tag "
    "WHERE asset_id = a.id AND deleted_at IS NULL ORDER BY tag_type, value)) FROM asset a "
    "WHERE a.deleted_at IS NULL ORDER BY 1"
)
_LOCATIONS = (
    "SELECT l.external_key, l.name, l.description, l.is_active, p.external_key, l.valid_from / 1000, "
    "l.valid_to / 1000, (SELECT json_group_array(tag_type || ':' || value) FROM (SELECT * FROM tag "
    "WHERE location_id = l.id AND deleted_at IS NULL ORDER BY tag_type, value)) FROM location l "
    "LEFT JOIN location p ON p.id = l.parent_id WHERE l.deleted_at IS NULL ORDER BY 1"
)


class Clock:
    """A clock that runs, and that a test can advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead, self._now = 0, clock.now
        monkeypatch.setattr(clock, "now", lambda: self._now() + self._ahead)

    def advance(self, micros: int) -> None:
        self._ahead += micros


class Sender:
    """Rounds are called by the test, without a thread. The database of the box is open."""

    def __init__(self, box: Box, service: Service, clock: Clock) -> None:
        self.box, self.service, self.actor, self.clock = box, service, box.actor, clock
        self.add_service()
        self.client: Client = service.client()

    def add_service(self) -> None:
        access = self.service.access
        sealed = secrets.seal(access.secret)
        upstreams.add(self.actor, NewUpstream(access.url, Network.LOOPBACK, access.client_id, sealed))

    @property
    def row(self) -> Upstream:
        return upstreams.get(self.actor.organization_id)

    def settle(self, most: int = 1000) -> int:
        """Work until nothing is left to do. Returns the number of rounds."""
        for number in range(most):
            if not rounds.run(self.client, self.row):
                return number
        raise AssertionError("it never ends")

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Open the database of the service, for what others do there."""
        with self.service.in_use():
            yield
        open_database(self.box.folder / FILE_NAME)

    def troubles(self) -> list[str]:
        return [f"{kind}: {text}" for kind, text in self.box.rows(_TROUBLES)]

    def assert_equal(self) -> None:
        assert self.troubles() == [], self.troubles()
        assert self.contents(self.service) == self.contents(self.box)

    def contents(self, box: Box) -> list[list[tuple[Any, ...]]]:
        """Return all live assets and locations, without ids."""
        return [box.rows(sql) for sql in (_ASSETS, _LOCATIONS)]

    def there(self, key: str) -> tuple[str, int] | None:
        """Return name and id of a live asset of the service."""
        sql = f"SELECT name, id FROM asset WHERE external_key = '{key}' AND deleted_at IS NULL"
        rows = self.service.rows(sql)
        return (rows[0][0], rows[0][1]) if rows else None


_TROUBLES = "SELECT trouble_kind, trouble FROM upstream_record WHERE trouble IS NOT NULL ORDER BY record_id"


def scenario(actor: Actor) -> list[Callable[[], object]]:
    """Return steps of people; each is done after the one before has been written, or after a death."""

    def first() -> None:
        hall = locations.create(actor, name="Hall", external_key="HALL")
        locations.create(actor, name="Row", external_key="ROW", parent_id=hall.id)
        assets.create(actor, name="Pallet", external_key="P-1", tags=[NewTag("rfid", "E1"), NewTag("rfid", "E2")])
        later = clock.now() + clock.DAY
        assets.create(actor, name="Later", external_key="P-2", valid_from=later)

    def second() -> None:
        row = asset_of(actor, "P-1")
        assets.patch(actor, row.id, {"name": "Box", "description": "x"})
        assets.rename(actor, row.id, "B-1")
        assets.detach_tag(actor, row.id, row.tags[0].id)
        assets.attach_tag(actor, row.id, NewTag("rfid", "E3"))

    def third() -> None:
        row = asset_of(actor, "B-1")
        assets.patch(actor, row.id, {"name": "Crate"})
        assets.attach_tag(actor, row.id, NewTag("rfid", "E1"))

    def fourth() -> None:
        assets.delete(actor, asset_of(actor, "B-1").id)
        assets.create(actor, name="New", external_key="B-1", tags=[NewTag("rfid", "E3")])

    return [first, second, third, fourth]


def asset_of(actor: Actor, key: str) -> assets.AssetRow:
    [row] = assets.list_page(actor.organization_id, RecordFilter([key]), limit=1).rows
    return row
