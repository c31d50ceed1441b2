"""Location corrections: history, current location and later decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.audit.trail import recent
from edge.clock import HOUR, SECOND
from edge.database.connection import execute
from edge.errors import Invalid, NotFound
from edge.readers import location_corrections, readers
from edge.readers.location_corrections import Correction, Preview, correct, preview
from edge.readers.readers import Placement
from edge.records import locations
from edge.tracking import carriers, late_reads
from edge.tracking.positions import record_by_person
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.ingest.site import GAP, Site, csl, location_of, message, pipeline, seen


def begin(site: Site) -> tuple[int, int]:
    """Assign antenna 2 of the dock to the yard by mistake, and move a pallet past both antennas. Returns the yard."""
    yard = locations.create(shell(site.organization_id), name="Yard").id
    readers.set_antenna(shell(site.organization_id), site.dock_reader, 2, Placement(yard, None, True))
    return yard, clock.now() // SECOND * SECOND - 600 * SECOND


def go_past(site: Site, start: int, *, ports: tuple[int, ...] = (1, 2, 1, 2)) -> None:
    line = pipeline()
    for number, port in enumerate(ports):
        for second in range(40):
            at = start + (number * 40 + second) * SECOND
            line.handle([message(csl(seen(site.epcs[0], at, port)), received_at=at)])


def rows() -> list[tuple[int, int]]:
    return [
        (at, location_id)
        for at, location_id in execute(
            "SELECT h.observed_at, s.location_id FROM history h JOIN source s ON s.no = h.source_no ORDER BY 1"
        )
    ]


def test_stays_at_the_wrong_location_are_joined_at_the_right_one(site: Site) -> None:
    yard, start = begin(site)
    go_past(site, start)
    assert {location for _, location in rows()} == {site.dock, yard}
    assert location_of(site.assets[0]) == yard
    correction = Correction(site.dock_reader, 2, yard, site.dock, start, clock.now())
    effect = preview(site.organization_id, correction)
    assert effect.rows >= 2
    assert (effect.assets, effect.current) == (1, 1)
    assert location_of(site.assets[0]) == yard  # a preview changes nothing
    assert correct(shell(site.organization_id), correction, GAP) == effect
    assert rows() == [(start, site.dock)]
    assert location_of(site.assets[0]) == site.dock
    dwell, last = execute("SELECT dwell_started_at, last_seen_at FROM position").fetchone()
    assert (dwell, last) == (start, start + 159 * SECOND)
    assert preview(site.organization_id, correction) == Preview(0, 0, 0)
    line = recent(site.organization_id, 1)[0]
    assert "history_corrected" in str(line)


def test_a_stay_that_begins_with_a_persons_scan_is_joined_with_the_corrected_one(site: Site) -> None:
    yard, start = begin(site)
    where = (site.organization_id, site.assets[0], site.dock, None, None)
    record_by_person(Scan(*where, start, start, Quality.HANDHELD))
    line = pipeline()
    for second in range(60, 90):
        at = start + second * SECOND
        line.handle([message(csl(seen(site.epcs[0], at, 2)), received_at=at)])
    assert [location for _, location in rows()] == [site.dock, yard]
    correct(shell(site.organization_id), Correction(site.dock_reader, 2, yard, site.dock, start, clock.now()), GAP)
    assert rows() == [(start, site.dock)]
    assert execute("SELECT dwell_started_at, last_seen_at, history_rows FROM track").fetchone() == (
        start,
        start + 89 * SECOND,
        1,
    )


@pytest.mark.parametrize("bound", [1, location_corrections.READ_BYTES])
def test_later_decisions_use_corrected_reads(site: Site, monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    """Check that ingest forgets the wrong location, for any number of transactions."""
    monkeypatch.setattr(location_corrections, "READ_BYTES", bound)
    yard, start = begin(site)
    line = pipeline()
    for second in range(60):
        at = start + second * SECOND
        line.handle([message(csl(seen(site.epcs[0], at, 2)), received_at=at)])
    correct(shell(site.organization_id), Correction(site.dock_reader, 2, yard, site.dock, start, clock.now()), GAP)
    readers.set_antenna(shell(site.organization_id), site.dock_reader, 2, Placement(site.dock, None, True))
    for second in range(60, 90):
        at = start + second * SECOND
        line.handle([message(csl(seen(site.epcs[0], at, 2)), received_at=at)])
    late = start + 30 * SECOND + 1
    line.handle([message(csl(seen(site.epcs[0], late, 1)), received_at=start + 91 * SECOND)])
    assert rows() == [(start, site.dock)]


def test_only_the_given_period_antenna_and_organization_are_corrected(site: Site, cast: Cast) -> None:
    yard, start = begin(site)
    go_past(site, start)
    before = rows()
    actor = shell(site.organization_id)
    later = Correction(site.dock_reader, 2, yard, site.dock, start + 10_000 * SECOND, start + 20_000 * SECOND)
    correct(actor, later, GAP)
    correct(actor, later._replace(port=1, since=start), GAP)
    assert rows() == before
    with pytest.raises(NotFound):
        correct(shell(cast.rival), later._replace(since=start), GAP)
    with pytest.raises(Invalid):
        preview(site.organization_id, later._replace(to_location_id=yard))
    with pytest.raises(Invalid):
        preview(site.organization_id, later._replace(until=start - 1, since=start))
    assert rows() == before


def hurry_past(site: Site, start: int, visits: int, pause: int = 600) -> None:
    """Read all assets alternately at antennas 1 and 2."""
    line = pipeline(is_smoothing=False)
    for number in range(visits):
        at = start + number * pause * SECOND
        line.handle([message(csl(*(seen(epc, at, 1 + (number % 2)) for epc in site.epcs)), received_at=at)])


def all_rows() -> list[tuple[int, ...]]:
    return execute(
        "SELECT t.asset_id, h.observed_at, h.seen_for, s.location_id, s.port FROM history h "
        "JOIN track t ON t.no = h.position_no JOIN source s ON s.no = h.source_no ORDER BY 1, 2"
    ).fetchall()


def test_each_transaction_has_a_limited_number_of_rows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the limit for one asset with many rows, and for many assets with few rows."""
    yard, start = begin(site)
    start -= 5 * HOUR
    hurry_past(site, start, 30)
    assert len(all_rows()) == 90
    gone_through: list[int] = []
    transactions = []
    real_relocate, real_writing = location_corrections.relocate, location_corrections.writing

    def relocate(*arguments: Any) -> tuple[int | None, int]:
        progress: tuple[int | None, int] = real_relocate(*arguments)
        gone_through.append(progress[1])
        return progress

    @contextmanager
    def writing() -> Iterator[None]:
        gone_through.clear()
        with real_writing():
            yield
        transactions.append(sum(gone_through))

    monkeypatch.setattr(location_corrections, "ROWS", 10)
    monkeypatch.setattr(location_corrections, "relocate", relocate)
    monkeypatch.setattr(location_corrections, "writing", writing)
    effect = correct(
        shell(site.organization_id), Correction(site.dock_reader, 2, yard, site.aisle, start, clock.now()), GAP
    )
    assert (effect.rows, effect.assets) == (45, 3)
    assert sum(transactions) >= 90
    assert max(transactions) < 20
    assert yard not in {row[3] for row in all_rows()}


@pytest.mark.parametrize("is_joined", [False, True])
@pytest.mark.parametrize("steps", range(1, 8))
def test_a_correction_can_be_repeated_after_a_crash(
    site: Site, monkeypatch: pytest.MonkeyPatch, steps: int, is_joined: bool
) -> None:
    """Check a resumed correction, including one that joins all stays."""
    yard, start = begin(site)
    start -= 5 * HOUR
    hurry_past(site, start, 30, pause=200)
    right = site.dock if is_joined else site.aisle
    expected = [(*row[:3], right if row[3] == yard else row[3], row[4]) for row in all_rows()]
    assert len(expected) == 90
    if is_joined:
        expected = [(*row[:2], 29 * 200 * SECOND, *row[3:]) for row in expected if row[1] == start]
    correction = Correction(site.dock_reader, 2, yard, right, start, clock.now())
    real, begun = location_corrections.writing, []

    @contextmanager
    def crashing() -> Iterator[None]:
        begun.append(1)
        with real():
            yield
            if len(begun) == steps:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(location_corrections, "ROWS", 10)
        patch.setattr(location_corrections, "writing", crashing)
        with pytest.raises(KeyboardInterrupt):
            correct(shell(site.organization_id), correction, GAP)
    correct(shell(site.organization_id), correction, GAP)
    assert all_rows() == expected
    assert preview(site.organization_id, correction) == Preview(0, 0, 0)


def test_a_preview_reads_only_rows_of_the_period(site: Site) -> None:
    """Check that no statement scans the whole track or history table."""
    for sql, count in ((late_reads._TRACKS_SINCE, 4), (late_reads._COUNT, 4)):
        plan = [row[3] for row in execute(f"EXPLAIN QUERY PLAN {sql}", (0,) * count)]
        scanned = [step for step in plan if step.startswith("SCAN") and "VIRTUAL TABLE" not in step]
        assert not scanned, plan
    assert any("position_no=? AND observed_at>? AND observed_at<?" in step for step in plan), plan


def test_a_bounded_preview_ends_when_it_is_too_large(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    yard, start = begin(site)
    hurry_past(site, start - 5 * HOUR, 10)
    correction = Correction(site.dock_reader, 2, yard, site.aisle, start - 5 * HOUR, clock.now())
    whole = preview(site.organization_id, correction)
    assert preview(site.organization_id, correction, is_bounded=True) == whole
    for name in ("MOST_ROWS_OF_REQUEST", "_MOST_AFFECTED", "_MOST_SCANNED"):
        with monkeypatch.context() as patch:
            patch.setattr(location_corrections, "_ROWS_AT_ONCE", 1)
            patch.setattr(location_corrections, name, 3)
            bounded = preview(site.organization_id, correction, is_bounded=True)
            assert bounded.is_too_large
            assert bounded.assets == 1
            assert preview(site.organization_id, correction) == whole


def test_contents_of_a_carrier_are_corrected_with_it(site: Site) -> None:
    yard, start = begin(site)
    carrier, box = site.assets[0], site.assets[1]
    assert carriers.load(shell(site.organization_id), carrier, box, start - SECOND)
    line = pipeline()
    for second in range(30):
        at = start + second * SECOND
        line.handle([message(csl(seen(site.epcs[0], at, 2)), received_at=at)])
    assert (location_of(carrier), location_of(box)) == (yard, yard)
    correct(shell(site.organization_id), Correction(site.dock_reader, 2, yard, site.aisle, start, clock.now()), GAP)
    assert (location_of(carrier), location_of(box)) == (site.aisle, site.aisle)
    assert {row[3] for row in all_rows()} == {site.aisle}
    assert execute("SELECT location_id FROM carrier_load").fetchall() == [(site.aisle,)]
