"""A backlog of messages costs what its reads cost, and others get the write lock in between."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from edge import clock
from edge.clock import SECOND
from edge.database.connection import close_database, execute, writing
from edge.errors import Unavailable
from edge.ingest import pipeline as pipeline_module
from edge.tracking import recent_reads
from edge.tracking.recent_reads import RecentReads
from tests.ingest.site import AISLE, Site, csl, message, pipeline, seen
from tests.ingest.test_pipeline_positions import at_aisle

SOON = 10.0  # seconds
LOOKS = 100  # seconds with a read, more than memory keeps


def watch_loads(monkeypatch: pytest.MonkeyPatch, at_each: Callable[[], None]) -> None:
    load = recent_reads.load
    monkeypatch.setattr(recent_reads, "load", lambda *arguments: (at_each(), load(*arguments))[1])


def test_late_reads_of_one_asset_load_its_reads_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    line, begin, loads = pipeline(), clock.now() - 300 * SECOND, []
    for second in range(LOOKS):
        line.handle([message(csl(seen(site.epcs[0], begin + second * SECOND)))])
    watch_loads(monkeypatch, lambda: loads.append(1))
    for second in range(10, 40):
        line.handle([message(at_aisle(site.epcs[0], begin + second * SECOND), AISLE)])
    assert loads == [1]


def late_reads_at(site: Site, recent: RecentReads, *steps: tuple[int, int]) -> list[int]:
    """Read all assets each second for a while, then again at each step, which brings a late read of one asset.

    Returns how many seconds of reads the first asset has in memory after each.
    """
    line, begin = pipeline(), clock.now() - 600 * SECOND
    line._recent = recent
    line.handle([message(csl(*(seen(epc, begin + second * SECOND) for second in range(LOOKS) for epc in site.epcs)))])
    sizes = []
    for second, late in steps:
        line.handle([message(csl(*(seen(epc, begin + second * SECOND) for epc in site.epcs)))])
        line.handle([message(at_aisle(site.epcs[late], begin + 10 * SECOND), AISLE)])
        one = recent.of(site.assets[0])
        sizes.append(len({look.second for look in one.detections}) if one else 0)
    return sizes


def test_reads_loaded_for_late_ones_are_dropped_though_others_are_loaded(site: Site) -> None:
    """Otherwise each decision about an asset would in the end unpack its reads of an hour."""
    first, meanwhile, after = late_reads_at(site, RecentReads(), (LOOKS, 0), (LOOKS + 50, 1), (LOOKS + 70, 2))
    assert first < meanwhile
    assert after < LOOKS < first


def test_loaded_reads_count_in_the_limit_of_memory(site: Site) -> None:
    few = late_reads_at(site, RecentReads(most_bytes=6_000, counted_every=100), (LOOKS, 0))
    assert few < [LOOKS]


def test_nobody_waits_while_the_reads_are_loaded_after_a_restart(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, has_written = clock.now() - 300 * SECOND, []
    pipeline().handle([message(csl(seen(site.epcs[0], begin)))])

    def write() -> None:
        with writing():
            has_written.append(1)
        close_database()

    def write_meanwhile() -> None:
        thread = Thread(target=write)
        thread.start()
        thread.join(SOON)

    watch_loads(monkeypatch, write_meanwhile)
    watch_loads(monkeypatch, lambda: has_written.append(2))
    pipeline().handle([message(csl(seen(site.epcs[0], begin + SECOND)))])
    assert has_written == [2, 1]


def test_a_correction_while_the_reads_are_loaded_counts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []

    def correct() -> None:
        loads.append(1)
        if len(loads) == 1:
            with writing():
                execute("UPDATE version SET recent_reads = recent_reads + 1")
        close_database()

    def correct_meanwhile() -> None:
        thread = Thread(target=correct)
        thread.start()
        thread.join(SOON)

    watch_loads(monkeypatch, correct_meanwhile)
    pipeline().handle([message(csl(seen(site.epcs[0])))])
    assert loads == [1, 1], "the first may have missed it"


def test_reads_that_could_not_be_loaded_are_loaded_next_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    line, begin, loads = pipeline(), clock.now() - 300 * SECOND, []
    line.handle([message(csl(seen(site.epcs[0], begin)))])

    def fail_once() -> None:
        loads.append(1)
        if len(loads) == 1:
            raise Unavailable("disk I/O error")

    watch_loads(monkeypatch, fail_once)
    with writing():
        execute("UPDATE version SET recent_reads = recent_reads + 1")
    late = message(csl(seen(site.epcs[0], begin + SECOND)))
    with pytest.raises(Unavailable):
        line.handle([late])
    line.handle([late])
    assert loads == [1, 1]


@pytest.mark.parametrize(("is_awaited", "number"), [(True, 1), (False, 4)])
def test_slow_reads_make_the_transactions_short_for_those_who_wait(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_awaited: bool, number: int
) -> None:
    monkeypatch.setattr(pipeline_module, "others_wait", lambda: is_awaited)
    monkeypatch.setattr(pipeline_module, "LEAST_READS", 100)
    line, begin = pipeline(), clock.now() - 300 * SECOND
    reads = [seen(site.epcs[0], begin + number) for number in range(400)]
    messages = [message(csl(*reads[first : first + 100])) for first in range(0, 400, 100)]
    assert line.handle_some(messages) == 4
    monkeypatch.setattr(pipeline_module, "SLICE", 1e-9)
    line.handle_some(messages)
    monkeypatch.setattr(pipeline_module, "SLICE", 1e9)
    assert line.handle_some(messages) == number
    monkeypatch.setattr(pipeline_module, "others_wait", lambda: False)
    for _ in range(10):
        line.handle_some(messages[:1])
    assert line.handle_some(messages) == 4, "and others make them long again"


@pytest.mark.parametrize(("is_idle", "is_settled"), [(True, True), (False, False)])
def test_a_silence_is_judged_by_what_is_still_queued(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_idle: bool, is_settled: bool
) -> None:
    """Messages of a long queue were received a while before they are committed."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    line, at = pipeline(), now - 60 * SECOND
    line.handle([message(csl(seen(site.epcs[0], at)), received_at=at)])
    line.handle([message(at_aisle(site.epcs[0], at + SECOND), AISLE, received_at=at + SECOND)])
    while line.catch_up(is_idle):
        pass
    (location_id,) = execute("SELECT location_id FROM position WHERE asset_id = ?", (site.assets[0],)).fetchone()
    assert (location_id == site.aisle) == is_settled
