"""What being read by an antenna means, where it is set: for one antenna, a reader, or everything below a location."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute
from edge.tracking.signal_strength import AntennaKind


class Kinds(NamedTuple):
    """Everything that is set."""

    antennas: Mapping[tuple[int, int], AntennaKind]  # by reader and port
    readers: Mapping[int, AntennaKind]
    locations: Mapping[int, AntennaKind]  # also those below a location for which it is set

    def of(self, reader_id: int, port: int | None, location_id: int | None) -> AntennaKind:
        """The setting closest to the antenna."""
        if port is not None and (kind := self.antennas.get((reader_id, port))):
            return kind
        return self.readers.get(reader_id) or self.locations.get(location_id or 0) or AntennaKind.ZONE


def set_reader_kind(actor: Actor, reader_id: int, name: str, kind: AntennaKind | None, port: int | None = None) -> None:
    """For a reader, or for one of its antennas; None: inherited from above. `name` is for the audit."""
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
    """For all antennas at a location and below; None: inherited from above. `name` is for the audit."""
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
    """What is set for this location itself."""
    sql = "SELECT kind FROM antenna_kind WHERE organization_id = ? AND location_id = ?"
    found = execute(sql, (organization_id, location_id)).fetchone()
    return AntennaKind(found[0]) if found else None


def kinds_of(organization_id: int) -> Kinds:
    return _kinds("AND organization_id = :id", organization_id)


def all_kinds() -> Kinds:
    """Of all organizations; only ingest, which serves the whole box, may ask."""
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
# The nearest one above counts: the path down stops where another kind is set.
_LOCATIONS = """
WITH RECURSIVE below (location_id, kind) AS (
    SELECT location_id, kind FROM antenna_kind WHERE location_id IS NOT NULL {}
    UNION
    SELECT location.id, below.kind FROM below JOIN location ON location.parent_id = below.location_id
    WHERE NOT EXISTS (SELECT 1 FROM antenna_kind WHERE antenna_kind.location_id = location.id)
)
SELECT location_id, kind FROM below
"""
