"""Writes that share a transaction are as isolated as separate ones."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest

from edge.database import group_commit
from edge.database.connection import close_database, execute, writing
from edge.database.group_commit import write_in_group
from edge.errors import Conflict


def put(number: int) -> int:
    execute("INSERT INTO unassigned_topic VALUES (?, 0, 0, 0, x'', NULL, 0)", (str(number),))
    return number


def kept() -> set[int]:
    return {int(row[0]) for row in execute("SELECT topic FROM unassigned_topic")}


def refuse(number: int) -> int:
    put(number)
    raise Conflict("refused after it had written")


def break_the_transaction(number: int) -> int:
    put(number)
    raise sqlite3.OperationalError("broken")


def all_at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Queue all writes before the first runs, and return their results."""
    outcomes: list[Any] = [None] * len(works)

    def run(place: int) -> None:
        try:
            outcomes[place] = write_in_group(works[place])
        except (Conflict, sqlite3.OperationalError) as error:
            outcomes[place] = str(error)
        finally:
            close_database()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(works))]
    with group_commit._commit_lock:
        for thread in threads:
            thread.start()
        while len(group_commit._waiting) < len(works):
            pass
    for thread in threads:
        thread.join()
    return outcomes


@pytest.mark.parametrize("bad", [refuse, break_the_transaction])
def test_a_failed_write_is_rolled_back_alone_and_raises_for_its_caller(
    store: object, bad: Callable[[int], int]
) -> None:
    works: list[Callable[[], Any]] = [lambda number=number: put(number) for number in range(20)]
    works[7] = lambda: bad(7)
    outcomes = all_at_once(works)
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [n for n in range(20) if n != 7]
    assert outcomes[7] in ("refused after it had written", "broken")
    assert kept() == set(range(20)) - {7}


def test_more_writes_than_fit_one_transaction_all_succeed(store: object) -> None:
    assert all_at_once([lambda number=number: put(number) for number in range(120)]) == list(range(120))
    assert kept() == set(range(120))


def test_inside_a_transaction_it_joins(store: object) -> None:
    with pytest.raises(Conflict), writing():
        refuse(write_in_group(lambda: put(1)) + 1)
    assert kept() == set()
