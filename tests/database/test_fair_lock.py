"""The longest-waiting thread gets the lock, even if the releasing thread requests it again immediately."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from edge.database.fair_lock import FairLock
from tests.service import wait_for

SOON = 60.0


def queue_up(lock: FairLock, do: Callable[[], None]) -> threading.Thread:
    """Start a thread that waits for the lock, and return once it waits."""

    def run() -> None:
        with lock.holding():
            do()

    ahead = lock.waiting
    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: lock.waiting == ahead + 1, SOON)
    return thread


def test_the_lock_is_granted_in_request_order() -> None:
    lock, order = FairLock(), list[int]()
    with lock.holding():
        threads = [queue_up(lock, lambda number=number: order.append(number)) for number in range(5)]  # type: ignore[misc]
    with lock.holding():
        order.append(5)
    for thread in threads:
        thread.join(SOON)
    assert order == [0, 1, 2, 3, 4, 5]


def test_an_error_in_the_block_releases_the_lock() -> None:
    lock = FairLock()
    with pytest.raises(ZeroDivisionError), lock.holding():
        raise ZeroDivisionError
    with lock.holding():
        assert lock.waiting == 0
