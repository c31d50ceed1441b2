"""Test site with two readers and a controllable box clock, for tests of reader clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import DAY, SECOND
from edge.database.connection import execute
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.readers.status import statuses
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.ingest.site import GAP, csl, seen

START = 1_772_439_330 * SECOND
EPC = "30AA00000000000000000001"
DOCK, GATE = "site/dock/reads", "site/gate/reads"


class Stay(NamedTuple):
    """Stay of the asset at a reader; times in seconds since `START`."""

    location: str
    begins: float
    ends: float


class Sent(NamedTuple):
    """A message with its time of arrival and the times of its reads, in seconds since `START`."""

    arrives: float
    made: tuple[float, ...]
    topic: str = DOCK
    tag: str = EPC


class World:
    """A site with two new readers and a box clock that the test controls."""

    def __init__(self, organization_id: int, monkeypatch: pytest.MonkeyPatch, gap: int = GAP) -> None:
        self.organization_id = organization_id
        self.gap = gap
        self.now = START
        self.stepped = 0  # by how much the box's clock was set since boot
        monkeypatch.setattr(clock, "now", lambda: self.now)
        monkeypatch.setattr(clock, "elapsed", lambda: self.now - self.stepped - START + DAY)
        self.names = {}
        self.readers = {}
        for name, topic in (("dock", DOCK), ("gate", GATE)):
            location = locations.create(shell(organization_id), name=name)
            self.names[location.id] = name
            self.readers[name] = readers.add_reader(
                shell(organization_id), name=name, topic=topic, format="csl", location_id=location.id
            )
        assets.create(shell(organization_id), name="Pallet", tags=[NewTag("rfid", EPC)])
        self.restart()

    def restart(self) -> None:
        self.pipeline = Pipeline(self.gap, 7, is_smoothing=False)  # history shows the accepted time of each read

    def send(self, messages: Iterable[Sent], ahead: Callable[[float], float] = lambda _: 0.0) -> None:
        """Set up the site. `ahead`: seconds by which the dock reader's clock is ahead, as a function of time."""
        for sent in sorted(messages):
            self.wait_until(sent.arrives)
            by_its_clock = [made + (ahead(made) if sent.topic == DOCK else 0) for made in sent.made]
            reads = [seen(sent.tag, at=START + round(at * SECOND)) for at in by_its_clock]
            self.pipeline.handle([Message(sent.topic, csl(*reads), self.now)])

    def wait_until(self, second: float) -> None:
        end = START + round(second * SECOND)
        while self.now < end:
            while self.pipeline.catch_up():
                pass
            is_waiting = execute("SELECT EXISTS (SELECT 1 FROM held_message)").fetchone()[0]
            self.now = min(end, self.now + SECOND // 2) if is_waiting else end
        while self.pipeline.catch_up():
            pass

    def stays(self) -> list[Stay]:
        rows = execute(
            "SELECT s.location_id, h.observed_at, "
            "iif(h.observed_at = t.row_at, t.last_seen_at - h.observed_at, h.seen_for) "
            "FROM history h JOIN track t ON t.no = h.position_no JOIN source s ON s.no = h.source_no "
            "ORDER BY h.observed_at"
        )
        return [
            Stay(self.names[location_id], (at - START) / SECOND, (at - START + lasted) / SECOND)
            for location_id, at, lasted in rows
        ]

    def offset(self, name: str = "dock") -> float | None:
        offset = statuses(self.organization_id)[self.readers[name].id].clock_offset
        return None if offset is None else offset / SECOND


def live(begins: int, ends: int, topic: str = DOCK) -> Iterator[Sent]:
    """Yield a message with one read every second, received 0.1 s later."""
    return (Sent(second + 0.1, (second,), topic) for second in range(begins, ends))


def batched(begins: int, ends: int, every: int) -> Iterator[Sent]:
    """Yield batches of a gateway with a read about every 3.7 s."""
    for second in range(begins, ends, every):
        made = tuple(second + 3.7 * number for number in range(1 + int(every / 3.7)))
        yield Sent(second + every, made)


def is_near(stays: list[Stay], expected: list[Stay], within: float) -> bool:
    return [stay.location for stay in stays] == [stay.location for stay in expected] and all(
        abs(one.begins - other.begins) <= within and abs(one.ends - other.ends) <= within
        for one, other in zip(stays, expected, strict=True)
    )
