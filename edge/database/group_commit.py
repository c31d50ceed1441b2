"""Small writes of many requests in one transaction.

A durable commit costs far more than the writes in it, and only one can run at a time. While one is on its way to the
disk, the writes that arrive wait; the next of them to get the lock commits them all. Each is as isolated as in a
transaction of its own: a savepoint undoes the one that is refused, and nobody gets an answer before the commit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from edge.database.connection import database, writing
from edge.errors import Busy, EdgeError, Unavailable

Result = TypeVar("Result")

_MOST = 50  # writes in one transaction

_commit_lock = threading.Lock()
_waiting: deque[_Work] = deque()


class _Work:
    """One request's write, and what came of it."""

    __slots__ = ("do", "error", "is_done", "result")

    def __init__(self, do: Callable[[], Any]) -> None:
        self.do = do
        self.is_done = False
        self.result: Any = None
        self.error: Exception | None = None


def write_in_group(do: Callable[[], Result]) -> Result:
    """Run `do` in a durable transaction, perhaps with other writes and in another thread; its errors are raised here.

    Within a transaction it simply joins. `do` runs a second time if the shared transaction failed as a whole.
    """
    if database.in_transaction():
        return do()
    work = _Work(do)
    _waiting.append(work)
    with _commit_lock:
        while not work.is_done:
            _commit(_take())
    if work.error:
        raise work.error
    result: Result = work.result
    return result


def _take() -> list[_Work]:
    return [_waiting.popleft() for _ in range(min(len(_waiting), _MOST))]


def _commit(batch: list[_Work]) -> None:
    try:
        with writing():
            for work in batch:
                _attempt(work)
    except Exception as error:  # noqa: BLE001 -- raised again in the thread that asked for the write
        for work in batch:
            _write_alone(work, error if len(batch) == 1 or isinstance(error, Busy) else None)
    finally:
        for work in batch:
            work.is_done = True


def _attempt(work: _Work) -> None:
    """A refusal concerns one write only; anything else fails the whole transaction."""
    work.error = None
    try:
        with database.savepoint():
            work.result = work.do()
    except Unavailable:
        raise
    except EdgeError as error:
        work.error = error


def _write_alone(work: _Work, error: Exception | None) -> None:
    """After the shared transaction failed: the others must not suffer for the one that broke it."""
    work.error = error
    if error is None:
        try:
            with writing():
                work.result = work.do()
        except Exception as own:  # noqa: BLE001 -- raised again in the thread that asked for the write
            work.error = own
