"""Organizations take turns, and none waits for more than one turn of each other."""

from __future__ import annotations

import threading
from collections.abc import Callable

from edge.fair_turns import FairTurns, Turn
from tests.service import wait_for

LONG = 30.0


def joined(turns: FairTurns, organization_id: int) -> Turn:
    turn = turns.join(organization_id)
    assert turn
    return turn


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_an_organization_that_comes_last_is_next_however_much_another_one_wants() -> None:
    turns = FairTurns(most_of_organization=5)
    greedy = [joined(turns, 1) for _ in range(5)]
    other = joined(turns, 2)
    assert turns.join(1) is None
    assert turns.wait(greedy[0], 0)
    assert not turns.wait(other, 0)
    turns.leave(greedy[0])
    again = joined(turns, 1)
    order = []
    for _ in range(6):
        [current] = [turn for turn in (*greedy[1:], other, again) if turns.is_current(turn)]
        order.append(current.organization_id)
        turns.leave(current)
    assert order == [1, 2, 1, 1, 1, 1]
    assert turns.is_free()


def test_long_work_gives_way_to_each_other_one_once() -> None:
    turns, order = FairTurns(), list[int]()
    long, other, third = joined(turns, 1), joined(turns, 2), joined(turns, 3)

    def short(turn: Turn) -> None:
        assert turns.wait(turn, LONG)
        order.append(turn.organization_id)
        turns.leave(turn)

    threads = [in_thread(lambda turn=turn: short(turn)) for turn in (other, third)]  # type: ignore[misc]
    assert turns.wait(long, 0)
    turns.give_way(long)
    order.append(1)
    turns.give_way(long)  # nobody waits
    turns.leave(long)
    for thread in threads:
        thread.join(LONG)
    assert order == [2, 3, 1]
    assert turns.is_free()


def test_who_gives_up_leaves_the_line() -> None:
    turns = FairTurns()
    current = joined(turns, 1)
    with turns.turn(2, 0.01) as has_turn:
        assert not has_turn
    waiting = joined(turns, 3)
    turns.leave(current)
    assert turns.is_current(waiting)


def test_the_line_is_bounded() -> None:
    turns = FairTurns(most=2)
    for organization_id in range(3):
        joined(turns, organization_id)
    assert turns.join(9) is None
    with turns.turn(9, LONG) as has_turn:
        assert not has_turn


def test_one_at_a_time_works_while_many_wait() -> None:
    turns, alone, done = FairTurns(most_of_organization=9), threading.Lock(), []

    def work(organization_id: int) -> None:
        with turns.turn(organization_id, LONG) as has_turn:
            assert has_turn
            assert alone.acquire(blocking=False)
            done.append(organization_id)
            alone.release()

    threads = [in_thread(lambda number=number: work(number % 4)) for number in range(32)]  # type: ignore[misc]
    for thread in threads:
        thread.join(LONG)
    wait_for(turns.is_free, LONG)
    assert len(done) == 32
