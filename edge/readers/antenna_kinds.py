"""Antenna behavior (zone, portal, ...), set for an antenna, a reader, or all antennas at or below a location."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute
from edge.tracking.signal_strength import AntennaKind


class Kinds(NamedTuple):
    """All settings of antenna behavior."""

    antennas: Mapping[tuple[int, int], AntennaKind]  # by reader and port
    readers: Mapping[int, AntennaKind]
    locations: Mapping[int, AntennaKind]  # including inherited settings

    def of(self, reader_id: int, port: int | None, location_id: int | None) -> AntennaKind:
        """Return the most specific setting: antenna, reader, location, default."""
        if port is not None and (kind := self.antennas.get((reader_id, port))):
            return kind
        return self.readers.get(reader_id) or self.locations.get(location_id or 0) or AntennaKind.ZONE


def set_reader_kind(actor: Actor, reader_id: int, name: str, kind: AntennaKind | None, port: int | None = None) -> None:
    """Set the behavior of a reader or one of its antennas. `kind` None: inherit. `name`: for the audit."""
    with acting(actor) as act:
        execute(
            "DELETE FROM antenna_kind WHERE organization_id = ? AND reader_id = ? AND port IS ?",
            (actor.organization_id, reader_id, port),
        )
        if kind:
            execute(
                "INSERT INTO antenna_kind (organization_id, reader_id, port, kind) VALUES (?, ?, ?, ?)",
                (actor.organization_id, reader_id, port, kind),
            )
        act.note("reader.changed", Subject("reader", reader_id, name), {"port": port, "antenna_kind": kind})


def set_location_kind(actor: Actor, location_id: int, name: str, kind: AntennaKind | None) -> None:
    """Set the behavior of all antennas at or below a location. `kind` None: inherit. `name`: for the audit."""
    with acting(actor) as act:
        execute(
            "DELETE FROM antenna_kind WHERE organization_id = ? AND location_id = ?",
            (actor.organization_id, location_id),
        )
        if kind:
            execute(
                "INSERT INTO antenna_kind (organization_id, location_id, kind) VALUES (?, ?, ?)",
                (actor.organization_id, location_id, kind),
            )
        act.note("location.changed", Subject("location", location_id, name), {"antenna_kind": kind})


def kind_of_location(organization_id: int, location_id: int) -> AntennaKind | None:
    """Return the setting of this location, without inherited ones."""
    sql = "SELECT kind FROM antenna_kind WHERE organization_id = ? AND location_id = ?"
    row = execute(sql, (organization_id, location_id)).fetchone()
    return AntennaKind(row[0]) if row else None


def kinds_of(organization_id: int) -> Kinds:
    """Return the settings of an organization."""
    return _kinds("AND organization_id = :id", organization_id)


def all_kinds() -> Kinds:
    """Return the settings of all organizations. For ingest only."""
    return _kinds("", 0)


def _kinds(condition: str, organization_id: int) -> Kinds:
    values = {"id": organization_id}
    antennas: dict[tuple[int, int], AntennaKind] = {}
    readers: dict[int, AntennaKind] = {}
    for reader_id, port, kind in execute(_READERS.format(condition), values):
        if port is None:
            readers[reader_id] = AntennaKind(kind)
        else:
            antennas[reader_id, port] = AntennaKind(kind)
    locations = {location_id: AntennaKind(kind) for location_id, kind in execute(_LOCATIONS.format(condition), values)}
    return Kinds(antennas, readers, locations)


_READERS = "SELECT reader_id, port, kind FROM antenna_kind WHERE reader_id IS NOT NULL {}"
# The nearest ancestor wins: the recursion stops at a location with its own setting.
_LOCATIONS = """
WITH RECURSIVE below (location_id, kind) AS (
    SELECT location_id, kind FROM antenna_kind WHERE location_id IS NOT NULL {}
    UNION
    SELECT location.id, below.kind FROM below JOIN location ON location.parent_id = below.location_id
    WHERE NOT EXISTS (SELECT 1 FROM antenna_kind WHERE antenna_kind.location_id = location.id)
)
SELECT location_id, kind FROM below
"""
