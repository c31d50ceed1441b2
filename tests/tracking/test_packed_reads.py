"""Recent reads in memory: the number kept, and the behavior of full memory."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge import metrics
from edge.clock import SECOND
from edge.tracking import recent_reads
from edge.tracking.decision_rule import Rule
from edge.tracking.packed_reads import ALWAYS, Recent
from edge.tracking.recent_reads import FEWER_LOOKS, RecentReads
from tests.conftest import Cast
from tests.database.tracked_site import A, B, Read, Site, every, make_site, tell


@pytest.fixture
def site(cast: Cast) -> Site:
    return make_site(cast.acme)


def test_full_memory_shortens_every_asset_before_dropping_any(site: Site) -> None:
    recent = RecentReads(most_bytes=10_000, counted_every=1)
    begun, shortened = figure("dropped_total"), figure("shortened_total")
    assets = [tell(site, every(number, number + 40, 1, A), recent=recent) for number in range(12)]
    kept = [len(entry.detections) for asset in assets if (entry := recent.of(asset))]
    assert len(kept) == 12
    assert min(kept) == FEWER_LOOKS
    assert (figure("dropped_total"), figure("shortened_total") > shortened) == (begun, True)
    assert figure("bytes") <= 10_000


def test_with_full_memory_a_late_read_is_decided_from_the_remaining_reads() -> None:
    """Dropped reads are not loaded from disk, because each batch of a busy site would have to wait."""
    recent = Recent(ALWAYS)
    for second in range(40):
        recent.add(second * SECOND, 1, -50.0)
    recent.drop_old()
    assert (recent.complete_from, recent.exact_from) == (8, 34)
    recent.drop_old(FEWER_LOOKS)
    assert recent.complete_from == recent.exact_from == 32


def test_the_last_read_before_a_silence_is_kept_for_late_reads() -> None:
    """The reader of the location was out, and reads the asset again in the newest looks."""
    recent = Recent(ALWAYS)
    recent.add(0, 1, -50.0)
    for second in range(100, 139):
        recent.add(second * SECOND, 2, -50.0)
    recent.add(139 * SECOND, 1, -50.0)
    recent.drop_old()
    assert [one.second for one in recent.detections if one.location_id == 1] == [0, 139]


def test_full_memory_drops_the_longest_silent_assets_first_and_counts_them(site: Site) -> None:
    recent, begun = RecentReads(most_bytes=5_000, counted_every=1), figure("dropped_total")
    assets = [tell(site, every(number, number + 40, 1, A), recent=recent) for number in range(12)]
    in_memory = [recent.of(asset) is not None for asset in assets]
    assert in_memory == sorted(in_memory)
    assert 0 < in_memory.count(False) == figure("dropped_total") - begun
    assert 4_000 < figure("bytes") <= 5_000


def test_a_read_in_the_second_after_those_that_no_disk_has_any_more_is_weighed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_reads, "KEPT_BYTES", 1)
    asset = tell(site, [Read(0, A)])
    tell(site, [Read(0, A)])  # of another asset: the disk keeps only the newest batch
    tell(site, [Read(10, B)], asset_id=asset)
    assert Rule.EVERY_READ not in {row.rule for row in site.history(asset)}


def figure(name: str) -> float:
    return float(re.findall(rf"^edge_ingest_evidence_{name} (\S+)$", metrics.exposition().decode(), re.MULTILINE)[0])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2), st.integers(-80, -40))))
def test_a_detection_keeps_the_strongest_and_first_read_with_the_times(
    reads: list[tuple[int, int, int]],
) -> None:
    recent, reads_by_key = Recent(ALWAYS), {}
    for tenths, place, rssi in reads:
        recent.add(tenths * SECOND // 10, place, rssi + 0.125)
        reads_by_key.setdefault((tenths // 10, place), []).append((tenths, rssi))
    kept = [
        (one.second, one.location_id, one.first_at, one.last_at, one.strength, one.rssi) for one in recent.detections
    ]
    assert sorted(kept) == [
        (
            second,
            place,
            min(times) * SECOND // 10,
            max(times) * SECOND // 10,
            max(strengths) + 0.125,
            dict(reversed(entry))[min(times)] + 0.1,
        )
        for (second, place), entry in sorted(reads_by_key.items())
        for times, strengths in [list(zip(*entry, strict=True))]
    ]
    assert [one.second for one in recent.detections] == sorted(one.second for one in recent.detections)
