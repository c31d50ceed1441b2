"""The events thread: its follower, its stop, and what it says of itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edge.errors import Unavailable
from edge.events import destinations, detection, worker
from edge.events.delivery_threads import DeliveryThreads
from edge.events.destinations import Destination
from edge.events.standby_thread import StandbyThread
from edge.events.worker import UNEXPECTED_SECONDS, EventsWorker
from tests.events.conftest import PACE, Warehouse


class Follower:
    def __init__(self) -> None:
        self.calls = 0
        self.fault: Exception | None = None

    def is_needed(self) -> bool:
        return True

    def follow(self) -> None:
        self.calls += 1
        if self.fault:
            raise self.fault

    def rest(self) -> None: ...


@pytest.mark.parametrize(("fault", "wait"), [(Unavailable("full"), 0.1), (ValueError("?"), 1.0)])
def test_a_failing_follower_is_called_again_after_a_pause(
    fault: Exception, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now[0]))
    follower = Follower()
    one = EventsWorker(PACE, follower=follower)
    one._follow()
    one._follow()
    assert follower.calls == 2
    follower.fault = fault
    one._follow()
    one._follow()
    assert follower.calls == 3
    now[0] += wait * UNEXPECTED_SECONDS
    one._follow()
    assert follower.calls == 4


def test_event_logging_does_not_stop_for_a_destination_added_during_the_look(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled, looked = destinations.KIND.enabled, []

    def enabled_before_it_was_added() -> list[Destination]:
        looked.append(1)
        return [] if len(looked) == 1 else enabled()

    row = warehouse.add_webhook("https://erp.example/")
    monkeypatch.setattr(type(destinations.KIND), "enabled", lambda _: enabled_before_it_was_added())
    EventsWorker(PACE)._look()
    assert detection.is_running()
    destinations.remove(warehouse.actor, row.no)
    EventsWorker(PACE)._look()
    assert not detection.is_running()


def test_a_worker_that_has_not_looked_yet_has_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    one = EventsWorker(PACE)
    assert "stopped" in one.trouble()
    monkeypatch.setattr(StandbyThread, "is_running", lambda _: True)
    monkeypatch.setattr(DeliveryThreads, "are_running", lambda _: True)
    assert one.trouble() == ""


def test_a_thread_that_is_not_needed_any_more_has_no_trouble() -> None:
    is_needed = [True, False]

    def fail() -> float:
        raise Unavailable("full")

    one = StandbyThread("lamps", lambda: is_needed.pop(0), fail)
    one.wake()
    one._run()
    assert one.trouble() == ""


def test_dropping_old_events_ends_when_the_service_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def drop_old(_before: int, limit: int) -> int:
        calls.append(limit)
        return limit if len(calls) < 10 else 0

    monkeypatch.setattr(worker.events, "drop_old", drop_old)
    one = EventsWorker(PACE)
    one._stopping.set()
    one._trim()
    assert len(calls) == 1
