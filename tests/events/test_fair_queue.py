from __future__ import annotations

import threading
from typing import Any

import pytest

from edge.clock import SECOND
from edge.events import worker
from edge.events.destinations import Destination, DestinationKind
from edge.events.detection import Silence
from edge.events.fair_queue import FairQueue
from edge.events.worker import EventsPace, EventsWorker

OURS, THEIRS = 1, 2


def destination(no: int, organization_id: int) -> Destination:
    values: dict[str, Any] = dict.fromkeys(Destination._fields)
    kind = DestinationKind.WEBHOOK
    return Destination(
        **{**values, "no": no, "organization_id": organization_id, "name": f"Destination {no}", "kind": kind}
    )


def taken(fair_queue: FairQueue) -> int:
    row = fair_queue.take()
    assert row
    return row.no


def test_organizations_take_turns() -> None:
    fair_queue = FairQueue(3)
    rows = [destination(no, THEIRS) for no in range(10, 20)] + [destination(1, OURS), destination(2, OURS)]
    for row in rows:
        fair_queue.put(row)
    assert [taken(fair_queue) for _ in range(5)] == [10, 1, 11, 2, 12]  # and no more until one of them is done
    fair_queue.done(rows[0])
    assert taken(fair_queue) == 13


def test_close_wakes_waiting_threads() -> None:
    fair_queue = FairQueue(3)
    rows: list[Destination | None] = []
    waiting = threading.Thread(target=lambda: rows.append(fair_queue.take()))
    waiting.start()
    fair_queue.close()
    waiting.join(60)
    assert rows == [None]


def test_slow_receivers_of_one_organization_do_not_block_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four slow receivers once occupied all threads."""
    is_over, delivered, is_slow = threading.Event(), threading.Event(), threading.Semaphore(0)

    def deliver(_: EventsWorker, row: Destination) -> Destination | None:
        if row.organization_id == OURS:
            delivered.set()
            return None
        is_slow.release()
        is_over.wait(60)
        return row  # it has more events

    monkeypatch.setattr(EventsWorker, "_deliver", deliver)
    monkeypatch.setattr(worker, "close_database", lambda: None)
    one = EventsWorker(EventsPace(Silence(SECOND, SECOND), SECOND))
    senders = one._threads
    for thread in senders:
        thread.start()
    for no in range(10, 20):
        one._turns.put(destination(no, THEIRS))
    for _ in range(len(senders) - 1):
        assert is_slow.acquire(timeout=60)
    one._turns.put(destination(1, OURS))
    assert delivered.wait(60)
    one._turns.close()
    is_over.set()
    for thread in senders:
        thread.join(60)
