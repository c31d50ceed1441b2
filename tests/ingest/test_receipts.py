"""Receipts: repeats by the broker, by the reader, and after a crash."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from edge import clock, metrics
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute
from edge.errors import Unavailable
from edge.ingest import batch as batch_module
from edge.ingest import pipeline as pipeline_module
from edge.ingest.receipts import Receipts
from edge.records import assets
from edge.records.tags import NewTag
from tests.faults import failing_commits
from tests.ingest.site import AISLE, Site, buckets, csl, everything_recorded, location_of, message, pipeline, seen


def test_a_partly_committed_batch_counts_once_after_a_retry(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a batch that was split for a poison message before the disk was full."""
    line = pipeline()
    batch = [message(csl(seen(epc)), mid=mid) for mid, epc in enumerate([*site.epcs, "30BAD0"], start=1)]
    with monkeypatch.context() as patch:
        patch.setattr(batch_module, "match_key", lambda *_: 1 / 0)
        patch.setattr(pipeline_module.log, "exception", lambda *_: (_ for _ in ()).throw(Unavailable("full")))
        with pytest.raises(Unavailable):
            line.handle(batch)
    assert buckets() == {"recorded": (3, 3)}
    line.handle([replace(one, is_redelivered=True) for one in batch])
    assert buckets() == {"recorded": (3, 3), "repeat": (3, 0), "unmatched_tag": (1, 1)}


@pytest.mark.parametrize("is_timed", [False, True])
def test_a_batch_with_a_failed_commit_counts_once_after_a_retry(site: Site, is_timed: bool) -> None:
    """Check that a failed commit leaves no receipts in memory."""
    line, at = pipeline(), clock.now() // 1000 * 1000 - SECOND if is_timed else None
    batch = [message(csl(seen(epc, at)), mid=mid) for mid, epc in enumerate(site.epcs, start=1)]
    counted = _counted_messages()
    with failing_commits(), pytest.raises(Unavailable):
        line.handle(batch)
    assert (buckets(), _counted_messages()) == ({}, counted)
    line.handle([replace(one, is_redelivered=True) for one in batch])
    assert buckets() == {"recorded": (3, 3)}
    assert [location_of(asset_id) for asset_id in site.assets] == [site.dock] * 3
    assert _counted_messages() == counted + 3


def _counted_messages() -> float:
    return sum(
        sample.value
        for family in metrics.messages.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )


@pytest.mark.parametrize("mids", [(1, 2, 3), (1, 1, 1)])
def test_an_equal_message_of_a_reader_without_a_clock_is_a_new_read(site: Site, mids: tuple[int, ...]) -> None:
    """Check that only the DUP flag marks a redelivery, even with the same packet ID."""
    line, begin = pipeline(), clock.now() - 600 * SECOND
    for minute, mid in enumerate(mids):
        line.handle([message(csl(seen(site.epcs[0])), mid=mid, received_at=begin + minute * 60 * SECOND)])
    assert buckets() == {"recorded": (3, 3)}
    assert execute("SELECT last_seen_at FROM position").fetchone() == (begin + 120 * SECOND,)


def test_a_committed_unacknowledged_message_is_a_repeat_after_a_restart(site: Site) -> None:
    """Check readers without a clock, where only the packet ID distinguishes a redelivery from a new read."""
    at_aisle = b'{"reads":[{"tag":"%s"}]}' % site.epcs[0].encode()
    first = [message(csl(seen(site.epcs[0])), mid=1), message(at_aisle, AISLE, mid=2)]
    pipeline().handle(first)
    before = everything_recorded()
    later = clock.now() + 60 * SECOND
    pipeline().handle([replace(one, is_redelivered=True, received_at=later) for one in first])
    assert everything_recorded() == before
    assert buckets() == {"recorded": (2, 2), "repeat": (2, 0)}


def test_a_message_delivered_again_within_its_batch_is_a_repeat(site: Site) -> None:
    """Check a batch with both copies of a message after a lost connection."""
    first = message(csl(seen(site.epcs[0])), mid=1)
    pipeline().handle([first, replace(first, is_redelivered=True, received_at=first.received_at + SECOND)])
    assert buckets() == {"recorded": (1, 1), "repeat": (1, 0)}


def test_a_reused_packet_id_is_not_a_repeat(site: Site) -> None:
    line = pipeline()
    line.handle([message(csl(seen(site.epcs[0])), mid=1)])
    line.handle([message(csl(seen(site.epcs[1])), mid=1, is_redelivered=True)])
    assert buckets() == {"recorded": (2, 2)}


def test_each_session_has_its_own_packet_ids(site: Site) -> None:
    sent = [message(csl(seen(site.epcs[number])), mid=1) for number in range(2)]
    batch = [sent[0], replace(sent[1], session=15)]
    pipeline().handle(batch)
    pipeline().handle([replace(one, is_redelivered=True) for one in batch])  # loads the receipts from disk
    assert buckets() == {"recorded": (2, 2), "repeat": (2, 0)}


def test_a_timed_message_sent_twice_by_the_reader_is_a_repeat(site: Site) -> None:
    line = pipeline()
    payload = csl(seen(site.epcs[0], clock.now()), seen(site.epcs[1], clock.now()))
    line.handle([message(payload, mid=1)])
    line.handle([message(payload, mid=2)])
    assert buckets() == {"recorded": (1, 2), "repeat": (1, 2)}


def test_a_message_that_did_not_count_may_be_sent_again_after_the_fix(site: Site) -> None:
    line, at = pipeline(), clock.now() - SECOND
    sent = csl(seen(site.epcs[0], at=at // 1000 * 1000), seen("30BAD0", at=at // 1000 * 1000))
    line.handle([message(sent, mid=7)])
    assets.create(shell(site.organization_id), name="Late", tags=[NewTag("rfid", "30BAD0")])
    line = pipeline()
    line.handle([message(sent, mid=8)])
    assert execute("SELECT count(*) FROM position").fetchone() == (2,)
    line.handle([message(sent, mid=9)])
    assert buckets() == {"recorded": (2, 2), "repeat": (1, 3), "unmatched_tag": (0, 1)}


@pytest.mark.usefixtures("site")
def test_a_recorded_message_stays_known_when_its_packet_id_is_reused() -> None:
    known, digest, other = Receipts(), b"d" * 16, b"o" * 16
    known.add([(0, 1, digest, False), (0, 2, digest, True), (0, 1, other, True)])
    assert known.has_recorded(digest)
    known.add([(0, 2, other, True)])
    assert not known.has_recorded(digest)
