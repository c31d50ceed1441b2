from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from edge.events import delivery_threads
from edge.events.delivery_threads import SENDERS, DeliveryThreads, Turn
from tests.service import wait_for

OURS, THEIRS = 1, 2


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[DeliveryThreads]:
    monkeypatch.setattr(delivery_threads, "close_database", lambda: None)
    running = DeliveryThreads(lambda _: None)
    running.start()
    yield running
    running.stop()


def turn(no: int, organization_id: int) -> Turn:
    return Turn(organization_id, no, f"Destination {no}", lambda: False)


def taken(threads: DeliveryThreads) -> int:
    found = threads.take()
    assert found
    return int(found.name.split()[1])


def test_organizations_take_turns() -> None:
    threads = DeliveryThreads(lambda _: None)
    rows = [turn(no, THEIRS) for no in range(10, 20)] + [turn(1, OURS), turn(2, OURS)]
    for row in rows:
        threads.offer(row)
    assert [taken(threads) for _ in range(5)] == [10, 1, 11, 2, 12]  # and no more until one of them is done
    threads.done(rows[0])
    assert taken(threads) == 13


def test_the_stop_ends_waiting_threads(threads: DeliveryThreads) -> None:
    threads.stop()
    wait_for(lambda: not threads.are_running())


def test_slow_receivers_of_one_organization_do_not_block_another(threads: DeliveryThreads) -> None:
    """Four slow receivers once occupied all threads."""
    is_over, delivered, is_slow = threading.Event(), threading.Event(), threading.Semaphore(0)

    def serve_theirs() -> bool:
        is_slow.release()
        is_over.wait(60)
        return True  # it has more to send

    def serve_ours() -> bool:
        delivered.set()
        return False

    for no in range(10, 20):
        threads.offer(turn(no, THEIRS)._replace(serve=serve_theirs))
    for _ in range(SENDERS - 1):
        assert is_slow.acquire(timeout=60)
    threads.offer(turn(1, OURS)._replace(serve=serve_ours))
    assert delivered.wait(60)
    is_over.set()


def test_a_receiver_has_one_turn_at_a_time_and_pauses_after_an_unexpected_error(threads: DeliveryThreads) -> None:
    is_over, began, other = threading.Event(), threading.Semaphore(0), threading.Event()

    def fail() -> bool:
        began.release()
        is_over.wait(60)
        raise ValueError("unexpected")

    def serve_other() -> bool:
        other.set()
        return False

    threads.offer(turn(1, OURS)._replace(serve=fail))
    assert began.acquire(timeout=60)
    threads.offer(turn(1, OURS)._replace(serve=fail))
    is_over.set()
    wait_for(lambda: not threads.is_busy(1))
    threads.offer(turn(1, OURS)._replace(serve=fail))
    threads.offer(turn(2, OURS)._replace(serve=serve_other))
    assert other.wait(60)
    assert not began.acquire(blocking=False)
