from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.pages.tracking.timeline import LEAST_WIDTH, WIDTH, strip
from edge.tracking.report import Move


def moves(stays: list[tuple[int, int]]) -> list[Move]:
    """(place, length) from the oldest on, as the history gives them: newest first."""
    found, at = [], 1_000_000
    for place, length in stays:
        found.append(Move(at, 0, at, place, f"P-{place}", f"Place {place}", True, 1, "R", None, None, 0, 0, None))
        at += length
    return found[::-1]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 10**12)), min_size=2, max_size=30), st.integers(1, 10**12))
def test_the_strip_has_every_stay_in_order_and_ends_now(stays: list[tuple[int, int]], last: int) -> None:
    history = moves(stays)
    now = history[0].observed_at + last
    found = strip(history, now)
    assert found
    assert (found.stays[0].since, found.stays[-1].until) == (found.since, now)
    for one, following in zip(found.stays, found.stays[1:], strict=False):
        assert one.until == following.since
        assert one.name != following.name
        assert one.x <= following.x
    assert all(stay.x <= WIDTH and stay.width >= min(LEAST_WIDTH, WIDTH) - 0.05 for stay in found.stays)
    assert {stay.name for stay in found.stays} == {move.location_name for move in history}


def test_one_stay_needs_no_strip() -> None:
    assert strip(moves([(1, 5)]), 2_000_000) is None
    assert strip([], 2_000_000) is None


def test_two_locations_of_one_name_are_two_stays() -> None:
    history = [move._replace(location_name="Bay 1") for move in moves([(1, 5), (2, 5), (2, 5)])]
    found = strip(history, 2_000_000)
    assert found
    assert [stay.color for stay in found.stays] == [0, 1]
    assert found.legend == [("Bay 1", 0), ("Bay 1", 1)]
