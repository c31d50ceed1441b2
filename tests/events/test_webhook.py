"""Webhooks at a real receiver: signed, in order, at least once, and never anywhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.database.instance import data_dir_file
from edge.events import checked_connection, delivery, destinations, progress, retry_schedule, webhook
from edge.events.checked_connection import Answer
from edge.events.delivery import Result
from edge.events.webhook import Poster
from edge.events.worker import EventsWorker
from edge.outbound import Network
from edge.people import secrets
from edge.people.secrets import new_webhook_secret
from tests.conftest import lacks
from tests.events.conftest import PACE, TLS, Warehouse, deliver, make_events
from tests.events.receiver import Received, Receiver
from tests.service import wait_for


def test_the_service_delivers_a_move(warehouse: Warehouse, receiver: Receiver) -> None:
    pallet = warehouse.add_asset("P-1")
    warehouse.seen(pallet, "north dock", 1)
    make_events()
    row = warehouse.add_webhook(receiver.url, kinds=("asset.moved",))
    worker = EventsWorker(PACE)
    worker.start()
    try:
        warehouse.seen(pallet, "south dock", 60)
        (one,) = receiver.wait_for(1)
        wait_for(lambda: warehouse.again(row).delivered == 1)
    finally:
        worker.stop()
    assert one.event["type"] == "asset.moved"
    assert one.event["id"] == one.id
    assert one.event["timestamp"] == clock.rfc3339(warehouse.began + 60 * clock.SECOND)
    assert one.event["data"]["asset"] == {"id": pallet, "external_key": "P-1", "name": "Pallet P-1"}
    assert one.event["data"]["location"]["external_key"] == "DOCK-SOUTH"
    assert one.event["data"]["previous_location"]["external_key"] == "DOCK-NORTH"
    assert [attempt.detail for attempt in destinations.list_attempts(row.organization_id, row.no)] == ["204 No Content"]


def test_the_signature_is_that_of_standard_webhooks(warehouse: Warehouse, receiver: Receiver) -> None:
    try:
        import standardwebhooks
    except ImportError:
        lacks("standardwebhooks")
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    deliver(warehouse.again(row))
    (one,) = receiver.received
    verified = standardwebhooks.Webhook(secrets.unseal(row.secret)).verify(one.body, one.headers)
    assert verified["type"] == "asset.created"
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(new_webhook_secret()).verify(one.body, one.headers)


def test_the_signature_of_a_known_example() -> None:
    """Uses the example of the Standard Webhooks specification."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    assert webhook.sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (500, "500 Internal Server Error"),
        (503, "503 Service Unavailable"),
        ((302, {"Location": "/elsewhere"}), "302 Found: redirects are not followed"),
        ((307, {"Location": "/elsewhere"}), "307 Temporary Redirect: redirects are not followed"),
        (404, "404 Not Found"),
    ],
)
def test_a_failed_event_is_resent_with_the_same_id(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: object, error: str
) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: answer
    deliver(warehouse.again(row))
    failed = warehouse.again(row)
    assert len(receiver.received) == 1
    assert failed.last_error is not None
    assert failed.last_error.startswith(error)
    receiver.answer = lambda _: 200
    later = clock.now() + clock.HOUR
    monkeypatch.setattr(clock, "now", lambda: later)
    deliver(warehouse.again(row))
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)
    assert warehouse.again(row).last_error is None
    assert destinations.count_waiting(warehouse.again(row)) == 0


@pytest.mark.parametrize("answer", [None, "drip"])
def test_a_receiver_that_hangs_or_trickles_is_disconnected(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(webhook, "ANSWER_SECONDS", 0.5)
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: answer
    deliver(warehouse.again(row))
    assert warehouse.again(row).last_error == "no response within 0 s"
    [retry] = progress.retries_of(row.no)
    assert retry.next_try_at > clock.now() - clock.SECOND


def test_a_nonsensical_answer_is_a_failed_attempt(warehouse: Warehouse, receiver: Receiver) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: (200, {"Transfer-Encoding": "chunked"}, b"-5\r\n")
    deliver(warehouse.again(row))
    assert warehouse.again(row).last_error
    assert len(progress.retries_of(row.no)) == 1


def test_a_refused_event_delays_only_its_own_asset(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = warehouse.add_asset("BAD"), warehouse.add_asset("GOOD")
    make_events()
    row = warehouse.add_webhook(receiver.url)

    def refuse_bad(one: Received) -> int:
        return 400 if one.event["data"]["asset"]["external_key"] == "BAD" else 200

    receiver.answer = refuse_bad
    for second, place in enumerate(("north dock", "south dock", "north dock")):
        warehouse.record([(bad, place, second * 10), (good, place, second * 10)])
        make_events()
        deliver(warehouse.again(row))
    taken = [one.event for one in receiver.received if refuse_bad(one) == 200]
    assert [event["type"] for event in taken] == ["asset.arrived", "asset.moved", "asset.moved"]
    refused = {one.id for one in receiver.received if refuse_bad(one) == 400}
    assert len(refused) == 1  # later moves wait for it

    receiver.answer = lambda _: 200
    before = len(receiver.received)
    for hours in (1, 2, 3):
        now = clock.now() + hours * clock.HOUR
        monkeypatch.setattr(clock, "now", lambda now=now: now)
        deliver(warehouse.again(row))
    late = [one.event for one in receiver.received[before:]]
    assert [event["type"] for event in late] == ["asset.arrived", "asset.moved", "asset.moved"]
    assert {late[0]["id"]} == refused
    assert destinations.count_waiting(warehouse.again(row)) == 0


def test_a_receiver_that_refuses_everything_is_paused(warehouse: Warehouse, receiver: Receiver) -> None:
    row = warehouse.add_webhook(receiver.url)
    for number in range(20):
        warehouse.add_asset(f"P-{number}")
    make_events()
    receiver.answer = lambda _: 500
    deliver(warehouse.again(row))
    assert len(receiver.received) == retry_schedule.FAILURES_IN_A_ROW
    assert warehouse.again(row).next_try_at > clock.now()


def test_a_failing_destination_is_disabled_after_days(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: 503
    began = clock.now()
    for hours in (0, 1, *range(2, 2 * retry_schedule.GIVE_UP_ATTEMPTS, 2), 6 * 24):
        monkeypatch.setattr(clock, "now", lambda hours=hours: began + hours * clock.HOUR)
        deliver(warehouse.again(row))
        assert (warehouse.again(row).disabled_at is not None) == (hours == 6 * 24)
    given_up = warehouse.again(row)
    assert given_up.disabled_at is not None
    assert given_up.disabled_reason == "no delivery succeeded for 5 days: 503 Service Unavailable"
    assert destinations.troubles() == [f"ERP was disabled: {given_up.disabled_reason}"]
    destinations.enable(warehouse.actor, row.no)
    receiver.answer = lambda _: 200
    deliver(warehouse.again(row))
    assert receiver.received[-1].id == receiver.received[0].id


def test_status_gone_disables_the_destination(warehouse: Warehouse, receiver: Receiver) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: 410
    deliver(warehouse.again(row))
    assert warehouse.again(row).disabled_reason == "410 Gone: the receiver no longer accepts events"


@pytest.mark.parametrize("network", [Network.INTERNET, Network.PRIVATE])
def test_loopback_addresses_require_the_shell(warehouse: Warehouse, receiver: Receiver, network: Network) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    deliver(row, network)
    assert receiver.received == []
    assert "allowed only for destinations added in its shell" in (warehouse.again(row).last_error or "")


def test_a_test_event_overtakes_waiting_events(warehouse: Warehouse, receiver: Receiver) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda one: 200 if one.event["type"] == "test" else 503
    worker = EventsWorker(PACE)
    worker.start()
    try:
        wait_for(lambda: warehouse.again(row).failures)
        destinations.request_test(warehouse.actor, row.no)
        wait_for(lambda: "test" in receiver.kinds())
        wait_for(lambda: warehouse.again(row).tested_at is None)
    finally:
        worker.stop()
    attempts = destinations.list_attempts(row.organization_id, row.no)
    assert (attempts[0].event_kind, attempts[0].is_delivered) == ("test", True)


def test_without_the_key_of_its_secrets_it_sends_nothing(warehouse: Warehouse, receiver: Receiver) -> None:
    """The key is in no backup, so a restored copy cannot send."""
    row = warehouse.add_webhook(receiver.url)
    data_dir_file(secrets.KEY_NAME).unlink()
    warehouse.add_asset("P-1")
    worker = EventsWorker(PACE)
    worker.start()
    try:
        wait_for(lambda: warehouse.again(row).last_error)
    finally:
        worker.stop()
    assert receiver.received == []
    assert "create a new one" in (warehouse.again(row).last_error or "")


def test_statuses_about_the_receiver_and_about_the_event_are_told_apart(receiver: Receiver) -> None:
    """A receiver at fault is paused. An event that is refused lets the next one through."""
    results: dict[Result, list[int]] = {}
    poster = Poster(receiver.url, Network.LOOPBACK, TLS)
    for status in (*range(200, 207), *range(300, 309), *range(400, 432), 451, *range(500, 512)):
        receiver.answer = lambda _, status=status: status
        results.setdefault(poster.post(b"{}", {}).result, []).append(status)
    poster.close()
    assert results[Result.DELIVERED] == list(range(200, 207))
    assert results[Result.GONE] == [410]
    assert results[Result.FAILED] == [
        *range(300, 309),
        *(401, 402, 403, 404, 405, 407, 408, 421, 425, 426, 429, 451),  # sign-in, address, speed, TLS, blocked
        *(502, 503, 504, 508, 511),  # gateways, maintenance
    ]


def test_a_destination_with_more_than_one_round_takes_turns(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "ROUND_SECONDS", 0.02)
    receiver.answer = lambda _: receiver.is_over.wait(0.04) or 204
    warehouse.add_webhook(receiver.url)
    for number in range(5):
        warehouse.add_asset(f"P-{number}")
    one = EventsWorker(PACE)
    one.start()
    try:
        receiver.wait_for(5)
    finally:
        one.stop()


class _FiresAtTheEnd:
    """A deadline that passes in the moment in which it is cancelled."""

    daemon = False

    def __init__(self, _seconds: float, cut: Callable[[], None]) -> None:
        self.cancel = cut

    def start(self) -> None: ...


def test_an_answer_in_the_last_moment_does_not_fail_the_next_event(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection was shut down after the complete answer, so it cannot be used again."""
    poster = Poster(receiver.url, Network.LOOPBACK, TLS)
    with monkeypatch.context() as patched:
        patched.setattr(checked_connection.threading, "Timer", _FiresAtTheEnd)
        assert poster.post(b"{}", {"webhook-id": "1"}).result is Result.DELIVERED
    assert poster.post(b"{}", {"webhook-id": "2"}).result is Result.DELIVERED
    poster.close()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("17", 17),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600),
        ("99999999999", 3600),
        ("Fri, 31 Dec 99999999999 23:59:59 GMT", 0),
        ("Fri, 31 Dec 2027 99999999999999999999:00:00 GMT", 0),
        ("soon", 0),
        ("", 0),
    ],
)
def test_a_receiver_asks_for_a_pause_in_seconds_or_until_a_date(text: str, seconds: float) -> None:
    assert Answer(429, {"retry-after": text}, b"").wait_seconds == seconds
