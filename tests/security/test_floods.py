"""Floods from one reader's account are limited on arrival, per reader, and counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.bounds import MOST_PORTS, Bounds, hard_limit
from edge.database.connection import execute
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.records import locations
from edge.tracking import deletion
from tests.conftest import Cast
from tests.observed import counted

pytestmark = pytest.mark.slow

BOUNDS = Bounds(unknown_tags=40, dead_letters=8, dead_letter_bytes=4_000, unassigned_topics=20)
GAP = 300 * clock.SECOND
HONEST, FLOODING = "site/honest", "site/flooding/#"


class Box:
    """Two readers of one organization and their messages."""

    def __init__(self, organization_id: int) -> None:
        dock = locations.create(shell(organization_id), name="Dock").id
        self.honest, self.flooding = (
            readers.add_reader(shell(organization_id), name=name, topic=topic, format="edge", location_id=dock).id
            for name, topic in (("honest", HONEST), ("flooding", FLOODING))
        )
        self.pipeline = Pipeline(GAP, 7, BOUNDS)
        self.sent = 0

    def send(self, *messages: tuple[str, bytes]) -> None:
        """Process messages as one batch."""
        self.sent += len(messages)
        now = clock.now()
        self.pipeline.handle([Message(topic, payload, now + at) for at, (topic, payload) in enumerate(messages)])


@pytest.fixture
def box(cast: Cast) -> Box:
    return Box(cast.acme)


def read(*tags: str, antenna: int = 1) -> bytes:
    return msgspec.json.encode({"reads": [{"tag": tag, "antenna": antenna} for tag in tags]})


def count(table: str, where: str = "1") -> int:
    number: int = execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0]
    return number


def ledger(reader_id: int) -> dict[str, tuple[Any, ...]]:
    """Return bucket -> (messages, reads, not kept)."""
    return dict(counted(reader_id))


def floods(size: int) -> Iterator[list[int]]:
    for start in range(0, 1_000, size):
        yield list(range(start, start + size))


def test_unknown_tags_are_bounded_for_each_reader_by_itself(box: Box) -> None:
    for numbers in floods(100):
        box.send(*((f"site/flooding/{n}", read(f"{n:024X}")) for n in numbers), (HONEST, read("E2AA")))
    most = hard_limit(BOUNDS.unknown_tags)
    assert count("unknown_tag", f"reader_id = {box.flooding}") == most
    assert execute("SELECT value, sightings FROM unknown_tag WHERE reader_id = ?", (box.honest,)).fetchall() == [
        ("E2AA", 10)
    ]
    assert ledger(box.flooding)["unmatched_tag"] == (1_000, 1_000, 1_000 - most)
    assert ledger(box.honest)["unmatched_tag"] == (10, 10, 0)


def test_known_unmatched_tags_are_still_counted(box: Box) -> None:
    box.send(*(("site/flooding/x", read(f"{n:024X}")) for n in range(200)))
    known = execute("SELECT value FROM unknown_tag LIMIT 1").fetchone()[0]
    box.send(*(("site/flooding/x", read(known)) for _ in range(5)))
    assert execute("SELECT sightings FROM unknown_tag WHERE value = ?", (known,)).fetchone() == (6,)


def test_a_sweep_makes_room_for_new_tags(box: Box) -> None:
    box.send(*(("site/flooding/x", read(f"{n:024X}")) for n in range(200)))
    while deletion.drop_crowded("unknown_tags", BOUNDS.unknown_tags, limit=3):
        pass
    assert count("unknown_tag") <= BOUNDS.unknown_tags
    box.send(("site/flooding/x", read("E2BB")))
    assert count("unknown_tag", "value = 'E2BB'") == 1


def test_unreadable_messages_of_a_reader_are_bounded(box: Box) -> None:
    for numbers in floods(100):
        box.send(*((f"site/flooding/{n}", b"{broken") for n in numbers), (HONEST, b"{also broken"))
    most = hard_limit(BOUNDS.dead_letters)
    assert count("dead_letter", f"reader_id = {box.flooding}") == most
    assert count("dead_letter", f"reader_id = {box.honest}") == most
    assert ledger(box.flooding)["malformed"] == (1_000, 0, 1_000 - most)
    execute("DELETE FROM dead_letter")
    box.send(*(("site/flooding/x", b"\xff" * 1_900) for _ in range(10)))
    assert count("dead_letter") == 2


def test_number_and_length_of_unassigned_topics_are_limited(box: Box) -> None:
    box.send(("dock/7", b"{}"))
    for numbers in floods(100):
        box.send(*((f"nobody/{n}", b"x") for n in numbers), (f"n{'o' * 60_000}", b"x"), ("dock/7", b"{}"))
    assert count("unassigned_topic") == hard_limit(BOUNDS.unassigned_topics)
    assert execute("SELECT messages FROM unassigned_topic WHERE topic = 'dock/7'").fetchone() == (11,)
    bucket = ledger(0)["unknown_topic"]
    assert bucket == (1_021, 0, 1_010 - (hard_limit(BOUNDS.unassigned_topics) - 1))


def test_invented_antennas_are_limited(box: Box) -> None:
    box.send(*(("site/flooding/x", read("E2AA", antenna=port)) for port in range(1, 1_000)), (HONEST, read("E2AA")))
    assert count("antenna_state", f"reader_id = {box.flooding}") == MOST_PORTS
    assert count("antenna_state", f"reader_id = {box.honest}") == 1


def test_every_message_is_still_in_one_bucket(box: Box) -> None:
    for numbers in floods(250):
        box.send(*((f"site/flooding/{n}", read(f"{n:024X}") if n % 2 else b"{broken") for n in numbers))
    assert execute("SELECT sum(messages) FROM ledger").fetchone() == (box.sent,)


def test_a_sweep_after_a_flood_blocks_no_writers(box: Box, cast: Cast) -> None:
    """Regression: each step sorted a million rows in its transaction, which took 10 s and more."""
    execute(
        "INSERT INTO unknown_tag WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
        "SELECT ?, 'rfid', i, ?, i, 'unmatched', i, i, 1, NULL FROM n",
        (cast.acme, box.flooding),
    )
    began = time.process_time()
    assert deletion.drop_crowded("unknown_tags", 5_000) == deletion.ROWS
    assert time.process_time() - began < 0.1
