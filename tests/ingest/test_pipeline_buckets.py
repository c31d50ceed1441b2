"""Ledger: the buckets add up for any input, and redelivery changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from edge.audit.actors import shell
from edge.clock import SECOND
from edge.formats.reads import Malformed
from edge.formats.registry import parser_of
from edge.ingest import batch
from edge.ingest.messages import Message
from edge.readers import readers
from edge.readers.ledger import Bucket, Tally
from edge.readers.readers import Placement
from edge.records import locations
from tests.ingest.site import (
    AISLE,
    DOCK,
    Site,
    buckets,
    csl,
    everything_recorded,
    location_of,
    message,
    pipeline,
    seen,
)

one_read = st.builds(
    seen,
    epc=st.sampled_from([f"30AA{number:020X}" for number in range(3)] + ["30FF", "zz", ""]),
    at=st.none() | st.integers(-(10**6), 10**18),
    port=st.integers(0, 4),
    rssi=st.integers(-70, -40),
)


payloads = st.one_of(
    st.lists(one_read, max_size=4).map(lambda tags: csl(*tags)),
    st.binary(max_size=20),
    st.sampled_from(
        [b"", b"null", b"[]", b'{"heartBeatFlag":1}', b'{"tags":[{"epc":"30AA"}, 5, null]}', b"[" * 100_000]
    ),
)


messages = st.lists(
    st.builds(
        lambda payload, topic, mid, retained: message(payload, topic, mid=mid, is_retained=retained),
        payloads,
        st.sampled_from([DOCK, AISLE, "nobody", "$x", "a/b"]),
        st.integers(0, 5),
        st.booleans() | st.just(False),
    ),
    max_size=8,
)


def count_reads(batch: Sequence[Message]) -> int:
    """Return the number of reads in the parsable messages."""
    formats = {DOCK: "csl", AISLE: "edge"}
    total = 0
    for one in batch:
        if one.topic in formats and not one.is_retained:
            with contextlib.suppress(Malformed):
                total += len(parser_of(formats[one.topic], None)(one.topic, one.payload).reads)
    return total


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages)
def test_the_buckets_add_up_to_all_messages_and_reads(site: Site, batch: list[Message]) -> None:
    before = buckets()
    pipeline().handle(batch)
    after = buckets()
    assert sum(count for count, _ in after.values()) - sum(count for count, _ in before.values()) == len(batch)
    assert sum(count for _, count in after.values()) - sum(count for _, count in before.values()) == count_reads(batch)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages)
def test_a_batch_delivered_again_after_a_crash_changes_nothing(site: Site, batch: list[Message]) -> None:
    numbered = [replace(one, mid=mid, qos=1) for mid, one in enumerate(batch, start=1)]
    pipeline().handle(numbered)
    before = everything_recorded()
    pipeline().handle([replace(one, is_redelivered=True, received_at=one.received_at + SECOND) for one in numbered])
    assert everything_recorded() == before


def test_a_discarded_empty_message_counts_as_malformed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a message beyond the limit, of which a part is kept, is too large."""
    rest: list[Tally] = []
    monkeypatch.setattr(batch.dead_letters, "add", lambda letters, _: letters)
    add = batch.ledger.add
    monkeypatch.setattr(batch.ledger, "add", lambda *counts: (rest.extend(counts[2]), add(*counts))[1])
    pipeline().handle([message(b""), replace(message(b"cut"), size=10**6)])
    assert [tally.bucket for tally in rest] == [Bucket.MALFORMED, Bucket.TOO_LARGE]


def test_reads_of_an_antenna_whose_location_was_deleted_have_no_location(site: Site) -> None:
    """They never count at the location of the reader."""
    actor = shell(site.organization_id)
    gone = locations.create(actor, name="Gone").id
    readers.set_antenna(actor, site.dock_reader, 4, Placement(gone, None, True))
    line = pipeline()
    line.handle([message(csl(seen(site.epcs[0], port=1)), mid=1)])
    locations.delete(actor, gone)
    line.handle([message(csl(seen(site.epcs[1], port=4), seen(site.epcs[2], port=1)), mid=2)])
    assert buckets() == {"recorded": (2, 2), "no_location": (0, 1)}
    assert location_of(site.assets[1]) is None
    assert location_of(site.assets[2]) == site.dock
