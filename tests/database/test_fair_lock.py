"""Whoever has waited longest gets the lock, even if the thread that releases it wants it again at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from edge.database.fair_lock import FairLock
from tests.service import wait_for

SOON = 30.0


def never() -> None:
    """Wait on."""


def queue_up(lock: FairLock, do: Callable[[], None]) -> threading.Thread:
    """Start a thread that waits for the lock; returns once it does."""

    def run() -> None:
        with lock.holding(SOON, never):
            do()

    ahead = lock.waiting
    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: lock.waiting == ahead + 1, SOON)
    return thread


def test_it_is_granted_in_the_order_of_the_requests() -> None:
    lock, order = FairLock(), list[int]()
    with lock.holding(SOON, never):
        threads = [queue_up(lock, lambda number=number: order.append(number)) for number in range(5)]  # type: ignore[misc]
    with lock.holding(SOON, never):
        order.append(5)
    for thread in threads:
        thread.join(SOON)
    assert order == [0, 1, 2, 3, 4, 5]


def test_who_gives_up_does_not_stop_those_behind() -> None:
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


def test_one_that_was_granted_to_who_gives_up_is_passed_on() -> None:
    """The lock is released in the very moment in which the wait ends."""
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


def test_an_error_within_the_block_releases_it() -> None:
    lock = FairLock()
    with pytest.raises(ZeroDivisionError), lock.holding(SOON, never):
        raise ZeroDivisionError
    with lock.holding(SOON, never):
        assert lock.waiting == 0
