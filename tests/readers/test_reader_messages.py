"""Sample messages of each reader for the trial of a release: at most one in five minutes, limited in size."""

from __future__ import annotations

from pathlib import Path

from edge.audit.actors import shell
from edge.clock import SECOND
from edge.ingest.messages import Message
from edge.readers import readers
from edge.readers.reader_messages import EVERY, KEPT, KEPT_BYTES, all_messages
from tests.conftest import Cast
from tests.ingest.site import DOCK, csl, make_site, pipeline, seen

START = 1_790_000_100 * SECOND


def test_one_message_in_five_minutes_is_kept_and_the_oldest_is_replaced(store: Path, cast: Cast) -> None:
    site = make_site(cast.acme)
    ingest = pipeline()
    payloads = [csl(seen(site.epcs[0], (START + number * EVERY // 2) // 1000)) for number in range(12)]
    for number, payload in enumerate(payloads):
        ingest.handle([Message(DOCK, payload, START + number * EVERY // 2)])
    kept = all_messages()
    assert [message.payload for message in kept] == payloads[-2 * KEPT :: 2]
    assert {message.topic for message in kept} == {DOCK}


def test_messages_without_reads_or_large_ones_are_not_kept(store: Path, cast: Cast) -> None:
    site = make_site(cast.acme)
    ingest = pipeline()
    large = csl(*[seen(site.epcs[0], START // 1000, port) for port in range(1, 400)])
    assert len(large) > KEPT_BYTES
    for payload in (b"{}", b"not json", large):
        ingest.handle([Message(DOCK, payload, START)])
    assert all_messages() == []


def test_messages_of_a_removed_reader_are_not_replayed(store: Path, cast: Cast) -> None:
    site = make_site(cast.acme)
    pipeline().handle([Message(DOCK, csl(seen(site.epcs[0], START // 1000)), START)])
    assert len(all_messages()) == 1
    for reader in readers.list_readers(cast.acme):
        readers.remove_reader(shell(cast.acme), reader.id)
    assert all_messages() == []
