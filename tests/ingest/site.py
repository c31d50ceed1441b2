"""Small site with two readers for tests of ingest, and their messages."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.readers.clocks import READER
from edge.readers.readers import Placement
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.observed import counted

GAP = 300 * SECOND
DOCK, AISLE = "site/dock/reads", "site/aisle/reads"


class Site(NamedTuple):
    organization_id: int
    dock: int
    aisle: int
    dock_reader: int
    assets: list[int]
    epcs: list[str]


def make_site(organization_id: int, count: int = 3) -> Site:
    """Create `count` tagged assets, a CSL reader with two antennas at the dock, and a plain-format reader in the aisle.

    Their clocks are known to be correct, so reads from an hour ago are accepted immediately.
    """
    dock = locations.create(shell(organization_id), name="Dock").id
    aisle = locations.create(shell(organization_id), name="Aisle").id
    epcs = [f"30AA{number:020X}" for number in range(count)]
    ids = [assets.create(shell(organization_id), name=f"Pallet {epc}", tags=[NewTag("rfid", epc)]).id for epc in epcs]
    reader = readers.add_reader(
        shell(organization_id), name="dock", topic=DOCK, format="csl", location_id=dock, clock_setting=READER
    )
    readers.set_antenna(shell(organization_id), reader.id, 2, Placement(None, -60.0, True))
    readers.set_antenna(shell(organization_id), reader.id, 3, Placement(None, None, False))
    readers.add_reader(
        shell(organization_id), name="aisle", topic=AISLE, format="edge", location_id=aisle, clock_setting=READER
    )
    return Site(organization_id, dock, aisle, reader.id, ids, epcs)


def csl(*tags: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"tags": list(tags)})


def seen(epc: str, at: int | None = None, port: int = 1, rssi: int = -50) -> dict[str, Any]:
    time = {} if at is None else {"timeStampOfRead": at}
    return {"epc": epc, "antennaPort": port, "rssi": str(rssi), **time}


def message(
    payload: bytes, topic: str = DOCK, *, mid: int = 0, received_at: int | None = None, **flags: bool
) -> Message:
    return Message(topic, payload, received_at or clock.now(), mid, 1 if mid else 0, **flags)


def pipeline(*, is_smoothing: bool = True) -> Pipeline:
    return Pipeline(GAP, 7, is_smoothing=is_smoothing)


def location_of(asset_id: int) -> int | None:
    row = execute("SELECT location_id FROM position WHERE asset_id = ?", (asset_id,)).fetchone()
    return row[0] if row else None


def buckets() -> dict[str, tuple[int, int]]:
    """Return {bucket: (messages, reads)} over all readers and hours."""
    return {bucket: (count.messages, count.reads) for bucket, count in counted().items()}


def everything_recorded() -> list[list[tuple[Any, ...]]]:
    """Return all rows that scans change, without the ledger."""
    return [list(execute(f"SELECT * FROM {table}")) for table in ("position", "history", "unknown_tag", "dead_letter")]
