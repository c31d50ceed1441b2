"""Retries, pauses and giving up of deliveries; a round ends and records progress."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest

from edge import clock
from edge.database.connection import execute
from edge.errors import Conflict
from edge.events import delivery, destinations, log, progress, retry_schedule, worker
from edge.events.delivery import Message, Outcome, Result, Round
from edge.events.family import Destination
from edge.events.worker import EventsWorker
from tests.events.conftest import PACE, Warehouse, deliver, make_events
from tests.events.receiver import Received, Receiver
from tests.service import wait_for

SOON = 60.0


class Slow:
    """A sender that takes `seconds` per event on its own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.sent: list[str] = []
        self._seconds, self._now = seconds, 0.0
        monkeypatch.setattr(delivery, "time", SimpleNamespace(monotonic=lambda: self._now))

    def send(self, message: Message) -> Outcome:
        self._now += self._seconds
        self.sent.append(message.id)
        return Outcome(Result.DELIVERED, "200 OK")

    def close(self) -> None: ...


def travel_to(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    monkeypatch.setattr(clock, "now", lambda: moment)


def refuse(key: str) -> Callable[[Received], int]:
    return lambda one: 400 if one.event["data"]["asset"]["external_key"] == key else 200


def keys(receiver: Receiver) -> list[str]:
    return [one.event["data"]["asset"]["external_key"] for one in receiver.received]


def next_try(warehouse: Warehouse, row: Destination) -> int:
    """Return the time of the next try of the only waiting event."""
    retries = progress.retries_of(row.id)
    return max(warehouse.again(row).next_try_at, *(retry.next_try_at for retry in retries), 0)


def with_assets(warehouse: Warehouse, receiver: Receiver, *names: str) -> Destination:
    row = warehouse.add_webhook(receiver.url)
    for name in names:
        warehouse.add_asset(name)
    make_events()
    return warehouse.again(row)


def test_a_round_ends_in_time_and_the_next_continues(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress is recorded once per round, so a slow receiver must not delay it: a kill would resend everything."""
    row = with_assets(warehouse, receiver, *(f"P-{number}" for number in range(10)))
    sender, rounds = Slow(monkeypatch, 0.4), 0
    while Round(row, sender, threading.Event(), is_note_due=False).run():
        rounds += 1
        row = warehouse.again(row)
        assert destinations.count_waiting(row) == 10 - len(sender.sent)
        assert len(sender.sent) <= 3 * rounds
    assert rounds == 3
    assert len(set(sender.sent)) == len(sender.sent) == 10


def test_hanging_retries_do_not_keep_new_events_waiting(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round sends at least one new event and retries at least one, however long they take."""

    class Hanging(Slow):
        is_new_slow = False

        def send(self, message: Message) -> Outcome:
            key = message.data["asset"]["external_key"]
            is_hanging = key.startswith("BAD")
            self._now += 10 if is_hanging or self.is_new_slow else 0
            self.sent.append(key)
            return Outcome(Result.FAILED, "timed out") if is_hanging else Outcome(Result.DELIVERED, "200 OK")

    row, now = warehouse.add_webhook("https://receiver.example"), clock.now()
    sender = Hanging(monkeypatch, 0)
    for number in range(8):  # between them, others succeed
        for key in (f"BAD-{number}", f"GOOD-{number}"):
            warehouse.add_asset(key)
            make_events()
    for _ in range(20):
        Round(warehouse.again(row), sender, threading.Event(), is_note_due=False).run()
    for number in range(6):
        now += clock.HOUR  # all retries are due
        travel_to(monkeypatch, now)
        warehouse.add_asset(f"P-{number}")
        make_events()
        sender.sent.clear()
        sender.is_new_slow = number > 2
        Round(warehouse.again(row), sender, threading.Event(), is_note_due=False).run()
        assert sender.sent[0] == f"P-{number}"
        assert len(sender.sent) == 2
        assert sender.sent[1].startswith("BAD")


def test_a_refused_event_is_given_up_after_days_and_later_ones_continue(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, began = with_assets(warehouse, receiver, "BAD", "GOOD"), clock.now()
    bad = receiver.received
    receiver.answer = refuse("BAD")
    attempts = [*range(0, 2 * retry_schedule.GIVE_UP_ATTEMPTS, 2), 119]
    for hours in attempts:
        travel_to(monkeypatch, began + hours * clock.HOUR)
        deliver(warehouse.again(row))
    assert keys(receiver).count("BAD") == len(attempts)
    assert (warehouse.again(row).lost, len(progress.retries_of(row.id))) == (0, 1)
    travel_to(monkeypatch, began + 121 * clock.HOUR)
    deliver(warehouse.again(row))
    assert len(bad) == len(attempts) + 1
    assert (warehouse.again(row).lost, progress.retries_of(row.id)) == (1, [])
    assert warehouse.again(row).disabled_at is None


@pytest.mark.parametrize("answer", [lambda _: 503, refuse("P-1")])
def test_a_clock_jump_ahead_gives_up_nothing(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Received], int]
) -> None:
    """A device without a battery clock starts with an old date until NTP corrects it."""
    row, now = with_assets(warehouse, receiver, "P-1"), clock.now()
    receiver.answer = answer
    for days in (0, 400, 800):
        travel_to(monkeypatch, now + days * clock.DAY)
        deliver(warehouse.again(row))
    assert (warehouse.again(row).disabled_at, warehouse.again(row).lost) == (None, 0)
    receiver.answer = lambda _: 200
    travel_to(monkeypatch, now + 801 * clock.DAY)
    deliver(warehouse.again(row))
    assert destinations.count_waiting(warehouse.again(row)) == 0
    assert progress.retries_of(row.id) == []


def test_events_behind_one_that_was_given_up_inherit_its_attempts(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_schedule, "GIVE_UP_ATTEMPTS", 3)
    row, began = with_assets(warehouse, receiver), clock.now()
    travel_to(monkeypatch, began)
    bad = warehouse.add_asset("BAD")
    warehouse.record([(bad, "north dock", 0), (bad, "south dock", 10)])
    make_events()
    receiver.answer = refuse("BAD")
    for hours in (0, 2, 4):
        travel_to(monkeypatch, began + hours * clock.HOUR)
        deliver(warehouse.again(row))
    assert len(receiver.received) == 3
    assert len(progress.retries_of(row.id)) > 1
    for _ in progress.retries_of(row.id):
        travel_to(monkeypatch, began + 121 * clock.HOUR)
        deliver(warehouse.again(row))
    assert len(receiver.received) == 3
    assert progress.retries_of(row.id) == []


def test_each_dropped_event_is_counted_as_lost_once(warehouse: Warehouse, receiver: Receiver) -> None:
    row = with_assets(warehouse, receiver, "P-1", "P-2")
    waiting = destinations.count_waiting(row)
    log.drop_old(clock.now() + clock.DAY, 100)
    for _ in range(2):
        deliver(warehouse.again(row))
        assert (warehouse.again(row).lost, receiver.received) == (waiting, [])


def test_a_slow_receiver_gets_no_event_twice(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further rounds skip a destination that is being served."""
    looks, answer = [], threading.Event()
    with_assets(warehouse, receiver, "P-1")
    receiver.answer = lambda _: 200 if answer.wait(SOON) else 500
    due = progress.retries_due
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(progress, "retries_due", lambda: looks.append(len(receiver.received)) or due())
    one = EventsWorker(PACE)
    one.start()
    try:
        wait_for(lambda: looks.count(1) > 5 or len(receiver.received) > 1, SOON)
        assert len(receiver.received) == 1
    finally:
        answer.set()
        one.stop()


@pytest.mark.parametrize(
    ("requested", "min_seconds", "max_seconds"),
    [("1800", 1800, 1801), ("99999999", 3600, 3601), ("soon", 0.8, 7), ("-5", 0.8, 7), (None, 0.8, 7)],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_sets_the_pause(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch,
    status: int, requested: str | None, min_seconds: float, max_seconds: float,
) -> None:  # fmt: skip
    row, now = with_assets(warehouse, receiver, "P-1"), clock.now()
    travel_to(monkeypatch, now)
    receiver.answer = lambda _: (status, {"Retry-After": requested} if requested else {})
    deliver(row)
    pause = next_try(warehouse, row) - now
    assert min_seconds <= pause / clock.SECOND <= max_seconds
    assert len(receiver.received) == 1


def test_pauses_grow_from_seconds_to_an_hour(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, now = with_assets(warehouse, receiver, "P-1"), clock.now()
    receiver.answer = lambda _: 503
    pauses = []
    for _ in range(12):
        travel_to(monkeypatch, now)
        deliver(warehouse.again(row))
        pauses.append((next_try(warehouse, row) - now) / clock.SECOND)
        now = next_try(warehouse, row)
    assert 0.8 <= pauses[0] <= 1.2
    assert all(later > earlier for earlier, later in pairwise(pauses[:6]))
    assert all(2880 <= pause <= 4320 for pause in pauses[8:])


def test_one_failing_event_never_pauses_the_destination(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event fails for a long time, at first as the only one."""
    row, now = with_assets(warehouse, receiver, "BAD"), clock.now()
    receiver.answer = lambda one: 500 if one.event["data"]["asset"]["external_key"] == "BAD" else 200
    for _ in range(20):
        travel_to(monkeypatch, now)
        deliver(warehouse.again(row))
        now += 10 * clock.SECOND
    assert 4 <= keys(receiver).count("BAD") <= 8
    for name in ("P-1", "P-2", "P-3"):
        warehouse.add_asset(name)
        make_events()
        deliver(warehouse.again(row))
        assert keys(receiver)[-1] == name


@pytest.mark.parametrize("status", [500, 503])
def test_a_receiver_with_random_failures_gets_every_event_in_order(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    row, chance = warehouse.add_webhook(receiver.url), random.Random(7)
    pallets = [warehouse.add_asset(f"P-{number}") for number in range(15)]
    for move in range(12):
        place = ("north dock", "south dock")[move % 2]
        warehouse.record([(pallet, place, move * 10) for pallet in pallets])
        make_events()
    taken = []

    def fail_at_times(one: Received) -> int:
        if chance.random() < 0.3:
            return status
        taken.append(one.event)
        return 200

    receiver.answer = fail_at_times
    began = now = clock.now()
    while destinations.count_waiting(warehouse.again(row)):
        travel_to(monkeypatch, now)
        deliver(warehouse.again(row))
        now += clock.SECOND
        assert now - began < 600 * clock.SECOND, f"{len(taken)} taken in ten minutes"
    assert len({one["id"] for one in taken}) == len(taken) >= 15 * 12
    for number in range(15):
        own = [one for one in taken if one["data"]["asset"]["external_key"] == f"P-{number}"]
        own = [one for one in own if one["type"] == "asset.moved"]
        assert [one["timestamp"] for one in own] == sorted(one["timestamp"] for one in own)


def test_the_number_of_set_aside_events_is_limited(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event overtakes one that does not fit; once the receiver accepts again, all arrive in order."""
    monkeypatch.setattr(delivery, "MOST_SET_ASIDE", 3)
    bad, good = warehouse.add_asset("BAD"), warehouse.add_asset("GOOD")
    make_events()
    row = warehouse.add_webhook(receiver.url)
    receiver.answer = refuse("BAD")
    for second in range(6):
        place = ("north dock", "south dock")[second % 2]
        warehouse.record([(bad, place, second * 10), (good, place, second * 10)])
    make_events()
    deliver(warehouse.again(row))
    assert len(progress.retries_of(row.id)) == 3
    assert warehouse.again(row).last_error == "3 events are waiting after failed or refused deliveries"
    waiting = destinations.count_waiting(warehouse.again(row))
    assert waiting > 3
    receiver.answer = lambda _: 200
    now = clock.now()
    for hours in range(1, 9):
        travel_to(monkeypatch, now + hours * clock.HOUR)
        deliver(warehouse.again(row))
    taken = [one.event for one in receiver.received if one.event["data"]["asset"]["external_key"] == "BAD"][1:]
    assert [one["timestamp"] for one in taken] == sorted(one["timestamp"] for one in taken)
    assert len(taken) == 6
    assert destinations.count_waiting(warehouse.again(row)) == 0


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_clock_set_back_does_not_delay_events_for_years(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    """The clock was years ahead at startup, and the receiver failed before it was corrected."""
    row, now = with_assets(warehouse, receiver, "P-1"), clock.now()
    receiver.answer = lambda _: 400 if is_refused else 503
    with monkeypatch.context() as patch:
        travel_to(patch, now + 3000 * clock.DAY)
        deliver(row)
    assert warehouse.again(row).next_try_at > now or progress.retries_of(row.id)
    receiver.answer = lambda _: 200
    one = EventsWorker(PACE)
    one.start()
    try:
        wait_for(lambda: len(receiver.received) == 2, SOON)
    finally:
        one.stop()


def test_a_round_without_news_writes_nothing(warehouse: Warehouse, receiver: Receiver) -> None:
    """Idle destinations must not wear the disk."""
    row = with_assets(warehouse, receiver, "P-1")
    deliver(row)
    row = warehouse.again(row)
    writes = execute("SELECT total_changes()").fetchone()
    deliver(row)
    assert execute("SELECT total_changes()").fetchone() == writes


def test_progress_over_excluded_events_is_recorded_if_that_is_due(warehouse: Warehouse, receiver: Receiver) -> None:
    row = warehouse.add_webhook(receiver.url, kinds=("asset.moved",))
    warehouse.add_asset("P-1")
    make_events()
    for is_note_due in (False, True):
        Round(warehouse.again(row), Refused(), threading.Event(), is_note_due=is_note_due).run()
        assert (warehouse.again(row).position > row.position) is is_note_due
        assert progress.retries_of(row.id) == []


class Refused:
    """A sender that refuses each event."""

    def send(self, _message: Message) -> Outcome:
        return Outcome(Result.REFUSED, "400 Bad Request")

    def close(self) -> None: ...


def test_a_retry_is_due_from_its_time_on_and_before_it_if_the_clock_went_back(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, now = with_assets(warehouse, receiver, "P-1"), clock.now()
    travel_to(monkeypatch, now)
    Round(row, Refused(), threading.Event(), is_note_due=False).run()
    [retry] = progress.retries_of(row.id)
    for moment, due in ((now, set()), (retry.next_try_at, {row.no}), (now - clock.DAY, {row.no})):
        travel_to(monkeypatch, moment)
        assert progress.retries_due() == due
    for early, due in ((0, set()), (1, {row.no})):  # no pause is longer
        travel_to(monkeypatch, retry.next_try_at - progress.LONGEST_PAUSE - early)
        assert progress.retries_due() == due


@pytest.mark.parametrize(
    ("answer", "is_disabled"),
    [(Outcome(Result.GONE, "410 Gone"), True), (Outcome(Result.FAILED, "503", wait_seconds=60), False)],
)
def test_an_answer_to_a_retry_may_end_or_pause_the_destination(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: Outcome, is_disabled: bool
) -> None:
    row, now = with_assets(warehouse, receiver, "P-1", "P-2"), clock.now()
    Round(row, Refused(), threading.Event(), is_note_due=False).run()
    travel_to(monkeypatch, now + clock.HOUR)
    sender = Refused()
    monkeypatch.setattr(sender, "send", lambda _: answer)
    Round(warehouse.again(row), sender, threading.Event(), is_note_due=False).run()
    row = warehouse.again(row)
    assert (row.disabled_at is not None) is is_disabled
    assert row.next_try_at >= now + clock.HOUR
    assert sorted(retry.attempts for retry in progress.retries_of(row.id)) == [1, 2], "one retry, not both"


def test_an_organization_has_at_most_20_destinations(warehouse: Warehouse) -> None:
    for number in range(20):
        warehouse.add_webhook("https://erp.example/hook", name=f"ERP {number}")
    with pytest.raises(Conflict, match="At most 20 are allowed"):
        warehouse.add_webhook("https://erp.example/hook", name="one more")


def test_a_destination_without_room_for_further_events_waits_for_the_first_retry(
    warehouse: Warehouse, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent in this round, so the pause must be recorded anyway, or rounds would follow at once."""
    monkeypatch.setattr(delivery, "MOST_SET_ASIDE", 2)
    receiver.answer = lambda _: 400
    row = with_assets(warehouse, receiver, "P-1", "P-2")
    deliver(row)
    warehouse.add_asset("P-3")
    make_events()
    sent = len(receiver.received)
    with monkeypatch.context() as now:
        travel_to(now, clock.now())
        deliver(warehouse.again(row))
    assert len(receiver.received) == sent
    waiting = warehouse.again(row)
    assert waiting.last_error is not None
    assert "2 events are waiting" in waiting.last_error
    assert waiting.next_try_at == min(retry.next_try_at for retry in progress.retries_of(row.id))
