"""A site with forklifts and a reader at a door: antenna 1 on the inner side, antenna 2 on the outer side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute
from edge.doors import doors
from edge.doors.doors import DoorAntenna
from edge.doors.passage_rule import Direction, Side
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.readers.clocks import READER
from edge.records import assets, locations
from edge.records.tags import NewTag

TOPIC = "site/gate/reads"
GAP = 300 * SECOND


class GateRead(NamedTuple):
    """A read: seconds after the start, asset number, port, RSSI."""

    at: float
    asset: int
    port: int
    rssi: int | None


class Gate:
    """Doors `Gate` (ports 1 and 2 of its reader) and `Ramp` (ports 3 and 4)."""

    def __init__(self, organization_id: int, count: int = 2, topic: str = TOPIC) -> None:
        self.organization_id = organization_id
        self.actor = shell(organization_id)
        self.topic = topic
        self.began = (clock.now() - clock.HOUR) // SECOND * SECOND
        self.hall = locations.create(self.actor, name="Hall").id
        self.reader = readers.add_reader(
            self.actor, name="gate", topic=topic, format="csl", location_id=self.hall, clock_setting=READER
        ).id
        self.epcs = [f"30CC{number:020X}" for number in range(count)]
        self.assets = [
            assets.create(self.actor, name=f"Pallet {number}", tags=[NewTag("rfid", epc)]).id
            for number, epc in enumerate(self.epcs)
        ]
        self.door = self.add_door("Gate", 1, 2)

    def add_door(self, name: str, inner: int, outer: int) -> int:
        door_id = doors.add_door(self.actor, name, self.hall)
        both = [DoorAntenna(Side.INNER, self.reader, inner), DoorAntenna(Side.OUTER, self.reader, outer)]
        doors.set_antennas(self.actor, door_id, both)
        return door_id

    def message(self, reads: Iterable[GateRead], mid: int = 0) -> Message:
        tags: list[dict[str, Any]] = [
            {
                "epc": self.epcs[read.asset],
                "antennaPort": read.port,
                "rssi": "" if read.rssi is None else str(read.rssi),
                "timeStampOfRead": self.began + round(read.at * SECOND),
            }
            for read in reads
        ]
        return Message(self.topic, msgspec.json.encode({"tags": tags}), clock.now(), mid, 1 if mid else 0)

    def receive(self, reads: Sequence[GateRead], pipeline: Pipeline | None = None, size: int = 3) -> None:
        """Ingest reads in their order, `size` of them a message, each message in a batch of its own."""
        line = pipeline or new_pipeline()
        for begin in range(0, len(reads), size):
            line.handle([self.message(reads[begin : begin + size])])

    def passages(self) -> list[tuple[int, str, float]]:
        """Return (asset number, direction, seconds after the start), without withdrawn ones."""
        rows = execute(
            "SELECT asset_id, direction, at FROM passage WHERE direction <> ? ORDER BY at, asset_id",
            (Direction.WITHDRAWN,),
        )
        return [
            (self.assets.index(asset), Direction(direction).name, round((at - self.began) / SECOND, 3))
            for asset, direction, at in rows
        ]


def new_pipeline(*, is_smoothing: bool = True) -> Pipeline:
    return Pipeline(GAP, 7, is_smoothing=is_smoothing)


def passing(begin: float, *, asset: int = 0, is_out: bool = True, ports: tuple[int, int] = (1, 2)) -> list[GateRead]:
    """Return the reads of a forklift that takes 4 s through the door, which it crosses 2 s after `begin`."""
    first, second = ports if is_out else ports[::-1]
    reads = []
    for step in range(20):
        at, near = begin + step * 0.2, -66 + 2 * min(step, 19 - step)
        if step < 12:
            reads.append(GateRead(at, asset, first, near + (4 if step < 10 else -10)))
        if step >= 8:
            reads.append(GateRead(at + 0.05, asset, second, near + (4 if step >= 10 else -10)))
    return reads


def turning_back(begin: float, *, asset: int = 0) -> list[GateRead]:
    """Return the reads of a driver who goes out for 3 s and returns."""
    out = passing(begin, asset=asset)
    back = passing(begin + 5, asset=asset, is_out=False)
    return [read for read in out if read.at < begin + 3.6] + [read for read in back if read.at > begin + 5.4]
