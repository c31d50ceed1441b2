"""Positions and history reflect the observations, for any order of arrival."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute
from edge.readers import readers
from edge.records import assets, locations
from edge.tracking import late_reads, positions
from edge.tracking.late_reads import take_back
from edge.tracking.packed_reads import Recent
from edge.tracking.positions import record, record_by_person
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast

GAP = 300 * SECOND
START = 1_772_439_330 * SECOND

# The database is made once for each test; every example tracks an asset of its own.
examples = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Site(NamedTuple):
    organization_id: int
    reader_id: int
    places: list[int]

    def new_asset(self) -> int:
        return assets.create(shell(self.organization_id), name="pallet").id

    def scan(self, asset_id: int, second: int, place: int, *, by_person: bool = False) -> Scan:
        at = START + second * SECOND
        reader_id = None if by_person else self.reader_id
        return Scan(
            self.organization_id, asset_id, self.places[place], reader_id, None, at, at + SECOND, Quality.READER, -58.5
        )


class Row(NamedTuple):
    second: int
    place: int
    stayed: int


class Where(NamedTuple):
    place: int
    last_seen: int
    dwell_started: int
    rows: int


@pytest.fixture
def site(cast: Cast) -> Site:
    places = [locations.create(shell(cast.acme), name=f"Place {number}").id for number in range(3)]
    reader = readers.add_reader(shell(cast.acme), name="dock", topic="site/dock", format="csl", location_id=places[0])
    return Site(cast.acme, reader.id, places)


def history_of(site: Site, asset_id: int) -> list[Row]:
    rows = execute(
        "SELECT h.observed_at, s.location_id, h.seen_for, (h.observed_at, h.seq) = (p.row_at, p.row_seq), "
        "p.last_seen_at FROM history h JOIN source s ON s.no = h.source_no JOIN position p ON p.no = h.position_no "
        "WHERE p.asset_id = ? ORDER BY h.observed_at, h.seq",
        (asset_id,),
    ).fetchall()
    return [
        Row(
            (at - START) // SECOND,
            site.places.index(location_id),
            ((last_seen - at) if is_open else seen_for) // SECOND,
        )
        for at, location_id, seen_for, is_open, last_seen in rows
    ]


def position_of(site: Site, asset_id: int) -> Where | None:
    row = execute(
        "SELECT location_id, last_seen_at, dwell_started_at, history_rows FROM position WHERE asset_id = ?", (asset_id,)
    ).fetchone()
    if row is None:
        return None
    location_id, last_seen, dwell_started, count = row
    return Where(
        site.places.index(location_id), (last_seen - START) // SECOND, (dwell_started - START) // SECOND, count
    )


def expected_history(sightings: Sequence[tuple[int, int]], gap: int) -> list[Row]:
    """Return the history of sightings (second, location) in order of observation, by the contract."""
    rows: list[Row] = []
    for second, place in sightings:
        last = rows[-1] if rows else None
        if last and last.place == place and gap > 0 and second - last.second - last.stayed <= gap:
            rows[-1] = last._replace(stayed=second - last.second)
        else:
            rows.append(Row(second, place, 0))
    return rows


sightings = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(0, 2)), min_size=1, max_size=12, unique_by=lambda sighting: sighting[0]
)
splits = st.lists(st.integers(0, 12), max_size=3)


def record_in_batches(scans: list[Scan], cuts: list[int], gap: int) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(scans)), len(scans)]
    for start, end in pairwise(edges):
        record(scans[start:end], gap)


@examples
@given(sightings, splits)
def test_scans_in_order_give_the_history_of_the_contract(
    site: Site, seen: list[tuple[int, int]], cuts: list[int]
) -> None:
    asset = site.new_asset()
    in_order = sorted(seen)
    record_in_batches([site.scan(asset, *one) for one in in_order], cuts, GAP)
    assert history_of(site, asset) == expected_history(in_order, GAP // SECOND)


@examples
@given(sightings, splits)
def test_without_a_gap_every_scan_is_kept_for_any_order_of_arrival(
    site: Site, seen: list[tuple[int, int]], cuts: list[int]
) -> None:
    asset = site.new_asset()
    record_in_batches([site.scan(asset, *one) for one in seen], cuts, 0)
    assert history_of(site, asset) == expected_history(sorted(seen), 0)


@examples
@given(sightings, splits)
def test_any_order_of_arrival_makes_the_same_history(site: Site, seen: list[tuple[int, int]], cuts: list[int]) -> None:
    """Within the time that reads are kept, a quarter of an hour."""
    asset = site.new_asset()
    within = list({second // 3: place for second, place in seen}.items())
    record_in_batches([site.scan(asset, *one) for one in within], cuts, GAP)
    assert history_of(site, asset) == expected_history(sorted(within), GAP // SECOND)


@pytest.mark.parametrize("at_once", [1, 7, 400])
@pytest.mark.parametrize("is_backwards", [False, True])
def test_a_burst_from_a_readers_buffer_loses_no_row(site: Site, at_once: int, is_backwards: bool) -> None:
    """Another reader saw the asset at its location all the time."""
    asset = site.new_asset()
    here = [(second, 0) for second in range(0, 360, 2)]
    burst = [(second, 1) for second in range(101, 243, 2)]
    record([site.scan(asset, *one) for one in here], GAP)
    late = [site.scan(asset, *one) for one in (reversed(burst) if is_backwards else burst)]
    for begin in range(0, len(late), at_once):
        assert all(record(late[begin : begin + at_once], GAP))
    assert history_of(site, asset) == expected_history(sorted(here + burst), GAP // SECOND)


@examples
@given(sightings, splits)
def test_a_position_is_the_newest_scan_for_any_order_of_arrival(
    site: Site, seen: list[tuple[int, int]], cuts: list[int]
) -> None:
    asset = site.new_asset()
    record_in_batches([site.scan(asset, *one) for one in seen], cuts, GAP)
    where, rows = position_of(site, asset), history_of(site, asset)
    assert where
    assert (where.last_seen, where.place) == max(seen)
    assert where.rows == len(rows)
    last_run = [list(run) for _, run in groupby(rows, key=lambda row: row.place)][-1]
    assert (where.place, where.dwell_started) == (last_run[0].place, last_run[0].second)


@examples
@given(sightings, splits)
def test_every_row_of_history_is_a_real_scan_and_stays_never_overlap(
    site: Site, seen: list[tuple[int, int]], cuts: list[int]
) -> None:
    asset = site.new_asset()
    record_in_batches([site.scan(asset, *one) for one in seen], cuts, GAP)
    rows = history_of(site, asset)
    assert {(row.second, row.place) for row in rows} <= set(seen)
    assert all(one.second + one.stayed <= other.second for one, other in pairwise(rows))


@examples
@given(sightings, splits, st.sampled_from([0, GAP]))
def test_the_same_scans_again_change_nothing(
    site: Site, seen: list[tuple[int, int]], cuts: list[int], gap: int
) -> None:
    asset = site.new_asset()
    scans = [site.scan(asset, *one) for one in sorted(seen)]
    record_in_batches(scans, cuts, gap)
    before = position_of(site, asset), history_of(site, asset)
    assert not any(record(scans, gap))
    assert (position_of(site, asset), history_of(site, asset)) == before


@examples
@given(sightings, st.integers(0, 2000), st.integers(0, 2))
def test_undoing_a_persons_scan_restores_position_and_moves(
    site: Site, seen: list[tuple[int, int]], second: int, place: int
) -> None:
    asset = site.new_asset()
    if all(other != second for other, _ in seen):
        record([site.scan(asset, *one) for one in sorted(seen)], 0)
        before = position_of(site, asset), history_of(site, asset)
        scan = site.scan(asset, second, place, by_person=True)
        seq = record_by_person(scan)
        assert Row(second, place, 0) in history_of(site, asset)
        take_back(asset, scan.observed_at, seq, 0)
        assert (position_of(site, asset), history_of(site, asset)) == before


def test_undoing_the_only_scan_leaves_an_asset_that_was_never_seen(site: Site) -> None:
    asset = site.new_asset()
    scan = site.scan(asset, 0, 1, by_person=True)
    take_back(asset, scan.observed_at, record_by_person(scan), GAP)
    assert position_of(site, asset) is None
    assert history_of(site, asset) == []


def test_a_stay_confirmed_by_a_reader_survives_the_scan_that_began_it(site: Site) -> None:
    asset = site.new_asset()
    record([site.scan(asset, 0, 0)], GAP)
    scan = site.scan(asset, 10, 1, by_person=True)
    seq = record_by_person(scan)
    record([site.scan(asset, 20, 1)], GAP)
    take_back(asset, scan.observed_at, seq, GAP)
    assert history_of(site, asset) == [Row(0, 0, 0), Row(20, 1, 0)]
    assert position_of(site, asset) == Where(1, 20, 20, 2)


def test_a_stay_begins_with_the_first_read_after_an_undone_scan(site: Site) -> None:
    asset = site.new_asset()
    scan = site.scan(asset, 10, 1, by_person=True)
    seq = record_by_person(scan)
    for second in (20, 90, 150):
        record([site.scan(asset, second, 1)], GAP)
    record([site.scan(asset, 200, 0)], GAP)
    take_back(asset, scan.observed_at, seq, GAP)
    assert history_of(site, asset) == [Row(20, 1, 130), Row(200, 0, 0)]
    readers_of = "SELECT DISTINCT reader_id, rssi FROM history JOIN source ON no = source_no WHERE position_no = ?"
    (number,) = execute("SELECT no FROM track WHERE asset_id = ?", (asset,)).fetchone()
    assert execute(readers_of, (number,)).fetchall() == [(site.reader_id, -585)]


def test_undoing_a_late_scan_joins_the_split_stay(site: Site) -> None:
    asset = site.new_asset()
    record([site.scan(asset, second, 0) for second in (0, 100, 200)], GAP)
    scan = site.scan(asset, 150, 1, by_person=True)
    take_back(asset, scan.observed_at, record_by_person(scan), GAP)
    assert history_of(site, asset) == [Row(0, 0, 200)]
    assert position_of(site, asset) == Where(0, 200, 0, 1)


def test_two_moves_in_one_instant_are_two_rows_in_the_order_of_arrival(site: Site) -> None:
    asset = site.new_asset()
    scans = [site.scan(asset, 5, 0), site.scan(asset, 5, 1), site.scan(asset, 5, 2)]
    assert record(scans, GAP) == [True, True, True]
    assert [row.place for row in history_of(site, asset)] == [0, 1, 2]
    assert position_of(site, asset) == Where(2, 5, 5, 3)
    assert record(scans, GAP) == [False, False, False]


def test_a_late_scan_elsewhere_splits_the_stay_it_falls_into(site: Site) -> None:
    asset = site.new_asset()
    record([site.scan(asset, second, 0) for second in (0, 100, 200)], GAP)
    assert record([site.scan(asset, 150, 1)], GAP) == [True]
    assert history_of(site, asset) == [Row(0, 0, 100), Row(150, 1, 0), Row(200, 0, 0)]
    assert position_of(site, asset) == Where(0, 200, 200, 3)


def test_a_late_first_sighting_moves_the_start_of_the_stay(site: Site) -> None:
    asset = site.new_asset()
    record([site.scan(asset, 0, 1), site.scan(asset, 50, 0), site.scan(asset, 60, 0)], GAP)
    assert record([site.scan(asset, 49, 0)], GAP) == [True]
    assert history_of(site, asset) == [Row(0, 1, 0), Row(49, 0, 11)]
    assert position_of(site, asset) == Where(0, 60, 49, 2)


def test_a_scan_at_the_current_location_adds_a_row_and_keeps_the_dwell(site: Site) -> None:
    asset = site.new_asset()
    record([site.scan(asset, 0, 0), site.scan(asset, 100, 0)], GAP)
    record_by_person(site.scan(asset, 50, 0, by_person=True))
    record_by_person(site.scan(asset, 120, 0, by_person=True))
    assert history_of(site, asset) == [Row(0, 0, 0), Row(50, 0, 50), Row(120, 0, 0)]
    assert position_of(site, asset) == Where(0, 120, 0, 3)


def test_a_late_sighting_within_a_stay_does_not_scan_all_its_rows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a batch of late reads takes longer than the watchdog allows, after each restart again."""
    asset, asked = site.new_asset(), list[str]()

    def note(sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        asked.append(sql)
        return execute(sql, parameters)

    record([site.scan(asset, second, 0) for second in range(0, 100, 2)], 0)
    monkeypatch.setattr(late_reads, "execute", note)
    record([site.scan(asset, 51, 0)], 0)
    assert position_of(site, asset) == Where(0, 98, 0, 51)
    assert not [sql for sql in asked if "s.location_id <> ?" in sql]
    record([site.scan(asset, 61, 1)], 0)
    assert position_of(site, asset) == Where(0, 98, 62, 52)
    assert [sql for sql in asked if "s.location_id <> ?" in sql]


def test_a_scan_can_be_undone_after_a_late_one_cut_its_stay(site: Site) -> None:
    asset = site.new_asset()
    scan = site.scan(asset, 0, 0, by_person=True)
    seq = record_by_person(scan)
    record([site.scan(asset, 100, 0)], GAP)
    record_by_person(site.scan(asset, 50, 1, by_person=True))
    take_back(asset, scan.observed_at, seq, GAP)
    assert history_of(site, asset) == [Row(50, 1, 0), Row(100, 0, 0)]
    assert position_of(site, asset) == Where(0, 100, 100, 2)


def test_only_reads_that_may_be_repeats_are_counted(site: Site) -> None:
    """Scans by people, and reads without a gap, always get a row, so their reads need not be kept."""
    asset = site.new_asset()
    record([site.scan(asset, 0, 0, by_person=True)], GAP)
    record([site.scan(asset, 5, 0)], 0)
    assert execute("SELECT count(*) FROM recent_read").fetchone() == (0,)
    record([site.scan(asset, 12, 0), site.scan(asset, 10, 0)], GAP)
    assert execute("SELECT received_at FROM recent_read").fetchall() == [(START + 13 * SECOND,)]


def test_the_end_of_a_stay_changes_no_other_row_of_its_instant(site: Site) -> None:
    asset = site.new_asset()
    record([site.scan(asset, 5, 0), site.scan(asset, 5, 1)], GAP)
    record([site.scan(asset, 9, 1), site.scan(asset, 20, 2)], GAP)
    assert [(row.place, row.stayed) for row in history_of(site, asset)] == [(0, 0), (1, 4), (2, 0)]


@pytest.mark.parametrize(("complete_from", "is_decided"), [(-1, True), (0, True), (1, False)])
def test_reads_are_decided_again_from_the_second_since_which_none_is_missing(
    site: Site, monkeypatch: pytest.MonkeyPatch, complete_from: int, is_decided: bool
) -> None:
    asset = site.new_asset()
    known = Recent((START // SECOND) + complete_from)
    decided: list[int] = []
    monkeypatch.setattr(positions.recent_reads, "was_read", lambda *_: True)
    monkeypatch.setattr(positions.recent_reads, "load", lambda *_: {asset: known})
    monkeypatch.setattr(positions._Batch, "retrace", lambda *arguments: decided.append(arguments[4]))
    record_by_person(site.scan(asset, 0, 0, by_person=True))
    assert decided == [START // SECOND] * is_decided
