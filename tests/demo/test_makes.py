"""The parsers read every simulated message with its original meaning."""

from __future__ import annotations

import pytest

from edge.clock import SECOND
from edge.demo.makes import MAKES
from edge.demo.movement import Sighting
from edge.demo.plan import Plan, Reader
from edge.demo.site import tags
from edge.formats.reads import Kind, Read
from edge.formats.registry import FORMATS, recognize
from edge.records.tags import match_key
from tests.demo.conftest import BEGIN

BATCH = 7


def batches(reads: list[Sighting], name: str) -> list[list[Sighting]]:
    own = [sighting for sighting in reads if sighting.receiver.reader.format == name][:700]
    return [own[start : start + size] for size in (1, BATCH) for start in range(0, len(own), size)]


def parse(reader: Reader, payloads: list[bytes]) -> list[Read]:
    reads: list[Read] = []
    for payload in payloads:
        parsed = FORMATS[reader.format].parse(reader.topic, payload)
        assert (parsed.kind, parsed.skipped) == (Kind.READS, 0)
        reads += parsed.reads
    return reads


@pytest.mark.parametrize("name", sorted(MAKES))
def test_messages_parse_back_to_their_reads(name: str, reads: list[Sighting]) -> None:
    for batch in batches(reads, name):
        reader = batch[0].receiver.reader
        parsed = parse(reader, MAKES[name].messages(reader, batch, 1))
        assert len(parsed) == len(batch)
        for read, sighting in zip(parsed, batch, strict=True):
            assert read.antenna == sighting.receiver.antenna
            assert read.rssi == pytest.approx(sighting.rssi, abs=1)
            assert read.observed_at == pytest.approx(sighting.at, abs=1000)
            known = {(tag.tag_type, match_key(*tag)) for tag in tags(sighting.item)}
            assert known & {(read.tag_type, match_key(read.tag_type, value)) for value in (read.value, *read.aliases)}


@pytest.mark.parametrize("name", sorted(MAKES))
def test_messages_are_not_recognised_as_another_make(name: str, reads: list[Sighting]) -> None:
    batch = batches(reads, name)[-1]
    reader = batch[0].receiver.reader
    assert {recognize(reader.topic, payload).name for payload in MAKES[name].messages(reader, batch, 1)} == {name}


def test_a_sign_of_life_is_one(plan: Plan) -> None:
    for reader in plan.simulated:
        parsed = FORMATS[reader.format].parse(reader.topic, MAKES[reader.format].heartbeat(reader, BEGIN + SECOND))
        assert (parsed.kind, parsed.reads) == (Kind.STATUS, ())
