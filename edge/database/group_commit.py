"""Group commit: small writes of many requests in one transaction.

A durable commit costs far more than its writes, and only one can run at a time. Writes that arrive during a commit
wait, and the next commit takes them all. Each write is isolated by a savepoint, which undoes a refused one. No request
is answered before the commit. Decision record: web/manual/decisions/group-commit.md
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from edge.database.connection import database, writing
from edge.errors import EdgeError, Unavailable

Result = TypeVar("Result")

_MOST = 50  # writes per transaction

_commit_lock = threading.Lock()
_waiting: deque[_Work] = deque()


@dataclass(slots=True)
class _Work:
    """One request's write and its result."""

    do: Callable[[], Any]
    is_done: bool = False
    result: Any = None
    error: Exception | None = None


def write_in_group(do: Callable[[], Result]) -> Result:
    """Run `do` in a durable transaction, possibly grouped with other writes in another thread. Raises its errors.

    Inside a transaction it runs directly. `do` runs again if the shared transaction failed as a whole.
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
            _write_alone(work, error if len(batch) == 1 else None)
    finally:
        for work in batch:
            work.is_done = True


def _attempt(work: _Work) -> None:
    """Run one write in a savepoint. A refusal affects only this write; other errors fail the whole transaction."""
    work.error = None
    try:
        with database.savepoint():
            work.result = work.do()
    except Unavailable:
        raise
    except EdgeError as error:
        work.error = error


def _write_alone(work: _Work, error: Exception | None) -> None:
    """Retry one write after the shared transaction failed, so that one bad write does not fail the others."""
    work.error = error
    if error is None:
        try:
            with writing():
                work.result = work.do()
        except Exception as own:  # noqa: BLE001 -- raised again in the thread that asked for the write
            work.error = own
