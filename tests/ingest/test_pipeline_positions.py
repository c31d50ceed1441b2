"""Positions across batches, with changes by other writers."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import msgspec
import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import close_database, execute, writing
from edge.errors import Unavailable
from edge.ingest.pipeline import Pipeline
from edge.readers.antenna_kinds import set_reader_kind
from edge.tracking import carriers, positions, recent_reads
from edge.tracking.recent_reads import READ
from edge.tracking.signal_strength import AntennaKind
from edge.tracking.stays import Quality, Scan
from tests.ingest.site import AISLE, DOCK, GAP, Site, csl, location_of, message, pipeline, seen


def at_aisle(epc: str, at: int) -> bytes:
    return msgspec.json.encode({"reads": [{"tag": epc, "time": clock.rfc3339(at)}]})


@pytest.mark.parametrize("is_in_this_thread", [True, False])
def test_a_scan_by_a_person_between_two_batches_counts(site: Site, is_in_this_thread: bool) -> None:
    line, at = pipeline(), clock.now() - 600 * SECOND
    line.handle([message(csl(seen(site.epcs[0], at)))])

    def scan() -> None:
        asset_id, second = site.assets[0], at + SECOND
        positions.record_by_person(
            Scan(site.organization_id, asset_id, site.aisle, None, None, second, second, Quality.HANDHELD)
        )

    def scan_and_end() -> None:
        scan()
        close_database()

    if is_in_this_thread:
        scan()
    else:
        thread = Thread(target=scan_and_end)
        thread.start()
        thread.join()
    line.handle([message(csl(seen(site.epcs[0], at + 2 * SECOND)))])
    assert location_of(site.assets[0]) == site.aisle
    assert execute("SELECT history_rows FROM track").fetchone() == execute("SELECT count(*) FROM history").fetchone()


def test_a_change_of_the_gap_keeps_the_history_consistent(site: Site) -> None:
    line, at = pipeline(), clock.now() - 600 * SECOND
    line.handle([message(csl(seen(site.epcs[0], at)))])
    line.use_gap(0)
    line.handle([message(at_aisle(site.epcs[0], at + SECOND), AISLE)])
    line.use_gap(GAP)
    line.handle([message(at_aisle(site.epcs[0], at + 2 * SECOND), AISLE)])
    assert location_of(site.assets[0]) == site.aisle
    assert execute("SELECT history_rows FROM track").fetchone() == execute("SELECT count(*) FROM history").fetchone()


def test_an_asset_continues_from_the_location_of_its_carrier(site: Site) -> None:
    pallet, box = site.assets[:2]
    line, at = pipeline(), clock.now() - 600 * SECOND
    line.handle([message(csl(seen(site.epcs[0], at), seen(site.epcs[1], at)))])
    carriers.load(shell(site.organization_id), pallet, box, at + SECOND)
    line.handle([message(csl(seen(site.epcs[1], at + 2 * SECOND)))])
    line.handle([message(at_aisle(site.epcs[0], at + 100 * SECOND), AISLE)])
    assert location_of(box) == location_of(pallet) == site.aisle
    line.handle([message(at_aisle(site.epcs[1], at + 101 * SECOND), AISLE)])
    rows = execute("SELECT history_rows, track.no FROM track WHERE asset_id = ?", (box,)).fetchone()
    assert location_of(box) == site.aisle
    assert rows[0] == execute("SELECT count(*) FROM history WHERE position_no = ?", (rows[1],)).fetchone()[0] == 2


def test_recent_reads_are_limited_in_bytes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_reads, "KEPT_BYTES", 1_000)
    line, begin, most = pipeline(), clock.now() - 300 * SECOND, 0
    for second in range(60):
        line.handle([message(csl(*map(seen, site.epcs)), received_at=begin + second * SECOND)])
        kept = execute("SELECT sum(length(reads) + length(packed)) FROM recent_read").fetchone()[0]
        assert 0 < kept <= 1_000
        most = max(most, kept)
    assert most > 700, "and not for less"


def test_memory_is_reloaded_only_after_changes_by_other_writers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    load = recent_reads.load
    monkeypatch.setattr(recent_reads, "load", lambda *values: (loaded.append(1), load(*values))[1])
    line, at = pipeline(), clock.now() - 600 * SECOND
    line.handle([message(csl(seen(site.epcs[0], at)))])
    loaded.clear()
    line.handle([message(csl(seen(site.epcs[0], at + SECOND)))])
    assert loaded == []
    with writing():
        execute("UPDATE version SET recent_reads = recent_reads + 1")
    line.handle([message(csl(seen(site.epcs[0], at + 2 * SECOND)))])
    assert loaded == [1]


def test_the_load_follows_a_move_that_silence_decides(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    pallet, box = site.assets[:2]
    now = [clock.now()]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    line, at = pipeline(), now[0] - 60 * SECOND
    line.handle([message(csl(seen(site.epcs[0], at), seen(site.epcs[1], at)), received_at=at)])
    carriers.load(shell(site.organization_id), pallet, box, at + SECOND)
    there = at + 15 * SECOND
    line.handle(
        [
            message(at_aisle(site.epcs[0], there), AISLE, received_at=there),
            message(csl(seen(site.epcs[2], at + 22 * SECOND)), received_at=at + 22 * SECOND),
        ]
    )
    while line.catch_up():
        pass
    assert location_of(pallet) == location_of(box) == site.aisle


def test_a_stored_read_says_since_when_no_other_one_is_missing(site: Site) -> None:
    """That is the second after the read before it, also if that one was held back."""
    line, at = pipeline(), (clock.now() // SECOND - 60) * SECOND
    for second, topic in ((0, DOCK), (15, AISLE), (20, AISLE)):
        moment = at + second * SECOND
        payload = csl(seen(site.epcs[0], moment)) if topic == DOCK else at_aisle(site.epcs[0], moment)
        line.handle([message(payload, topic, received_at=moment)])
    stored = [read[6] for reads in recent_reads.stored_reads("1 ORDER BY no", ()) for read in READ.iter_unpack(reads)]
    assert stored[1:] == [at // SECOND + 1, at // SECOND + 16]


def reload_after_restart(line: Pipeline, _site: Site) -> Pipeline:
    return pipeline()


def reload_after_failed_commit(line: Pipeline, _site: Site) -> Pipeline:
    def fail(*_: object) -> None:
        raise Unavailable("The disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edge.ingest.batch.record", fail)
        with pytest.raises(Unavailable):
            line.handle([message(b"", "site/other")])
    return line


def reload_after_correction(line: Pipeline, _site: Site) -> Pipeline:
    with writing():
        execute("UPDATE version SET recent_reads = recent_reads + 1")
    return line


def no_reload(line: Pipeline, _site: Site) -> Pipeline:
    return line


@pytest.mark.parametrize(
    "reload", [no_reload, reload_after_restart, reload_after_failed_commit, reload_after_correction]
)
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_portals_read_counts_if_memory_is_reloaded_before_it_is_decided(
    site: Site, reload: Callable[[Pipeline, Site], Pipeline], steps: int
) -> None:
    """The current location reads the asset in the same second and in the following ones."""
    set_reader_kind(shell(site.organization_id), site.dock_reader, "dock", AntennaKind.PORTAL)
    line, at = pipeline(), (clock.now() - 600 * SECOND) // SECOND * SECOND
    for second in range(5):
        line.handle([message(at_aisle(site.epcs[0], at + second * SECOND), AISLE)])
    line.handle([message(csl(seen(site.epcs[0], at + 4 * SECOND + SECOND // 2)))])
    for second in range(5, 5 + steps):
        line.handle([message(at_aisle(site.epcs[0], at + second * SECOND), AISLE)])
    assert location_of(site.assets[0]) == site.aisle
    line = reload(line, site)
    line.handle([message(at_aisle(site.epcs[1], at + 20 * SECOND), AISLE)])
    while line.catch_up():
        pass
    places = [
        location_id
        for (location_id,) in execute(
            "SELECT s.location_id FROM history h JOIN position p ON p.no = h.position_no "
            "JOIN source s ON s.no = h.source_no WHERE p.asset_id = ? ORDER BY h.observed_at, h.seq",
            (site.assets[0],),
        )
    ]
    assert places[:2] == [site.aisle, site.dock]
