"""The longest-waiting thread gets the lock, even if the releasing thread requests it again immediately."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from edge.database.fair_lock import FairLock
from tests.service import wait_for

SOON = 30.0


def never() -> None:
    """Continue to wait."""


def queue_up(lock: FairLock, do: Callable[[], None]) -> threading.Thread:
    """Start a thread that waits for the lock, and return once it waits."""

    def run() -> None:
        with lock.holding(SOON, never):
            do()

    ahead = lock.waiting
    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: lock.waiting == ahead + 1, SOON)
    return thread


def test_the_lock_is_granted_in_request_order() -> None:
    lock, order = FairLock(), list[int]()
    with lock.holding(SOON, never):
        threads = [queue_up(lock, lambda number=number: order.append(number)) for number in range(5)]  # type: ignore[misc]
    with lock.holding(SOON, never):
        order.append(5)
    for thread in threads:
        thread.join(SOON)
    assert order == [0, 1, 2, 3, 4, 5]


def test_a_thread_that_gives_up_does_not_block_the_next() -> None:
    lock, order = FairLock(), list[str]()
    behind: list[threading.Thread] = []

    def give_up() -> None:
        behind.append(queue_up(lock, lambda: order.append("behind")))
        raise ZeroDivisionError

    def wait_in_vain() -> None:
        with pytest.raises(ZeroDivisionError), lock.holding(0.001, give_up):
            order.append("never")

    with lock.holding(SOON, never):
        thread = threading.Thread(target=wait_in_vain)
        thread.start()
        thread.join(SOON)
        assert lock.waiting == 1
    behind[0].join(SOON)
    assert order == ["behind"]


def test_a_lock_granted_while_giving_up_is_passed_on() -> None:
    """The lock is released at the moment the wait ends."""
    lock = FairLock()
    holder = lock.holding(SOON, never)

    def release_and_give_up() -> None:
        holder.__exit__(None, None, None)
        raise ZeroDivisionError

    holder.__enter__()
    with pytest.raises(ZeroDivisionError), lock.holding(0.001, release_and_give_up):
        pass
    with lock.holding(0.001, never):
        assert lock.waiting == 0


def test_an_error_in_the_block_releases_the_lock() -> None:
    lock = FairLock()
    with pytest.raises(ZeroDivisionError), lock.holding(SOON, never):
        raise ZeroDivisionError
    with lock.holding(SOON, never):
        assert lock.waiting == 0
