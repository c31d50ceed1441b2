"""A box with an upstream that is not edge, and the comparison of both ends."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edge import clock, listeners
from edge.database import connection
from edge.events.checked_connection import trust
from edge.outbound import Network
from edge.people import secrets
from edge.upstream import rounds, upstreams
from edge.upstream.answers import Away
from edge.upstream.client import Access, Client
from edge.upstream.upstreams import NewUpstream, Upstream
from tests.sync.world import Box
from tests.upstream.strict_records import Body, Records, Row
from tests.upstream.strict_service import CLIENT_ID, SECRET, StrictService
from tests.upstream.world import Clock

_RECORDS = {
    "assets": "SELECT id, external_key, name, description, is_active, valid_from, valid_to, metadata, NULL FROM asset "
    "WHERE deleted_at IS NULL",
    "locations": "SELECT l.id, l.external_key, l.name, l.description, l.is_active, l.valid_from, l.valid_to, NULL, "
    "p.external_key FROM location l LEFT JOIN location p ON p.id = l.parent_id WHERE l.deleted_at IS NULL",
}
_TAGS = "SELECT tag_type, value FROM tag WHERE {}_id = {} AND deleted_at IS NULL"


class StrictSender:
    """Rounds are called by the test, without a thread. The database of the box is open."""

    def __init__(self, box: Box, service: StrictService, time: Clock, authority: Path | None = None) -> None:
        self.box, self.service, self.actor, self.clock = box, service, box.actor, time
        self.access = Access(service.url, Network.LOOPBACK, CLIENT_ID, SECRET)
        upstreams.add(self.actor, NewUpstream(*self.access[:3], secrets.seal(SECRET)))
        self.client = Client(self.access, trust(authority))

    @property
    def records(self) -> Records:
        return self.service.records

    @property
    def row(self) -> Upstream:
        return upstreams.get(self.actor.organization_id)

    def advance(self, micros: int) -> None:
        """Advance the clocks of both ends."""
        self.clock.advance(micros)
        self.records.ahead += timedelta(microseconds=micros)

    def settle(self, most: int = 500) -> int:
        """Work until nothing is left to do. Returns the number of rounds."""
        for number in range(most):
            if not rounds.run(self.client, self.row):
                return number
        raise AssertionError("it never ends")

    def persist(self, most: int = 500) -> list[str]:
        """Work like the thread, also when the service is away, but without pauses. Returns the errors."""
        errors: list[str] = []
        for _ in range(most):
            try:
                if not rounds.run(self.client, self.row):
                    return errors
            except Away as error:
                errors.append(str(error))
                upstreams.note_failure(self.row, str(error), error.wait_seconds)
        raise AssertionError(f"it never ends: {errors[-3:]}")

    def settle_again(self) -> None:
        """Compare all records, and check all troubles again."""
        self.advance(clock.HOUR)
        upstreams.retry(self.actor)
        self.settle()

    def troubles(self) -> dict[int, str]:
        """Return the troubles by record."""
        sql = "SELECT record_id, trouble_kind || ': ' || trouble FROM upstream_record WHERE trouble IS NOT NULL"
        return dict(self.box.rows(sql))

    def here(self, without: frozenset[int] = frozenset()) -> dict[tuple[str, str], Any]:
        """Return live records by kind and key, except some ids."""
        found = {}
        for kind, sql in _RECORDS.items():
            for record_id, key, name, description, is_active, begins, ends, metadata, parent in self.box.rows(sql):
                if record_id in without:
                    continue
                tags = {tuple(row) for row in self.box.rows(_TAGS.format(kind[:-1], record_id))}
                window = (begins // 1000, ends and ends // 1000)
                values = (name, description, bool(is_active), window, metadata and json.loads(metadata), parent)
                found[kind, key] = (values, tags)
        return found

    def there(self) -> dict[tuple[str, str], Any]:
        return {(kind, row.key): _shown(row) for kind, rows in self.records.rows.items() for row in rows.values()}

    def assert_equal(self) -> None:
        assert self.troubles() == {}
        assert self.there() == self.here()


def _shown(row: Row) -> Any:
    values: Body = row.values
    window = tuple(
        values[name] and clock.to_micros(datetime.fromisoformat(values[name])) // 1000
        for name in ("valid_from", "valid_to")
    )
    shown = (values["name"], values["description"], values["is_active"], window, values.get("metadata"))
    tags = {(tag["tag_type"], tag["value"]) for tag in row.tags}
    return (*shown, row.parent.key if row.parent else None), tags


@contextlib.contextmanager
def strict_sender(
    folder: Path, monkeypatch: pytest.MonkeyPatch, service: StrictService, authority: Path | None = None
) -> Iterator[StrictSender]:
    """Run a service, and make a box with it as upstream."""
    listeners.connect()
    box = Box(folder / "box", "box")
    with service.running(), box.in_use():
        sender = StrictSender(box, service, Clock(monkeypatch), authority)
        try:
            yield sender
        finally:
            sender.client.close()
    connection.close_database()
