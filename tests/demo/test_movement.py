"""Simulated items are at one location at a time, in order of time."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from edge.clock import SECOND
from edge.demo.movement import Sighting, sightings, walk, windows
from edge.demo.plan import Plan, Stop
from tests.demo.conftest import BEGIN, LASTING, chance

PLACES = st.lists(st.sampled_from("ABCD"), max_size=3)
SPANS = st.tuples(st.floats(1, 50), st.floats(50, 500))
ROUTES = st.lists(st.builds(Stop, PLACES, SPANS), min_size=1, max_size=5).filter(
    lambda route: any(stop.at for stop in route)
)


@given(ROUTES, st.sampled_from([None, "A", "Z"]), st.integers())
def test_stays_follow_each_other_from_the_beginning_on(route: list[Stop], place: str | None, seed: int) -> None:
    stays = list(islice(walk(route, BEGIN, place, chance(seed)), 20))
    assert stays[0].begin >= BEGIN
    assert all(stay.begin < stay.end for stay in stays)
    assert all(earlier.end < later.begin for earlier, later in pairwise(stays))


@given(ROUTES, st.integers())
def test_a_walk_continues_at_the_last_location(route: list[Stop], seed: int) -> None:
    for place in {place for stop in route for place in stop.at}:
        first = next(walk(route, BEGIN, place, chance(seed)))
        assert (first.location, first.begin) == (place, BEGIN)


def test_sightings_come_in_order_of_time(reads: list[Sighting]) -> None:
    assert reads[0].at >= BEGIN
    assert all(earlier.at <= later.at for earlier, later in pairwise(reads))


def test_every_antenna_and_radio_hears_something(plan: Plan, reads: list[Sighting]) -> None:
    read_by = {(sighting.receiver.reader.name, sighting.receiver.antenna) for sighting in reads}
    expected = {(reader.name, port) for reader in plan.simulated for port in reader.antennas}
    assert read_by == expected | {(reader.name, None) for reader in plan.simulated if reader.location}


def test_the_rate_is_lively_but_modest(plan: Plan, reads: list[Sighting]) -> None:
    assert 8 <= len(reads) / (LASTING / SECOND) <= 20
    movers = Counter(sighting.item.key for sighting in reads)
    assert len(movers) > 180


def test_windows_hold_every_sighting_once_in_its_time(reads: list[Sighting]) -> None:
    cut = list(windows(iter(reads), BEGIN, lambda begin: (begin // SECOND % 3 + 1) * SECOND))
    kept = [sighting for window in cut for sighting in window.sightings]
    assert kept == reads[: len(kept)]
    assert reads[len(kept) :] == [] or reads[len(kept)].at >= cut[-1].end
    for earlier, later in pairwise(cut):
        assert all(earlier.end <= sighting.at < later.end for sighting in later.sightings)


def test_items_continue_from_their_last_location(plan: Plan) -> None:
    stream = sightings(plan, BEGIN, {"PAL-007": "AISLE-B"}, lambda _at, _reader: 5.0, chance(3))
    first = next(sighting for sighting in stream if sighting.item.key == "PAL-007")
    assert first.receiver.reader.antennas[first.receiver.antenna or 0] == "AISLE-B"
    assert first.at < BEGIN + 2 * SECOND


def test_an_item_is_read_only_on_its_route(plan: Plan) -> None:
    def staying_at(key: str, *places: str) -> list[str | None]:
        item = next(item for item in plan.items if item.key == key)
        one = plan._replace(items=[item._replace(route=[Stop([place], (10, 20)) for place in places])])
        stream = sightings(one, BEGIN, {}, lambda _at, _reader: 5.0, chance(1))
        return [next(stream).receiver.reader.location for _ in range(20)]

    assert "SERVICE" not in staying_at("PAL-001", "SERVICE", "AISLE-A")
    assert set(staying_at("TOOL-001", "SERVICE", "AISLE-A")) == {"SERVICE"}
