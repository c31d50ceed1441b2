"""What a webhook has sent, with its error declarations applied, equals what the query returns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.audit.actors import Actor, person, shell
from edge.clock import DAY
from edge.database.connection import execute, writing
from edge.epcis import query, subscriptions
from edge.epcis.names import Names
from edge.epcis.sources import Query
from edge.events import destinations, log
from edge.events.destinations import EPCIS_KINDS, BodyFormat, Destination, DestinationKind, NewDestination
from edge.events.log import EventKind, Filter
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import people, secrets
from edge.people.people import Role
from edge.readers import readers
from edge.records import assets, locations
from edge.tracking import carriers, deletion
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast

SECOND = 1_000_000
EPOCH = 1_700_000_000 * SECOND
GAP = 300 * SECOND
BASE = "http://box"
UTC = ZoneInfo("UTC")


class Partner:
    """A subscriber that keeps the last state of each event."""

    def __init__(self, row: Destination) -> None:
        self.row = row
        self.seq = row.position
        self.events: dict[str, dict[str, Any]] = {}

    def receive(self, most: int = 1_000) -> None:
        for event in log.after(self.row.organization_id, self.seq, most):
            self.seq = event.seq
            if destinations.event_filter(self.row).kind_of(event) is None:
                continue
            body = subscriptions.body(self.row, event, BASE, UTC)
            for one in json.loads(body)["epcisBody"]["queryResults"]["resultsBody"]["eventList"] if body else ():
                self.events[one["eventID"]] = one


def add_webhook(actor: Actor, name: str = "ERP") -> Destination:
    new = NewDestination(
        DestinationKind.WEBHOOK,
        name,
        "https://erp.example.com/epcis",
        secrets.seal(secrets.new_webhook_secret()),
        Filter(EPCIS_KINDS),
        body_format=BodyFormat.EPCIS,
    )
    return destinations.add(actor, new)


class Yard:
    """Assets that move, by any door into history. Moments are few, so that many things happen at once."""

    partner: Partner

    def __init__(self, organization_id: int) -> None:
        self.organization_id = organization_id
        self.actor = shell(organization_id)
        self.ann = person(organization_id, people.add_person(self.actor, "Ann", Role.OPERATOR).id, "Ann")
        self.reader = readers.add_reader(self.actor, name="Portal", topic="portal", format="edge").id
        self.places = [locations.create(self.actor, name=f"Dock {number}").id for number in range(3)]
        with writing():
            (self.door,) = execute(
                "INSERT INTO door (organization_id, name, location_id, created_at) VALUES (?, 'Gate', ?, 0) "
                "RETURNING id",
                (organization_id, self.places[0]),
            ).fetchone()
        self.number = 0
        self.begin([])

    def subscribe(self) -> Yard:
        """Add a webhook that sends EPCIS."""
        self.partner = Partner(add_webhook(self.actor))
        subscriptions.log_changes(is_needed=True)
        return self

    def begin(self, scans_made: list[str]) -> None:
        """Go on with new assets."""
        self.assets = [assets.create(self.actor, name="Pallet").id for _ in range(3)]
        self.scans = scans_made

    def look(self) -> None:
        while subscriptions.log_changes(is_needed=True):
            pass

    def read(self, which: int, place: int, at: int) -> None:
        self._record([(which, place, at)])

    def batch(self, which: int, place: int, at: int) -> None:
        steps = [(0, 0), (1, 7), (0, 40), (2, 400), (1, 401)]
        self._record([(which, (place + more) % 3, at + seconds * SECOND) for more, seconds in steps])

    def _record(self, reads: Sequence[tuple[int, int, int]]) -> None:
        record(
            [
                Scan(self.organization_id, self.assets[which], self.places[place], self.reader, 1, at, at + SECOND,
                     Quality.READER)
                for which, place, at in reads
                if self._is_live(which)
            ],
            GAP,
        )  # fmt: skip

    def hand(self, which: int, place: int, at: int, *, onto: int | None = None, is_off: bool = False) -> None:
        self.number += 1
        key = assets.get(self.organization_id, self.assets[which]).external_key if self._is_live(which) else "gone"
        one = Submitted(f"{self.number:026}", key, self.places[place], at, onto=onto, is_off=is_off)
        scans.submit(self.ann, [one], EPOCH + DAY)
        self.scans.append(one.id)

    def load(self, which: int, place: int, at: int) -> None:
        self.hand(which, place, at, onto=self.assets[(which + 1) % 3])

    def unload(self, which: int, place: int, at: int) -> None:
        self.hand(which, place, at, is_off=True)

    def undo(self, which: int, place: int, _at: int) -> None:
        if self.scans:
            scans.undo(self.ann, self.scans.pop((which * 3 + place) % len(self.scans)), GAP)

    def retire(self, which: int, _place: int, _at: int) -> None:
        if self._is_live(which):
            assets.delete(self.actor, self.assets[which])
        else:
            assets.restore(self.actor, self.assets[which])

    def passed(self, which: int, place: int, at: int) -> None:
        """Record a passage. A door has one of an asset at a moment."""
        if not execute("SELECT 1 FROM passage WHERE asset_id = ? AND at = ?", (self.assets[which], at)).fetchone():
            execute(
                "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
                "outer_reads, since, until, decided_at) VALUES (?, ?, ?, ?, ?, 900, 1, 1, ?, ?, ?)",
                (self.organization_id, self.door, self.assets[which], at, place, at, at, at),
            )

    def decide(self, which: int, place: int, at: int) -> None:
        """Decide about the last passage again: time and direction."""
        execute(
            "UPDATE passage SET at = at + ?1, revision = revision + (direction <> ?2), direction = ?2 "
            "WHERE no = (SELECT max(no) FROM passage WHERE asset_id = ?3)",
            (at // SECOND % 7 * SECOND, place, self.assets[which]),
        )

    def _is_live(self, which: int) -> bool:
        return bool(execute("SELECT deleted_at IS NULL FROM asset WHERE id = ?", (self.assets[which],)).fetchone()[0])

    def act(self, action: str, which: int, place: int, at: int) -> None:
        getattr(self, action)(which, place, at)


def queried(organization_id: int, **filters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    names, place = Names(organization_id, BASE), None
    while True:
        more, place = query.page(organization_id, Query(**filters), names, UTC, place, 1_000)
        found += more
        if place is None:
            return found


def assert_same(yard: Yard) -> None:
    """Compare the events of the current assets."""
    yard.look()
    yard.partner.receive()
    names = {f"{BASE}/assets/{asset}" for asset in yard.assets}
    sent = {key: _shown(event) for key, event in yard.partner.events.items() if names.intersection(_moved(event))}
    assert sent == by_id(queried(yard.organization_id, assets=set(yard.assets)))


def by_id(events: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return events by id. Several rows can have the same event, but it is either right or wrong."""
    shown: dict[str, dict[str, Any]] = {}
    for event in events:
        same = shown.setdefault(event["eventID"], _shown(event))
        assert ("errorDeclaration" in same) == ("errorDeclaration" in event), "both right and wrong"
    return shown


def _moved(event: dict[str, Any]) -> list[str]:
    names: list[str] = event.get("epcList") or event["childEPCs"]
    return names


def _shown(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without the time of receipt: several rows can have the same event."""
    return {name: value for name, value in event.items() if name != "recordTime"}


@pytest.fixture
def yard(cast: Cast) -> Yard:
    return Yard(cast.acme).subscribe()


ACTIONS = ("read", "read", "batch", "hand", "hand", "load", "unload", "undo", "undo", "retire", "passed", "decide")
MOMENTS = st.builds(
    lambda step, micros: EPOCH + step * 50 * SECOND + micros, st.integers(0, 30), st.sampled_from((0, 1, 1_500))
)
STEP = st.tuples(st.sampled_from((*ACTIONS, "look", "receive")), st.integers(0, 2), st.integers(0, 2), MOMENTS)
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
Steps = Sequence[tuple[str, int, int, int]]


def check(yard: Yard, steps: Steps) -> None:
    yard.begin([])
    for action, which, place, at in steps:
        if action == "look":
            yard.look()
        elif action == "receive":
            yard.partner.receive(most=1 + which)
        else:
            yard.act(action, which, place, at)
    assert_same(yard)


@settings(SETTINGS, max_examples=60)
@given(st.lists(STEP, max_size=30))
def test_a_webhook_and_the_query_have_the_same_events(yard: Yard, steps: Steps) -> None:
    check(yard, steps)


@pytest.mark.long
@pytest.mark.slow
@settings(SETTINGS, max_examples=75)
@given(st.lists(STEP, min_size=6, max_size=45))
def test_they_have_the_same_events_after_long_histories(yard: Yard, steps: Steps) -> None:
    check(yard, steps)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([("hand", 0, 0, 1), ("undo", 0, 0, 0)], id="the first scan undone"),
        pytest.param([("hand", 0, 0, 5), ("look", 0, 0, 0), ("hand", 0, 1, 1)], id="a scan that arrives late"),
        pytest.param([("read", 0, 0, 1), ("read", 0, 0, 4), ("look", 0, 0, 0), ("read", 0, 1, 2)], id="a stay split"),
        pytest.param([("hand", 0, 0, 1), ("load", 1, 0, 2), ("unload", 1, 0, 3)], id="on a carrier and off"),
        pytest.param([("hand", 0, 0, 1), ("load", 0, 0, 2), ("look", 0, 0, 0), ("undo", 0, 1, 0)], id="a load undone"),
        pytest.param([("read", 0, 0, 4), ("look", 0, 0, 0), ("read", 0, 0, 2)], id="a stay that began earlier"),
        pytest.param([("passed", 0, 1, 1), ("look", 0, 0, 0), ("decide", 0, 2, 3)], id="a passage later and outward"),
        pytest.param(
            [("load", 0, 0, 1), ("unload", 0, 0, 2), ("look", 0, 0, 0), ("undo", 0, 1, 0)], id="an unload undone"
        ),
    ],
)
def test_corrections(yard: Yard, steps: Sequence[tuple[str, int, int, int]]) -> None:
    for action, which, place, minute in steps:
        if action == "look":
            yard.look()
            yard.partner.receive()
        else:
            yard.act(action, which, place, EPOCH + minute * 60 * SECOND)
    assert_same(yard)
    assert yard.partner.events


def test_carriers_without_a_scan_at_that_moment(yard: Yard) -> None:
    carriers.load(yard.ann, yard.assets[1], yard.assets[0], EPOCH)
    assert_same(yard)
    carriers.unload_all(yard.organization_id, yard.assets[1], EPOCH + SECOND)
    assert_same(yard)
    assert [event["action"] for event in yard.partner.events.values()] == ["ADD", "DELETE"]


def test_an_event_that_went_before_it_was_logged_is_never_sent(yard: Yard) -> None:
    yard.read(0, 0, EPOCH)
    yard.look()
    track = execute("SELECT no FROM track WHERE asset_id = ?", (yard.assets[0],)).fetchone()[0]
    yard.read(1, 1, EPOCH)
    source = execute("SELECT no FROM source WHERE location_id = ?", (yard.places[1],)).fetchone()[0]
    execute("INSERT INTO history VALUES (?, ?, 9, 0, ?, 0, 0, NULL, 0)", (track, EPOCH, source))
    yard.partner.receive()
    assert yard.partner.events == {}, "another change of this moment is not logged yet"
    execute("DELETE FROM history WHERE seq = 9")
    assert_same(yard)
    assert execute("SELECT count(*) FROM epcis_withdrawn").fetchone() == (0,)


def test_a_corrected_location_replaces_its_events(yard: Yard) -> None:
    yard.read(0, 0, EPOCH)
    yard.read(1, 1, EPOCH)
    yard.look()
    yard.partner.receive()
    source = execute("SELECT no FROM source WHERE location_id = ?", (yard.places[1],)).fetchone()[0]
    execute("UPDATE history SET source_no = ?", (source,))
    assert_same(yard)
    errors = [event for event in yard.partner.events.values() if "errorDeclaration" in event]
    assert [event["bizLocation"]["id"] for event in errors] == [f"{BASE}/locations/{yard.places[0]}"]


def test_events_deleted_by_age_are_no_errors(yard: Yard) -> None:
    for minute in range(4):
        yard.read(0, minute % 2, EPOCH + minute * 600 * SECOND)
    yard.load(0, 0, EPOCH + 3_000 * SECOND)
    yard.unload(0, 0, EPOCH + 3_100 * SECOND)
    yard.look()
    yard.partner.receive()
    assert deletion.drop_history(EPOCH + DAY)
    yard.look()
    yard.partner.receive()
    assert execute("SELECT count(*) FROM epcis_withdrawn").fetchone() == (0,)
    assert deletion.drop_old_records("records", EPOCH + 2 * DAY)
    yard.look()
    yard.partner.receive()
    assert [event for event in yard.partner.events.values() if "errorDeclaration" in event] == []
    assert execute("SELECT count(*) FROM epcis_withdrawn").fetchone() == (0,)
    assert execute("SELECT is_forgetting FROM epcis").fetchone() == (0,)


def test_errors_are_deleted_by_age(yard: Yard) -> None:
    yard.read(0, 0, EPOCH + 600 * SECOND)
    yard.look()
    yard.read(0, 0, EPOCH + 500 * SECOND)
    yard.look()
    assert execute("SELECT count(*) FROM epcis_withdrawn").fetchone() == (1,)
    deletion.drop_old_records("records", EPOCH + DAY)
    assert execute("SELECT count(*) FROM epcis_withdrawn").fetchone() == (0,)


def test_without_such_a_webhook_nothing_is_noted(yard: Yard) -> None:
    subscriptions.log_changes(is_needed=False)
    yard.read(0, 0, EPOCH)
    assert execute("SELECT count(*) FROM change").fetchone() == (0,)
    assert execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'change_epcis_%'").fetchone() == (0,)


def test_many_moments_of_an_asset_are_few_messages(yard: Yard) -> None:
    for step in range(150):
        yard.read(0, step % 2, EPOCH + step * 400 * SECOND)
    yard.look()
    logged = [event for event in log.after(yard.organization_id, 0, 500) if event.kind is EventKind.ASSET_HISTORY]
    assert len(logged) == 2
    assert_same(yard)
