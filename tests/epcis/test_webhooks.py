"""Webhooks with EPCIS bodies: the events of `GET /epcis/events`, with the same ids, as they become known."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from edge.clock import DAY, HOUR, rfc3339
from edge.database.connection import execute
from edge.epcis import query, sources, subscriptions
from edge.epcis.names import Names
from edge.epcis.sources import Query
from edge.errors import HistoryUnavailable, Invalid
from edge.events import destinations, detection
from edge.events.delivery import Message, Outcome, Result, Round
from edge.events.destinations import EPCIS_KINDS, BodyFormat, Destination, DestinationKind, NewDestination
from edge.events.detection import Silence
from edge.events.log import KINDS, Filter
from edge.events.worker import Epcis, EventsPace, EventsWorker
from edge.handhelds import scans
from edge.outbound import Network
from edge.people import api_keys, secrets
from edge.people.secrets import new_webhook_secret
from edge.tracking import tracked_people
from edge.tracking.tracked_people import PeopleSetting
from tests.conftest import Cast
from tests.epcis.test_epcis import Site, events
from tests.events.receiver import receiving
from tests.feed.test_feed import EPOCH, GAP, Box, box_of
from tests.tracking.postgres.copies import copied_stays

BASE = "http://localhost"
UTC = ZoneInfo("UTC")
SILENCE = Silence(100 * 365 * DAY, HOUR)  # the scans of `Site` are years ago


def make_events() -> None:
    while detection.log_changes(SILENCE) or subscriptions.log_changes(is_needed=True):
        pass


def events_in(document: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = document["epcisBody"]["queryResults"]["resultsBody"]["eventList"]
    return listed


class Receiver:
    """A sender that keeps what it is given."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.outcome = Outcome(Result.DELIVERED, "")

    def send(self, message: Message) -> Outcome:
        self.bodies.append(json.loads(message.body))
        return self.outcome

    def close(self) -> None: ...

    @property
    def events(self) -> list[dict[str, Any]]:
        return [
            event for body in self.bodies for event in body["epcisBody"]["queryResults"]["resultsBody"]["eventList"]
        ]


@pytest.fixture
def box(cast: Cast, history: str) -> Box:
    return box_of(cast.acme, api_keys.SCOPES)._replace(history=history)


@pytest.fixture(autouse=True)
def _read_there(history: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make bodies from the stays in PostgreSQL, too."""
    make = subscriptions.body

    def body(*values: Any) -> bytes | None:
        with copied_stays(history):
            return make(*values)

    monkeypatch.setattr(subscriptions, "body", body)


@pytest.fixture
def site(box: Box) -> Site:
    detection.start(SILENCE)
    subscriptions.log_changes(is_needed=True)
    return Site(box.organization_id)


def add(site: Site, url: str = "https://erp.example.com/epcis", **changes: Any) -> Destination:
    new = NewDestination(
        DestinationKind.WEBHOOK,
        "ERP",
        url,
        secrets.seal(new_webhook_secret()),
        Filter(EPCIS_KINDS),
        Network.LOOPBACK,
        body_format=BodyFormat.EPCIS,
    )
    return destinations.add(site.actor, new._replace(**changes))


def deliver(row: Destination) -> Receiver:
    """Run rounds until no event is due."""
    make_events()
    receiver = Receiver()

    def make_body(to: Destination, event: Any, _kind: str) -> bytes | None:
        return subscriptions.body(to, event, BASE, UTC)

    again = destinations.get(row.organization_id, row.no)
    while Round(again, receiver, threading.Event(), make_body, is_note_due=True).run():
        again = destinations.get(row.organization_id, row.no)
    return receiver


def test_moves_are_sent_with_the_ids_of_the_query(box: Box, site: Site) -> None:
    row = add(site)
    site.see(0, 0, 1)
    site.see(0, 1, 2)
    receiver = deliver(row)
    assert [event["eventTime"] for event in receiver.events] == [rfc3339(EPOCH + hour * HOUR) for hour in (1, 2)]
    assert receiver.events == events(box)
    assert {body["type"] for body in receiver.bodies} == {"EPCISQueryDocument"}
    assert {body["epcisBody"]["queryResults"]["subscriptionID"] for body in receiver.bodies} == {"ERP"}


def test_other_events_of_the_log_are_not_sent(site: Site) -> None:
    row = add(site)
    site.rename()
    site.see(0, 0, 1)
    site.delete()
    assert len(deliver(row).bodies) == 1
    assert destinations.count_waiting(destinations.get(row.organization_id, row.no)) == 0


def test_an_undone_scan_is_declared_as_an_error_of_its_event(box: Box, site: Site) -> None:
    row = add(site)
    site.see(0, 0, 1)
    site.see(0, 1, 2)
    wrong = deliver(row).events[-1]
    scans.undo(site.ann, site.scans[-1], GAP)
    declared = [event for event in deliver(row).events if "errorDeclaration" in event]
    assert [event["eventID"] for event in declared] == [wrong["eventID"]]
    assert declared == events(box, EXISTS_errorDeclaration="true")


def test_a_passage_that_was_decided_anew_is_corrected(box: Box, site: Site) -> None:
    row = add(site)
    site.passage(1, 1)
    first = deliver(row).events
    execute("UPDATE passage SET direction = 2, revision = 1, decided_at = decided_at + 1000000")
    second = deliver(row).events
    assert [event["bizStep"] for event in first] == ["arriving"]
    assert [event["eventID"] for event in second if "errorDeclaration" in event] == [first[0]["eventID"]]
    assert [event["bizStep"] for event in second if "errorDeclaration" not in event] == ["departing"]
    assert sorted(map(str, second)) == sorted(map(str, events(box)))


def test_each_attempt_has_the_same_body(site: Site) -> None:
    add(site)
    site.see(0, 0, 1)
    make_events()
    [row] = destinations.list_destinations(site.organization_id)
    receiver = Receiver()
    receiver.outcome = Outcome(Result.FAILED, "503")

    def make_body(to: Destination, event: Any, _kind: str) -> bytes | None:
        return subscriptions.body(to, event, BASE, UTC)

    Round(row, receiver, threading.Event(), make_body, is_note_due=True).run()
    execute("UPDATE destination_retry SET next_try_at = 0")
    execute("UPDATE destination SET next_try_at = 0")
    again = destinations.get(row.organization_id, row.no)
    Round(again, receiver, threading.Event(), make_body, is_note_due=True).run()
    assert len(receiver.bodies) == 2
    assert receiver.bodies[0] == receiver.bodies[1]


def test_events_wait_while_the_history_is_away_and_are_not_repeated(site: Site) -> None:
    add(site)
    for hour in range(3):
        site.see(hour, 0, hour)
    make_events()
    receiver, is_away = Receiver(), False

    def make_body(to: Destination, event: Any, _kind: str) -> bytes | None:
        if is_away and receiver.bodies:
            raise HistoryUnavailable("away")
        return subscriptions.body(to, event, BASE, UTC)

    is_away = True
    for _ in range(2):
        [row] = destinations.list_destinations(site.organization_id)
        Round(row, receiver, threading.Event(), make_body, is_note_due=True).run()
        assert len(receiver.bodies) == 1
    [row] = destinations.list_destinations(site.organization_id)
    assert (row.last_error, row.failing_since, row.next_try_at > 0) == ("away", None, True)
    is_away = False
    Round(row, receiver, threading.Event(), make_body, is_note_due=True).run()
    assert len(receiver.bodies) == 3


def test_positions_of_people_are_not_sent(site: Site) -> None:
    row = add(site)
    tracked_people.save(site.actor, PeopleSetting(key_prefix="P-0"))
    site.see(0, 0, 1)
    site.see(1, 0, 1)
    site.passage(2, 1)
    assert [event["epcList"] for event in deliver(row).events] == [[f"{BASE}/assets/{site.assets[1]}"]]


def test_events_of_another_organization_are_not_read(site: Site, cast: Cast) -> None:
    site.see(0, 0, 1)
    site.passage(1, 1)
    make_events()
    assert len(sources.found_at(site.organization_id, site.assets[0], [EPOCH + HOUR])) == 2
    assert sources.found_at(cast.rival, site.assets[0], [EPOCH + HOUR]) == []


@pytest.mark.parametrize("changes", [{"event_filter": Filter(frozenset(KINDS))}, {"kind": DestinationKind.MQTT}])
def test_only_webhooks_of_moves_and_passages_can_send_epcis(site: Site, changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        add(site, **changes)
    assert destinations.list_destinations(site.organization_id) == []


@pytest.fixture
def running(site: Site) -> Iterator[Callable[[], None]]:
    epcis = Epcis(subscriptions.log_changes, lambda row, event: subscriptions.body(row, event, BASE, UTC))
    worker = EventsWorker(EventsPace(SILENCE, DAY), epcis=epcis)
    yield worker.start
    worker.stop()


def test_a_destination_queued_before_its_test_was_recorded_sends_no_second_test(
    site: Site, running: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as receiver:
        row = add(site, receiver.url)
        destinations.request_test(site.actor, row.no)
        before = destinations.KIND.enabled()
        monkeypatch.setattr(type(destinations.KIND), "enabled", lambda _: before)
        running()
        receiver.wait_for(1)
        site.see(0, 0, 1)
        second = receiver.wait_for(2)[1]
    assert len(events_in(second.event)) == 1


def test_the_service_sends_documents_and_a_test_without_events(site: Site, running: Callable[[], None]) -> None:
    with receiving() as receiver:
        row = add(site, receiver.url)
        destinations.request_test(site.actor, row.no)
        running()
        (test,) = receiver.wait_for(1)
        site.see(0, 0, 1)
        move = receiver.wait_for(2)[1]
    assert events_in(test.event) == []
    (event,) = events_in(move.event)
    names = Names(site.organization_id, BASE)
    assert [event] == query.page(site.organization_id, Query(), names, UTC, None, 10)[0]
