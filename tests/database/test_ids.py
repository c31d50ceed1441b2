"""Public ids: opaque, in range, unique over all types, never reused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.database.connection import close_database, writing
from edge.database.ids import MAX_ID, new_id, new_ids, permute

KEY = b"k" * 32
numbers = st.integers(1, MAX_ID)


@given(numbers)
def test_ids_are_in_the_range_of_json_numbers(number: int) -> None:
    """interface: Identifiers id; Limit id"""
    assert 1 <= permute(number, KEY) <= MAX_ID


@given(numbers, numbers)
def test_different_numbers_have_different_ids(one: int, other: int) -> None:
    assert (permute(one, KEY) == permute(other, KEY)) == (one == other)


def test_ids_are_distinct_and_reveal_no_order() -> None:
    """interface: Identifiers id"""
    ids = [permute(number, KEY) for number in range(1, 10_001)]
    assert len(set(ids)) == 10_000
    rising = sum(one < other for one, other in pairwise(ids))
    assert 4_500 < rising < 5_500


def test_two_databases_have_different_ids() -> None:
    assert [permute(number, KEY) for number in range(1, 9)] != [permute(number, b"x" * 32) for number in range(1, 9)]


def test_sixteen_threads_never_get_the_same_id(store: Path) -> None:
    def take(_: int) -> list[int]:
        taken = [new_id() for _ in range(20)] + new_ids(5)
        close_database()
        return taken

    with ThreadPoolExecutor(16) as pool:
        ids = [one for taken in pool.map(take, range(16)) for one in taken]
    assert len(set(ids)) == len(ids) == 16 * 25


def test_a_rollback_frees_its_ids(store: Path) -> None:
    lost = []

    def fail() -> None:
        with writing():
            lost.append(new_id())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert new_id() == lost[0]
