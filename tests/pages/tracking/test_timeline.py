from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.pages.tracking.timeline import LEAST_WIDTH, WIDTH, strip
from edge.tracking.report import Move


def moves(stays: list[tuple[int, int]]) -> list[Move]:
    """Return history rows, newest first, from (place, length) pairs, oldest first."""
    result, at = [], 1_000_000
    for place, length in stays:
        result.append(Move(at, 0, at, place, f"P-{place}", f"Place {place}", True, 1, "R", None, None, 0, 0, None))
        at += length
    return result[::-1]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 10**12)), min_size=2, max_size=30), st.integers(1, 10**12))
def test_the_strip_has_every_stay_in_order_and_ends_now(stays: list[tuple[int, int]], last: int) -> None:
    history = moves(stays)
    now = history[0].observed_at + last
    result = strip(history, now)
    assert result
    assert (result.stays[0].since, result.stays[-1].until) == (result.since, now)
    for one, following in zip(result.stays, result.stays[1:], strict=False):
        assert one.until == following.since
        assert one.name != following.name
        assert one.x <= following.x
    assert all(stay.x <= WIDTH and stay.width >= min(LEAST_WIDTH, WIDTH) - 0.05 for stay in result.stays)
    assert {stay.name for stay in result.stays} == {move.location_name for move in history}


def test_one_stay_needs_no_strip() -> None:
    assert strip(moves([(1, 5)]), 2_000_000) is None
    assert strip([], 2_000_000) is None


def test_two_locations_with_the_same_name_are_two_stays() -> None:
    history = [move._replace(location_name="Bay 1") for move in moves([(1, 5), (2, 5), (2, 5)])]
    result = strip(history, 2_000_000)
    assert result
    assert [stay.color for stay in result.stays] == [0, 1]
    assert result.legend == [("Bay 1", 0), ("Bay 1", 1)]
