"""Where locations overlap, a move needs evidence; and what was decided does not depend on the order of arrival.

Tests of edge/store/heard.py, edge/store/recent_reads.py, edge/store/retrace.py and edge/store/stay_changes.py.
"""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.clock import SECOND
from edge.store.evidence import Rule
from edge.store.heard import Weight
from edge.store.recent_reads import RecentReads
from edge.store.scans import reconsider, record_by_person
from edge.store.stay_changes import take_back
from tests.conftest import Cast
from tests.store.tracked_site import GAP, START, A, B, C, Read, Site, every, make_site, tell

examples = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def site(cast: Cast) -> Site:
    return make_site(cast.acme)


def test_an_asset_between_two_antennas_stays_with_the_stronger(site: Site) -> None:
    asset = tell(site, sorted([*every(0, 60, 0.5, A, -50), *every(0.2, 60, 0.5, B, -68)]))
    assert site.moves(asset) == [(0, A)]


def test_a_move_is_seen_within_five_seconds_although_the_old_place_still_hears_it(site: Site) -> None:
    before = [*every(0, 20, 0.5, A, -50), *every(0.2, 20, 0.5, B, -68)]
    after = [*every(20, 40, 0.5, A, -66), *every(20.2, 40, 0.5, B, -52)]
    asset = tell(site, sorted([*before, *after]))
    assert [row.place for row in site.history(asset)] == [A, B]
    assert 20 <= site.history(asset)[1].tenths / 10 <= 25


def test_a_move_to_where_nothing_else_hears_it_is_seen_within_five_seconds(site: Site) -> None:
    asset = tell(site, [*every(0, 20, 0.5, A), *every(20, 40, 0.5, B)])
    assert [row.place for row in site.history(asset)] == [A, B]
    assert 20 <= site.history(asset)[1].tenths / 10 <= 25


def test_ble_beacons_are_followed_within_fifteen_seconds(site: Site) -> None:
    reads = [*every(0, 60, 1, A, -70, Weight.BLE_ZONE), *every(60, 120, 1, B, -72, Weight.BLE_ZONE)]
    history = site.history(tell(site, sorted([*reads, *every(60.3, 120, 3, A, -84, Weight.BLE_ZONE)])))
    assert [row.place for row in history] == [A, B]
    assert 60 <= history[1].tenths / 10 <= 75


def test_a_single_read_after_a_long_silence_is_a_move_at_once(site: Site) -> None:
    asset = tell(site, [*every(0, 5, 0.5, A), Read(400, B, -75)])
    assert site.moves(asset) == [(0, A), (40, B)]
    assert site.history(asset)[1].rule is Rule.SILENT


def test_what_is_held_back_moves_last_seen_and_nothing_else(site: Site) -> None:
    asset = tell(site, [*every(0, 5, 0.5, A), Read(52, B, -75)])
    assert site.moves(asset) == [(0, A)]
    assert site.position(asset)[1] == START + 52 * SECOND // 10


def test_a_reader_that_repeats_a_tag_every_five_seconds_does_not_flap(site: Site) -> None:
    """Whichever of its antennas hears the tag first is told, so one read proves nothing."""
    reads = [Read(50 * number, (A, B, A, A, B, A, B, B)[number % 8], -58 - number % 3) for number in range(30)]
    assert site.moves(tell(site, reads)) == [(0, A)]


@pytest.mark.parametrize("window", [5, 10, 30])
@pytest.mark.parametrize(("strength", "reads_needed"), [(-55.0, 1), (-64.0, 1), (-66.0, 3), (None, 2)])
def test_of_a_reader_that_tells_of_a_tag_once_in_a_window_a_read_elsewhere_decides_if_it_is_strong_enough(
    site: Site, window: int, strength: float | None, reads_needed: int
) -> None:
    """It was heard at the one location every time, and is not any more, and never before at the other."""
    before = every(0, 12 * window, window, A, -55.0 if strength else None)
    asset = tell(site, [*before, *every(12 * window, 16 * window, window, B, strength)])
    assert site.moves(asset) == [(0, A), ((11 + reads_needed) * window, B)]
    assert site.history(asset)[1].rule is (Rule.NEW if reads_needed == 1 else Rule.STRONGER)


def test_a_strong_read_elsewhere_does_not_decide_where_the_locations_overlap(site: Site) -> None:
    reads = every(0, 60, 5, A)
    reads[6] = Read(300, B, -70)
    assert site.moves(tell(site, [*reads, Read(600, B, -50)])) == [(0, A)]


def test_ten_reads_in_a_row_at_the_weaker_of_two_that_overlap_are_chance(site: Site) -> None:
    """A reader of which either antenna may be the first to hear a tag once it tells of it again."""
    turns = [Read(50 * number, B if number % 2 else A, -76 if number % 2 else -46) for number in range(20)]
    weaker = [Read(1000 + 50 * number, B, -76) for number in range(11)]
    assert site.moves(tell(site, [*turns, *weaker, Read(1550, A, -46)])) == [(0, A)]


def test_which_of_two_reads_of_one_second_came_first_decides_nothing(site: Site) -> None:
    both = [Read(70, A, -60), Read(70, B, -50)]
    told = [[Read(0, A), Read(10, B, -45), Read(50, B, -60), *order, Read(110, B, -45)] for order in permutations(both)]
    first, second = (site.history(tell(site, reads)) for reads in told)
    assert first == second


def test_a_portal_is_passed_at_once_and_then_left_to_the_zone(site: Site) -> None:
    staging = every(0, 60, 0.5, A, -60)
    passing = every(20.2, 22, 0.5, B, -70, Weight.RFID_PORTAL)
    history = site.history(tell(site, sorted([*staging, *passing], key=lambda read: read.tenths)))
    assert [row.place for row in history] == [A, B, A]
    assert history[1].tenths == 202
    assert history[1].rule is Rule.PORTAL


def test_a_portal_that_goes_on_hearing_tells_of_one_passage(site: Site) -> None:
    reads = sorted([*every(0, 60, 0.5, A, -60), *every(0.2, 60, 0.5, B, -80, Weight.RFID_PORTAL)])
    assert [row.place for row in site.history(tell(site, reads))].count(B) <= 1


def test_every_read_of_a_direct_antenna_counts(site: Site) -> None:
    reads = sorted([*every(0, 10, 0.5, A, -50), Read(52, B, -80, Weight.DIRECT)])
    assert (5, B) in site.moves(tell(site, reads))


def test_a_person_counts_at_once_and_readers_take_half_a_minute_to_say_otherwise(site: Site) -> None:
    reads = sorted([*every(0, 60, 0.5, A, -60), Read(203, C, None, None)], key=lambda read: read.tenths)
    history = site.history(tell(site, reads))
    assert [(row.place, row.rule) for row in history][:2] == [(A, Rule.FIRST), (C, Rule.PERSON)]
    assert history[2].place == A
    assert 500 <= history[2].tenths <= 560


def test_without_a_gap_every_read_counts(site: Site) -> None:
    asset = tell(site, [Read(0, A), Read(1, B), Read(2, A)], gap=0)
    assert len(site.history(asset)) == 3


def test_a_restart_forgets_nothing(site: Site) -> None:
    reads = sorted([*every(0, 20, 0.5, A, -50), *every(20, 24, 0.5, B, -52), *every(20.1, 24, 1, A, -66)])
    whole = tell(site, reads)
    for cut in range(38, len(reads), 2):
        asset = tell(site, reads[:cut])
        tell(site, reads[cut:], asset_id=asset)
        assert site.history(asset) == site.history(whole)


@pytest.mark.parametrize("behind", [20, 60, 200, 700])
def test_what_a_gateway_tells_minutes_later_ends_in_the_history_it_would_have_given_in_order(
    site: Site, behind: int
) -> None:
    here = every(0, 120 + behind, 1, A, -60)
    there = every(60.3, 100.3, 1, B, -45)
    known = site.history(tell(site, sorted([*here, *there])))
    assert [row.place for row in known] == [A, B, A]
    late = tell(site, [*here, *there], cuts=range(20, len(here) + len(there), 20))
    assert site.history(late) == known


@pytest.mark.parametrize(
    "told",
    [
        [Read(0, A, None, None), Read(50, A, None, None), Read(57, A), Read(78, A)],
        [Read(0, A, None, None), Read(10, A, -45.0), Read(11, A, None, None)],
        [Read(0, A, None, None), Read(90, A, None, None), Read(97, A, -45.0), Read(104, A, -45.0)],
        [Read(0, A), Read(11, A), Read(12, A, None, None), Read(20, A, None, None)],
    ],
)
def test_a_persons_scan_that_comes_late_makes_nobody_see_the_asset_in_between(site: Site, told: list[Read]) -> None:
    known = site.history(tell(site, told))
    for order in permutations(told):
        assert site.history(tell(site, order)) == known


places = st.integers(0, 2)
weights = st.sampled_from([Weight.RFID_ZONE] * 6 + [Weight.BLE_ZONE, Weight.RFID_PORTAL, Weight.DIRECT])
some_reads = st.builds(Read, st.integers(0, 300), places, st.sampled_from([-45.0, -55.0, -65.0, -75.0, None]), weights)
scans_by_people = st.builds(Read, st.integers(0, 300), places, st.none(), st.none())
runs = st.builds(
    lambda start, length, place, rssi: every(start, start + length, 0.7, place, rssi),
    st.integers(0, 25), st.integers(1, 8), places, st.sampled_from([-45.0, -60.0, -75.0]),
)  # fmt: skip


@st.composite
def observed(draw: st.DrawFn, people: bool) -> list[Read]:
    """No two at once, so that there is one order."""
    reads = draw(st.lists(some_reads, max_size=12))
    for run in draw(st.lists(runs, min_size=1, max_size=4)):
        reads += run
    if people:
        reads += draw(st.lists(scans_by_people, max_size=2))
    return sorted({read.tenths: read for read in reads}.values(), key=lambda read: read.tenths)


cuts = st.lists(st.integers(0, 60), max_size=6)


@examples
@given(observed(people=False), st.randoms(use_true_random=False), cuts, cuts)
def test_shuffled_reads_give_the_history_they_would_have_given_in_order(
    site: Site, reads: list[Read], random: object, in_order: list[int], cut: list[int]
) -> None:
    shuffled = list(reads)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = tell(site, reads, in_order), tell(site, shuffled, cut)
    assert site.history(other) == site.history(one)
    assert site.position(other) == site.position(one)


@examples
@given(observed(people=False), cuts)
def test_without_room_for_what_was_heard_it_is_read_from_disk_and_decides_the_same(
    site: Site, reads: list[Read], cut: list[int]
) -> None:
    one, other = tell(site, reads, cut), tell(site, reads, cut, recent=RecentReads(most_bytes=0, counted_every=1))
    assert site.history(other) == site.history(one)
    assert site.position(other) == site.position(one)


@examples
@given(observed(people=True), st.randoms(use_true_random=False), cuts)
def test_the_same_with_scans_by_people_among_them(
    site: Site, reads: list[Read], random: object, cut: list[int]
) -> None:
    shuffled = list(reads)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = tell(site, reads), tell(site, shuffled, cut)
    assert site.history(other) == site.history(one)
    assert site.position(other) == site.position(one)


@examples
@given(observed(people=False), cuts)
def test_the_same_reads_again_change_nothing(site: Site, reads: list[Read], cut: list[int]) -> None:
    asset = tell(site, reads, cut)
    before = site.history(asset), site.position(asset)
    tell(site, reads, cut, asset_id=asset)
    assert (site.history(asset), site.position(asset)) == before


@examples
@given(observed(people=False), st.integers(0, 300), places, cuts)
def test_taking_back_a_persons_scan_leaves_what_the_readers_told(
    site: Site, reads: list[Read], tenths: int, place: int, cut: list[int]
) -> None:
    asset = tell(site, reads, cut)
    before = site.history(asset), site.position(asset)
    scan = site.scan(asset, Read(tenths, place, None, None))
    seq = record_by_person(scan)
    take_back(asset, scan.observed_at, seq, GAP)
    reconsider(asset, scan.observed_at)
    if tenths > reads[0].tenths:  # before the first read, nothing is known that could be decided anew
        assert (site.history(asset), site.position(asset)) == before
