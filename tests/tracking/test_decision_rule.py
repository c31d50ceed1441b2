"""With overlapping locations a move needs evidence, and the result does not depend on the order of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.clock import SECOND
from edge.database.connection import writing
from edge.tracking import recent_reads
from edge.tracking.decision_rule import Lead, Rule, lead
from edge.tracking.late_reads import take_back
from edge.tracking.packed_reads import ALWAYS, Recent
from edge.tracking.positions import reconsider, record, record_by_person
from edge.tracking.recent_reads import RecentReads, Sign
from edge.tracking.signal_strength import Weight
from edge.tracking.signs import GOODBYE, OTHERS
from tests.conftest import Cast
from tests.database.tracked_site import GAP, START, A, B, C, Read, Row, Site, every, make_site, settle_until, tell

examples = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def site(cast: Cast) -> Site:
    return make_site(cast.acme)


@pytest.fixture
def own_readers(cast: Cast) -> Site:
    return make_site(cast.acme, count=3)


def signs_of(site: Site, place: int, seconds: Iterable[int]) -> list[Sign]:
    """Return signs of the reader in these seconds, from reads of other tags."""
    return [(site.reader_ids[place], START // SECOND + second, OTHERS) for second in seconds]


def hear(site: Site, recent: RecentReads, signs: Sequence[Sign], until: float) -> None:
    with writing():
        recent.refresh()
        record([], GAP, recent, signs, START)
        recent.done()
    settle_until(recent, until)


def test_an_asset_between_two_antennas_stays_with_the_stronger(site: Site) -> None:
    asset = tell(site, sorted([*every(0, 60, 0.5, A, -50), *every(0.2, 60, 0.5, B, -68)]))
    assert site.moves(asset) == [(0, A)]


def test_a_move_is_detected_within_5_s_despite_reads_at_the_old_location(site: Site) -> None:
    before = [*every(0, 20, 0.5, A, -50), *every(0.2, 20, 0.5, B, -68)]
    after = [*every(20, 40, 0.5, A, -66), *every(20.2, 40, 0.5, B, -52)]
    asset = tell(site, sorted([*before, *after]))
    assert [row.place for row in site.history(asset)] == [A, B]
    assert 20 <= site.history(asset)[1].tenths / 10 <= 25


def test_a_move_without_overlap_is_detected_within_five_seconds(site: Site) -> None:
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


@pytest.mark.parametrize(("count", "seconds"), [(3, 3), (1, 60)])
def test_a_held_read_counts_after_enough_silence_at_the_previous_location(
    site: Site, own_readers: Site, count: int, seconds: int
) -> None:
    where, recent = own_readers if count == 3 else site, RecentReads()
    asset = tell(where, [*every(0, 5, 0.5, A), Read(52, B, -75)], recent=recent, until=5 + seconds - 1)
    assert where.moves(asset) == [(0, A)]
    assert where.position(asset)[1] == START + 45 * SECOND // 10, "the newest scan is at A"
    settle_until(recent, 5 + seconds)
    assert where.history(asset)[1] == Row(52, B, 0, Rule.SETTLED)
    assert where.position(asset)[1] == START + 52 * SECOND // 10


def test_a_held_read_is_decided_after_a_restart(own_readers: Site) -> None:
    asset = tell(own_readers, [*every(0, 5, 0.5, A), Read(52, B, -75)], until=0)
    settle_until(RecentReads(), 60)
    assert own_readers.moves(asset) == [(0, A), (5, B)]


def test_a_read_held_longer_than_reads_are_kept_is_still_decided(own_readers: Site) -> None:
    """The reader of A is out: the read at B counts once that reader is back and does not read the asset."""
    recent, there = RecentReads(), signs_of(own_readers, A, range(70))
    asset = tell(own_readers, [*every(60, 65, 0.5, A), Read(722, B, -75)], recent=recent, until=300, signs=there)
    assert own_readers.moves(asset) == [(60, A)]
    tell(own_readers, every(100, 2500, 30, C), range(2, 80, 2), recent=recent, until=0)
    assert not recent_reads.was_read(asset, START)
    recent = RecentReads()
    hear(own_readers, recent, signs_of(own_readers, A, range(2600, 2602)), until=2601)
    assert own_readers.moves(asset) == [(60, A)]
    hear(own_readers, recent, signs_of(own_readers, A, range(2602, 2610)), until=2620)
    assert own_readers.moves(asset) == [(60, A), (72, B)]


def test_a_late_read_undoes_a_decision_by_silence(own_readers: Site) -> None:
    reads, recent = [*every(0, 5, 0.5, A), Read(52, B, -75)], RecentReads()
    asset = tell(own_readers, reads, recent=recent, until=30)
    assert own_readers.moves(asset) == [(0, A), (5, B)]
    tell(own_readers, [Read(70, A)], recent=recent, asset_id=asset)
    assert own_readers.moves(asset) == [(0, A)]


def test_held_reads_count_at_their_own_time_once_evidence_decides(site: Site) -> None:
    asset = tell(site, [*every(0, 20, 0.5, A), *every(20.3, 40, 1, B)])
    assert site.history(asset) == [Row(0, A, 195, Rule.FIRST), Row(203, B, 190, Rule.STRONGER)]


def test_a_reader_that_repeats_a_tag_every_five_seconds_does_not_flap(site: Site) -> None:
    """Each report names the antenna that read the tag first, so one read proves nothing."""
    reads = [Read(50 * number, (A, B, A, A, B, A, B, B)[number % 8], -58 - number % 3) for number in range(30)]
    assert site.moves(tell(site, reads)) == [(0, A)]


@pytest.mark.parametrize("window", [5, 10, 30])
@pytest.mark.parametrize("strength", [-55.0, -66.0, None])
@pytest.mark.parametrize("is_one_reader", [True, False])
def test_a_few_reads_decide_if_readers_report_a_tag_once_per_window(
    site: Site, own_readers: Site, window: int, strength: float | None, is_one_reader: bool
) -> None:
    where = site if is_one_reader else own_readers
    before = every(0, 12 * window, window, A, -55.0 if strength else None)
    asset = tell(where, [*before, *every(12 * window, 16 * window, window, B, strength)])
    assert where.moves(asset) == [(0, A), (12 * window, B)]
    assert where.history(asset)[1].rule is Rule.STRONGER


@pytest.mark.parametrize("is_one_reader", [True, False])
def test_one_read_elsewhere_decides_nothing_if_the_location_reads_again(
    site: Site, own_readers: Site, is_one_reader: bool
) -> None:
    where = site if is_one_reader else own_readers
    reads = [*every(0, 60, 5, A), Read(600, B), *every(65, 120, 5, A)]
    assert where.moves(tell(where, reads)) == [(0, A)]


def test_a_strong_read_does_not_decide_between_overlapping_locations(own_readers: Site) -> None:
    reads = every(0, 60, 5, A)
    reads[6] = Read(300, B, -70)
    assert own_readers.moves(tell(own_readers, [*reads, Read(600, B, -50), Read(620, A)])) == [(0, A)]


def test_ten_reads_at_the_weaker_of_two_overlapping_antennas_are_chance(site: Site) -> None:
    """Either antenna of the reader may be the first to read the asset when the reader reports it again."""
    turns = [Read(50 * number, B if number % 2 else A, -76 if number % 2 else -46) for number in range(20)]
    weaker = [Read(1000 + 50 * number, B, -76) for number in range(11)]
    assert site.moves(tell(site, [*turns, *weaker, Read(1550, A, -46)])) == [(0, A)]


def test_the_order_of_two_reads_within_one_second_does_not_matter(site: Site) -> None:
    both = [Read(70, A, -60), Read(70, B, -50)]
    orders = [
        [Read(0, A), Read(10, B, -45), Read(50, B, -60), *order, Read(110, B, -45)] for order in permutations(both)
    ]
    first, second = (site.history(tell(site, reads)) for reads in orders)
    assert first == second


def test_a_portal_is_passed_at_once_and_then_competes_with_the_zone(site: Site) -> None:
    staging = every(0, 60, 0.5, A, -60)
    passing = every(20.2, 22, 0.5, B, -70, Weight.RFID_PORTAL)
    history = site.history(tell(site, sorted([*staging, *passing], key=lambda read: read.tenths)))
    assert [row.place for row in history] == [A, B, A]
    assert history[1].tenths == 202
    assert history[1].rule is Rule.PORTAL


def test_a_stray_read_of_a_portal_is_ignored(site: Site, own_readers: Site) -> None:
    """A pallet is read every second, and once by a distant door."""
    reads = sorted([*every(0, 60, 1, A, -45), Read(305, B, -72, Weight.RFID_PORTAL)], key=lambda read: read.tenths)
    for where in (site, own_readers):
        asset = tell(where, reads)
        assert where.moves(asset) == [(0, A)]
        assert where.position(asset)[1] == START + 59 * SECOND


@pytest.mark.parametrize(("stray", "at"), [(-72, 298), (-72, 321), (-58, 321)])
def test_the_far_weaker_of_two_portals_does_not_count(site: Site, stray: float, at: int) -> None:
    passing = [Read(300, B, -50, Weight.RFID_PORTAL), Read(at, C, stray, Weight.RFID_PORTAL)]
    asset = tell(site, sorted([*every(0, 20, 1, A), *passing], key=lambda read: read.tenths))
    assert [row.place for row in site.history(asset)] == ([A, B] if stray < -60 else [A, B, C])


def test_a_passage_is_decided_three_seconds_later_at_its_own_time(site: Site) -> None:
    recent = RecentReads()
    asset = tell(site, [*every(0, 20, 1, A), Read(300, B, -50, Weight.RFID_PORTAL)], recent=recent, until=32)
    assert site.moves(asset) == [(0, A)]
    settle_until(recent, 33)
    assert site.history(asset)[1] == Row(300, B, 0, Rule.PORTAL)


@pytest.mark.parametrize("says_goodbye", [True, False])
@pytest.mark.parametrize("weaker", [-75.0, -60.0])
def test_while_a_whole_reader_is_out_its_silence_is_no_evidence(
    own_readers: Site, says_goodbye: bool, weaker: float
) -> None:
    """The reader reboots for 40 s, or stays out; others read its assets, but weaker."""
    there = signs_of(own_readers, A, [*range(120), *range(160, 200)])
    if says_goodbye:
        there = [*there[:10], (own_readers.reader_ids[A], START // SECOND + 119, GOODBYE), *there[-40:]]
    reads = [*every(0, 119, 1, A, -50), *every(100.5, 200, 1, B, weaker), *every(160, 200, 1, A, -50)]
    assert len(own_readers.moves(tell(own_readers, sorted(reads)))) > 1, "of a reader that is there it is"
    asset = tell(own_readers, sorted(reads), signs=there)
    assert own_readers.moves(asset) == [(0, A)]


def test_during_a_long_outage_an_asset_follows_the_strongest_reads(own_readers: Site) -> None:
    there = signs_of(own_readers, A, range(120))
    reads = [*every(0, 119, 1, A, -50), *every(150, 400, 1, B, -52)]
    assert [place for _, place in own_readers.moves(tell(own_readers, reads, signs=there))] == [A, B]


def test_a_burst_that_fills_the_memory_is_decided_as_a_whole(site: Site) -> None:
    """A gateway was disconnected for a quarter of an hour, and then sends 60 reads at a time."""
    here = every(0, 890, 1, A, -55)
    there = [*every(100.3, 130.3, 1, B, -45), *every(400.3, 800.3, 7, B, -62)]
    known = site.history(tell(site, sorted([*here, *there])))
    late = tell(site, [*every(880, 890, 1, A, -55), *here[:880], *there], cuts=range(10, 2000, 60))
    assert site.history(late) == known


def test_repeated_reads_of_a_portal_are_one_passage(site: Site) -> None:
    reads = sorted([*every(0, 60, 0.5, A, -60), *every(0.2, 60, 0.5, B, -80, Weight.RFID_PORTAL)])
    assert [row.place for row in site.history(tell(site, reads))].count(B) <= 1


def test_every_read_of_a_direct_antenna_counts(site: Site) -> None:
    reads = sorted([*every(0, 10, 0.5, A, -50), Read(52, B, -80, Weight.DIRECT)])
    assert (5, B) in site.moves(tell(site, reads))


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_two_moves_by_direct_antennas_in_one_second_are_two_rows(site: Site, order: tuple[int, ...]) -> None:
    """For any order of arrival, and also if they are the first reads of the asset."""
    reads = [Read(at, place, None, Weight.DIRECT) for at, place in ((50, A), (602, B), (604, A), (607, C))]
    asset = tell(site, [reads[number] for number in order], [1, 2, 3])
    assert [(row.tenths, row.place) for row in site.history(asset)] == [(50, A), (602, B), (604, A), (607, C)]
    first = tell(site, [reads[number] for number in order if number], [1, 2])
    assert [(row.tenths, row.place) for row in site.history(first)] == [(602, B), (604, A), (607, C)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_direct_antenna_that_reads_again_in_the_same_second_has_the_asset_back(
    site: Site, order: tuple[int, ...]
) -> None:
    reads = [Read(at, place, -50, Weight.DIRECT) for at, place in ((600, A), (602, B), (604, A))]
    asset = tell(site, [Read(50, A, -50, Weight.DIRECT), *(reads[number] for number in order)], [1, 2, 3])
    assert [(row.tenths, row.place) for row in site.history(asset)] == [(50, A), (602, B), (604, A)]


@pytest.mark.parametrize(("first", "second"), [(A, B), (B, A)])
def test_of_equal_reads_in_one_second_the_earlier_counts(site: Site, first: int, second: int) -> None:
    """Not the one with the lower id, which is random at each site."""
    assert site.moves(tell(site, [Read(52, second, None), Read(50, first, None)])) == [(5, first)]


def test_a_persons_scan_counts_at_once_and_holds_for_half_a_minute(site: Site) -> None:
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
def test_reads_delayed_by_minutes_give_the_same_history_as_in_order(site: Site, behind: int) -> None:
    here = every(0, 120 + behind, 1, A, -60)
    there = every(60.3, 100.3, 1, B, -45)
    known = site.history(tell(site, sorted([*here, *there])))
    assert [row.place for row in known] == [A, B, A]
    late = tell(site, [*here, *there], cuts=range(20, len(here) + len(there), 20))
    assert site.history(late) == known


@pytest.mark.parametrize(
    "example",
    [
        [Read(0, A, None, None), Read(50, A, None, None), Read(57, A), Read(78, A)],
        [Read(0, A, None, None), Read(10, A, -45.0), Read(11, A, None, None)],
        [Read(0, A, None, None), Read(90, A, None, None), Read(97, A, -45.0), Read(104, A, -45.0)],
        [Read(0, A), Read(11, A), Read(12, A, None, None), Read(20, A, None, None)],
    ],
)
def test_a_late_scan_by_a_person_adds_no_sightings(site: Site, example: list[Read]) -> None:
    known = site.history(tell(site, example))
    for order in permutations(example):
        assert site.history(tell(site, order)) == known


def test_a_persons_scan_stays_while_an_older_read_of_a_portal_is_undecided(site: Site) -> None:
    example = [Read(0, B), Read(192, A, -55.0, Weight.RFID_PORTAL), Read(244, B, None, None), Read(100, C, -80.0)]
    late, in_order = tell(site, example), tell(site, sorted(example))
    assert [row.tenths for row in site.history(late) if row.rule == Rule.PERSON] == [244]
    assert site.history(late) == site.history(in_order)


def test_reads_before_a_long_pause_do_not_count_after_it() -> None:
    """Memory drops the reads of an idle asset, which must not change decisions."""
    before, after = [(second, A) for second in range(400, 410)], [(second, B) for second in range(711, 716)]
    assert lead_of([*before, *after]) == lead_of(after)


def lead_of(reads: Iterable[tuple[int, int]]) -> Lead:
    """Return the lead of B over A."""
    recent = Recent(ALWAYS)
    for second, place in reads:
        recent.add(second * SECOND, place, -50.0)
    return lead(recent.detections, len(recent.detections), A, B, 0)


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
    """Generate reads at different times, which have one order."""
    reads = draw(st.lists(some_reads, max_size=12))
    for run in draw(st.lists(runs, min_size=1, max_size=4)):
        reads += run
    if people:
        reads += draw(st.lists(scans_by_people, max_size=2))
    return sorted({read.tenths: read for read in reads}.values(), key=lambda read: read.tenths)


cuts = st.lists(st.integers(0, 60), max_size=6)


@examples
@given(observed(people=False), st.randoms(use_true_random=False), cuts, cuts)
def test_shuffled_reads_give_the_same_history_as_in_order(
    site: Site, reads: list[Read], random: object, in_order: list[int], cut: list[int]
) -> None:
    shuffled = list(reads)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = tell(site, reads, in_order), tell(site, shuffled, cut)
    assert site.history(other) == site.history(one)
    assert site.position(other) == site.position(one)


@examples
@given(observed(people=False), cuts)
def test_with_little_memory_reads_come_from_disk_and_decide_the_same(
    site: Site, reads: list[Read], cut: list[int]
) -> None:
    one, other = tell(site, reads, cut), tell(site, reads, cut, recent=RecentReads(most_bytes=0, counted_every=1))
    assert site.history(other) == site.history(one)
    assert site.position(other) == site.position(one)


@examples
@given(observed(people=True), st.randoms(use_true_random=False), cuts)
def test_shuffled_reads_with_scans_by_people_give_the_same_history(
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
def test_undoing_a_persons_scan_leaves_the_readers_history(
    site: Site, reads: list[Read], tenths: int, place: int, cut: list[int]
) -> None:
    asset = tell(site, reads, cut)
    before = site.history(asset), site.position(asset)
    scan = site.scan(asset, Read(tenths, place, None, None))
    seq = record_by_person(scan)
    take_back(asset, scan.observed_at, seq, GAP)
    reconsider(asset, scan.observed_at, is_undone=True)
    assert (site.history(asset), site.position(asset)) == before


def test_a_read_after_the_gap_gets_its_own_row_once_the_scan_between_is_undone(site: Site) -> None:
    asset = tell(site, [Read(310, A, None, None), Read(3550, A)])
    scan = site.scan(asset, Read(3510, A, None, None))
    seq = record_by_person(scan)
    assert len(site.history(asset)) == 2
    take_back(asset, scan.observed_at, seq, GAP)
    reconsider(asset, scan.observed_at, is_undone=True)
    assert site.history(asset) == [Row(310, A, 0, Rule.PERSON), Row(3550, A, 0, Rule.AGAIN)]


@examples
@given(observed(people=False), st.integers(0, 300), places, cuts, cuts)
def test_undoing_the_first_scan_of_an_asset_leaves_the_reads_it_held_back(
    site: Site, reads: list[Read], tenths: int, place: int, cut: list[int], in_order: list[int]
) -> None:
    known, asset, recent = tell(site, reads, in_order), site.new_asset(), RecentReads()
    scan = site.scan(asset, Read(tenths, place, None, None))
    seq = record_by_person(scan)
    tell(site, reads, cut, asset_id=asset, recent=recent)
    take_back(asset, scan.observed_at, seq, GAP)
    reconsider(asset, scan.observed_at, is_undone=True)
    settle_until(recent, 1e9)
    assert (site.history(asset), site.position(asset)) == (site.history(known), site.position(known))
