"""Subscribers that fail, that must not see everything, and large amounts of events."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute, execute_many
from edge.epcis import subscriptions
from edge.events import destinations, log
from edge.events.delivery import Message, Outcome, Result, Round, Sender
from edge.events.destinations import Destination
from edge.events.log import EventKind
from edge.events.webhook import Webhook
from edge.outbound import Network
from edge.people import secrets
from edge.tracking import carriers, tracked_people
from edge.tracking.tracked_people import PeopleSetting
from tests.conftest import Cast
from tests.epcis.test_same_events import BASE, EPOCH, SECOND, UTC, Partner, Yard, add_webhook, by_id, queried
from tests.events.conftest import TLS
from tests.events.receiver import receiving
from tests.feed.test_feed import box_of

HOURS = 48


@pytest.fixture
def yard(cast: Cast) -> Yard:
    return Yard(cast.acme).subscribe()


class Unsteady:
    """A sender whose receiver answers 500 until it is repaired."""

    def __init__(self) -> None:
        self.outcome = Outcome(Result.FAILED, "500")
        self.attempts = 0
        self.events: list[dict[str, Any]] = []

    def send(self, message: Message) -> Outcome:
        self.attempts += 1
        if self.outcome.result is Result.DELIVERED:
            self.events += json.loads(message.body)["epcisBody"]["queryResults"]["resultsBody"]["eventList"]
        return self.outcome

    def close(self) -> None: ...


def run(row: Destination, sender: Sender) -> bool:
    again = destinations.get(row.organization_id, row.no)

    def make_body(to: Destination, event: log.Event, _kind: str) -> bytes | None:
        return subscriptions.body(to, event, BASE, UTC)

    return Round(again, sender, threading.Event(), make_body, is_note_due=True).run()


def test_a_subscriber_that_fails_for_two_days_gets_everything(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, began = Unsteady(), clock.now()
    for hour in range(HOURS):
        monkeypatch.setattr(clock, "now", lambda hour=hour: began + hour * clock.HOUR)
        yard.hand(hour % 3, hour % 2, EPOCH + hour * 600 * SECOND)
        yard.read(hour % 3, 2, EPOCH + (hour * 7 % 20) * 600 * SECOND)
        if hour % 5 == 4:
            yard.undo(hour, 0, 0)
        yard.look()
        run(yard.partner.row, sender)
    assert sender.events == []
    assert sender.attempts < 4 * HOURS, "it pauses"
    sender.outcome = Outcome(Result.DELIVERED, "")
    for minute in range(180):
        monkeypatch.setattr(clock, "now", lambda minute=minute: began + HOURS * clock.HOUR + minute * 60 * SECOND)
        run(yard.partner.row, sender)
    last = {event["eventID"]: event for event in sender.events}
    assert by_id(last.values()) == by_id(queried(yard.organization_id))
    assert destinations.get(yard.organization_id, yard.partner.row.no).lost == 0


def test_another_organization_gets_nothing(yard: Yard, cast: Cast) -> None:
    rival = Partner(add_webhook(shell(cast.rival)))
    for step in range(4):
        yard.hand(0, step % 2, EPOCH + step * 600 * SECOND)
    yard.load(1, 0, EPOCH)
    yard.passed(0, 1, EPOCH)
    yard.undo(0, 0, 0)
    yard.look()
    rival.receive()
    assert rival.events == {}
    [event, *_] = log.after(yard.organization_id, yard.partner.seq, 1)
    assert subscriptions.body(rival.row, event, BASE, UTC) is None, "not even with an event of others"
    assert queried(cast.rival) == []


def test_a_location_limits_what_is_sent(yard: Yard) -> None:
    execute("UPDATE destination SET settings = json_set(settings, '$.location_id', ?)", (yard.places[0],))
    row = destinations.get(yard.organization_id, yard.partner.row.no)
    limited = Partner(row)
    for step in range(6):
        yard.hand(0, step % 2, EPOCH + step * 600 * SECOND)
        yard.hand(0, 1, EPOCH + step * 600 * SECOND)  # at the same moment elsewhere
    carriers.load(yard.ann, yard.assets[1], yard.assets[0], EPOCH)
    yard.undo(0, 0, 0)
    yard.look()
    limited.receive()
    places = {event["bizLocation"]["id"] for event in limited.events.values()}
    assert places == {f"{BASE}/locations/{yard.places[0]}"}
    expected = by_id(queried(yard.organization_id, places={yard.places[0]}))
    assert by_id(limited.events.values()) == expected
    assert any("errorDeclaration" in event for event in expected.values())


def test_a_door_limits_by_its_location(yard: Yard) -> None:
    for place, number in ((0, 1), (1, 0)):
        execute("UPDATE destination SET settings = json_set(settings, '$.location_id', ?)", (yard.places[place],))
        partner = Partner(destinations.get(yard.organization_id, yard.partner.row.no))
        partner.seq = log.newest()
        yard.passed(place, 2, EPOCH)
        yard.look()
        partner.receive()
        assert len(partner.events) == number


@pytest.mark.parametrize(("kinds", "types"), [("asset.passed", {"door"}), ("asset.moved", {"stay", "carrier"})])
def test_chosen_kinds(yard: Yard, kinds: str, types: set[str]) -> None:
    execute("UPDATE destination SET settings = json_set(settings, '$.event_kinds', ?)", (kinds,))
    partner = Partner(destinations.get(yard.organization_id, yard.partner.row.no))
    yard.hand(0, 0, EPOCH)
    yard.passed(0, 1, EPOCH)
    yard.load(1, 0, EPOCH)
    yard.look()
    partner.receive()
    found = {
        "carrier" if "parentID" in event else "door" if "/doors/" in event["readPoint"]["id"] else "stay"
        for event in partner.events.values()
    }
    assert found == types


def test_positions_of_people_are_sent_in_no_way(yard: Yard) -> None:
    """Not as a stay, a passage, a carrier or an error."""
    yard.read(0, 0, EPOCH + 600 * SECOND)
    yard.look()
    keys = execute("SELECT external_key FROM asset WHERE id = ?", (yard.assets[0],)).fetchone()
    tracked_people.save(yard.actor, PeopleSetting(key_prefix=keys[0]))
    yard.read(0, 0, EPOCH + 500 * SECOND)
    yard.hand(0, 1, EPOCH)
    yard.passed(0, 1, EPOCH)
    yard.undo(0, 0, 0)
    yard.read(1, 1, EPOCH + 700 * SECOND)
    carriers.load(yard.ann, yard.assets[0], yard.assets[1], EPOCH)  # the person as a carrier
    carriers.load(yard.ann, yard.assets[1], yard.assets[0], EPOCH + SECOND)
    yard.look()
    yard.partner.receive()
    sent = yard.partner.events.values()
    assert f"/assets/{yard.assets[0]}" not in json.dumps(list(sent))
    assert {event["type"] for event in sent} == {"ObjectEvent"}, "where the other asset was"
    assert by_id(sent) != by_id(queried(yard.organization_id)), "this thread may see people"


def test_a_flood_waits_in_turns(yard: Yard) -> None:
    """Rules and other organizations go on meanwhile."""
    yard.read(0, 0, EPOCH)
    yard.look()
    moments = [(yard.assets[0], EPOCH + number * SECOND, yard.places[0]) for number in range(5_000)]
    execute_many("INSERT INTO change (kind, a, b, c, before) VALUES (14, ?, ?, ?, '[1, 1, 0]')", moments)
    assert subscriptions.log_changes(is_needed=True) == subscriptions.MOST_NOTED
    yard.look()
    logged = [event for event in log.after(yard.organization_id, 0, 500) if event.kind is EventKind.ASSET_HISTORY]
    assert len(logged) == 1 + 5_000 // subscriptions.MOST_MOMENTS
    body = subscriptions.body(yard.partner.row, logged[-1], BASE, UTC)
    assert body is None, "these moments have no events"
    assert len(json.dumps(logged[-1].data)) < 2_000


def test_secrets_are_not_in_logs_or_attempts(yard: Yard, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = secrets.new_webhook_secret()
    execute("UPDATE destination SET secret = ?", (secrets.seal(secret),))
    yard.hand(0, 0, EPOCH)
    yard.look()
    with receiving() as receiver:
        receiver.answer = lambda _: 500
        row = destinations.get(yard.organization_id, yard.partner.row.no)
        sender = Webhook(f"{receiver.url}&token=hunter2", secret, Network.LOOPBACK, TLS)
        run(row, sender)
        sender.close()
    row = destinations.get(yard.organization_id, row.no)
    attempts = destinations.list_attempts(yard.organization_id, row.no)
    assert [attempt.is_delivered for attempt in attempts] == [False]
    for text in (caplog.text, repr(attempts), row.last_error or ""):
        assert "hunter2" not in text
        assert secret.removeprefix("whsec_") not in text


def test_a_key_cannot_subscribe(cast: Cast) -> None:
    """Only administrators add webhooks: the paths of the standard for subscriptions do not exist."""
    box = box_of(cast.acme, ("tracking:read",))
    for path in ("/epcis/queries", "/epcis/queries/all/subscriptions", "/epcis/capture", "/epcis/events"):
        answer = box.client.post(path, json={}, headers=box.headers)
        assert answer.status_code in (404, 405), path
    assert destinations.list_destinations(cast.acme) == []


def test_filters_name_only_records_of_the_organization(yard: Yard, cast: Cast) -> None:
    yard.hand(0, 0, EPOCH)
    for field in ("assets", "places", "read_points"):
        wanted = {yard.assets[0]} if field == "assets" else {yard.places[0]}
        assert len(queried(yard.organization_id, **{field: wanted})) == 1
        assert queried(cast.rival, **{field: wanted}) == []
