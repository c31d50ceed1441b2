"""RSSI offsets of readers and antennas, which make different models comparable.

An offset changes the weight of a read as evidence. History keeps the reported RSSI, and `min_rssi` is compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.bounds import MOST_PORTS
from edge.database.connection import execute
from edge.errors import Invalid
from edge.texts import N_, fill

LARGEST = 30.0  # dB
TOO_MANY = N_("A reader can have offsets for at most %(most)s antennas")


class Offsets(NamedTuple):
    """All offsets, in dB."""

    antennas: Mapping[tuple[int, int], float]  # by reader and port
    readers: Mapping[int, float]

    def of(self, reader_id: int | None, port: int | None) -> float:
        """Return the offset of an antenna: its own, or that of its reader."""
        if reader_id is None:
            return 0.0
        own = self.antennas.get((reader_id, port or 0))
        return self.readers.get(reader_id, 0.0) if own is None else own


def set_offset(actor: Actor, reader_id: int, name: str, decibels: float | None, port: int | None = None) -> None:
    """Set the offset of a reader or of one of its antennas; None removes it. Raises Invalid.

    `name` is for the audit.
    """
    if decibels is not None and not -LARGEST <= decibels <= LARGEST:
        raise Invalid.one("rssi_offset", "invalid_value", N_("An RSSI offset must be between -30 and 30 dB"))
    with acting(actor) as act:
        before = offsets_of(actor.organization_id)
        if decibels is not None and sum(one == reader_id for one, _ in before.antennas) >= MOST_PORTS:
            raise Invalid.one("port", "too_many", fill(TOO_MANY, most=MOST_PORTS))
        old = before.readers.get(reader_id) if port is None else before.antennas.get((reader_id, port))
        if old == decibels:
            return
        execute(
            "DELETE FROM rssi_offset WHERE organization_id = ? AND reader_id = ? AND port IS ?",
            (actor.organization_id, reader_id, port),
        )
        if decibels is not None:
            execute(
                "INSERT INTO rssi_offset (organization_id, reader_id, port, decibels) VALUES (?, ?, ?, ?)",
                (actor.organization_id, reader_id, port, decibels),
            )
        change = {"old": old, "new": decibels}
        act.note("reader.changed", Subject("reader", reader_id, name), {"port": port, "rssi_offset": change})


def offsets_of(organization_id: int) -> Offsets:
    return _offsets("WHERE organization_id = ?", organization_id)


def all_offsets() -> Offsets:
    """Return the offsets of all organizations. For ingest only."""
    return _offsets("WHERE ?", 1)


def _offsets(condition: str, value: int) -> Offsets:
    antennas: dict[tuple[int, int], float] = {}
    whole: dict[int, float] = {}
    rows = execute(f"SELECT reader_id, port, decibels FROM rssi_offset {condition}", (value,))
    for reader_id, port, decibels in rows:
        if port is None:
            whole[reader_id] = decibels
        else:
            antennas[reader_id, port] = decibels
    return Offsets(antennas, whole)
