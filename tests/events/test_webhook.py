"""Webhooks as a real receiver sees them: signed, in order, at least once, and never anywhere else."""

from __future__ import annotations

import pytest

from edge import clock
from edge.database.instance import data_dir_file
from edge.events import delivery, destinations, progress, webhook
from edge.events.worker import Worker
from edge.outbound import Network
from edge.people import secrets
from edge.people.secrets import new_webhook_secret
from tests.conftest import lacks
from tests.events.conftest import PACE, Warehouse, deliver, make_events
from tests.events.receiver import Received, Receiver, wait_until


def test_the_running_service_tells_a_receiver_of_a_move(warehouse: Warehouse, receiver: Receiver) -> None:
    pallet = warehouse.add_asset("P-1")
    warehouse.seen(pallet, "north dock", 1)
    make_events()
    row = warehouse.add_webhook(receiver.url, kinds=("asset.moved",))
    worker = Worker(PACE)
    worker.start()
    try:
        warehouse.seen(pallet, "south dock", 60)
        (one,) = receiver.wait_for(1)
        wait_until(lambda: warehouse.again(row).delivered == 1)
    finally:
        worker.stop()
    assert one.told["type"] == "asset.moved"
    assert one.told["id"] == one.id
    assert one.told["timestamp"] == clock.rfc3339(warehouse.began + 60 * clock.SECOND)
    assert one.told["data"]["asset"] == {"id": pallet, "external_key": "P-1", "name": "Pallet P-1"}
    assert one.told["data"]["location"]["external_key"] == "DOCK-SOUTH"
    assert one.told["data"]["previous_location"]["external_key"] == "DOCK-NORTH"
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
    """The example in the text of the specification."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    assert webhook.sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (500, "500 Internal Server Error"),
        (503, "503 Service Unavailable"),
        ((302, {"Location": "/elsewhere"}), "302 Found: it sends elsewhere, which is not followed"),
        ((307, {"Location": "/elsewhere"}), "307 Temporary Redirect: it sends elsewhere, which is not followed"),
        (404, "404 Not Found"),
    ],
)
def test_what_fails_is_sent_again_later_under_the_same_id(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: object, told: str
) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: answer
    deliver(warehouse.again(row))
    failed = warehouse.again(row)
    assert len(receiver.received) == 1
    assert failed.last_error is not None
    assert failed.last_error.startswith(told)
    receiver.answer = lambda _: 200
    later = clock.now() + clock.HOUR
    monkeypatch.setattr(clock, "now", lambda: later)
    deliver(warehouse.again(row))
    first, second = receiver.received
    assert (first.id, first.body) == (second.id, second.body)
    assert warehouse.again(row).last_error is None
    assert destinations.count_waiting(warehouse.again(row)) == 0


@pytest.mark.parametrize("answer", [None, "drip"])
def test_a_receiver_that_hangs_or_drips_is_cut_off(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(webhook, "ANSWER_SECONDS", 0.5)
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: answer
    deliver(warehouse.again(row))
    assert warehouse.again(row).last_error == "no answer within 0 s"
    [retry] = progress.retries_of(row.no)
    assert retry.next_try_at > clock.now() - clock.SECOND


def test_a_refused_event_holds_up_its_own_asset_only(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = warehouse.add_asset("BAD"), warehouse.add_asset("GOOD")
    make_events()
    row = warehouse.add_webhook(receiver.url)

    def refuse_bad(one: Received) -> int:
        return 400 if one.told["data"]["asset"]["external_key"] == "BAD" else 200

    receiver.answer = refuse_bad
    for second, place in enumerate(("north dock", "south dock", "north dock")):
        warehouse.record([(bad, place, second * 10), (good, place, second * 10)])
        make_events()
        deliver(warehouse.again(row))
    taken = [one.told for one in receiver.received if refuse_bad(one) == 200]
    assert [told["type"] for told in taken] == ["asset.arrived", "asset.moved", "asset.moved"]
    refused = {one.id for one in receiver.received if refuse_bad(one) == 400}
    assert len(refused) == 1  # the moves after it wait for it

    receiver.answer = lambda _: 200
    before = len(receiver.received)
    for hours in (1, 2, 3):
        now = clock.now() + hours * clock.HOUR
        monkeypatch.setattr(clock, "now", lambda now=now: now)
        deliver(warehouse.again(row))
    late = [one.told for one in receiver.received[before:]]
    assert [told["type"] for told in late] == ["asset.arrived", "asset.moved", "asset.moved"]
    assert {late[0]["id"]} == refused
    assert destinations.count_waiting(warehouse.again(row)) == 0


def test_a_receiver_that_refuses_everything_is_left_alone(warehouse: Warehouse, receiver: Receiver) -> None:
    row = warehouse.add_webhook(receiver.url)
    for number in range(20):
        warehouse.add_asset(f"P-{number}")
    make_events()
    receiver.answer = lambda _: 500
    deliver(warehouse.again(row))
    assert len(receiver.received) == delivery.FAILURES_IN_A_ROW
    assert warehouse.again(row).next_try_at > clock.now()


def test_after_days_it_is_disabled_and_says_so(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: 503
    began = clock.now()
    for hours in (0, 1, *range(2, 2 * delivery.GIVE_UP_ATTEMPTS, 2), 6 * 24):
        monkeypatch.setattr(clock, "now", lambda hours=hours: began + hours * clock.HOUR)
        deliver(warehouse.again(row))
        assert (warehouse.again(row).disabled_at is not None) == (hours == 6 * 24)
    given_up = warehouse.again(row)
    assert given_up.disabled_at is not None
    assert given_up.disabled_reason == "nothing could be delivered for 5 days: 503 Service Unavailable"
    assert destinations.troubles() == [f"ERP was disabled: {given_up.disabled_reason}"]
    destinations.enable(warehouse.actor, row.no)
    receiver.answer = lambda _: 200
    deliver(warehouse.again(row))
    assert receiver.received[-1].id == receiver.received[0].id


def test_gone_is_taken_at_its_word(warehouse: Warehouse, receiver: Receiver) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda _: 410
    deliver(warehouse.again(row))
    assert warehouse.again(row).disabled_reason == "410 Gone: the receiver wants no events any more"


@pytest.mark.parametrize("network", [Network.INTERNET, Network.PRIVATE])
def test_nothing_goes_to_the_box_itself_unless_its_shell_allowed_it(
    warehouse: Warehouse, receiver: Receiver, network: Network
) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    deliver(row, network)
    assert receiver.received == []
    assert "only a destination added in its shell" in (warehouse.again(row).last_error or "")


def test_a_test_event_passes_by_what_waits(warehouse: Warehouse, receiver: Receiver) -> None:
    row = warehouse.add_webhook(receiver.url)
    warehouse.add_asset("P-1")
    make_events()
    receiver.answer = lambda one: 200 if one.told["type"] == "test" else 503
    worker = Worker(PACE)
    worker.start()
    try:
        wait_until(lambda: warehouse.again(row).failures)
        destinations.request_test(warehouse.actor, row.no)
        wait_until(lambda: "test" in receiver.kinds())
        wait_until(lambda: not warehouse.again(row).is_test_requested)
    finally:
        worker.stop()
    attempts = destinations.list_attempts(row.organization_id, row.no)
    assert (attempts[0].event_kind, attempts[0].is_delivered) == ("test", True)


def test_on_another_box_it_sends_nothing(warehouse: Warehouse, receiver: Receiver) -> None:
    """The key that opens the secrets is in no backup."""
    row = warehouse.add_webhook(receiver.url)
    data_dir_file(secrets.KEY_NAME).unlink()
    warehouse.add_asset("P-1")
    worker = Worker(PACE)
    worker.start()
    try:
        wait_until(lambda: warehouse.again(row).last_error)
    finally:
        worker.stop()
    assert receiver.received == []
    assert "give it a new one" in (warehouse.again(row).last_error or "")
