"""Antenna behavior: the most specific setting wins."""

from __future__ import annotations

from edge.audit.actors import shell
from edge.database.connection import scalar
from edge.readers import readers
from edge.readers.antenna_kinds import set_location_kind, set_reader_kind
from edge.readers.readers import Placement, routes
from edge.records import locations
from edge.tracking.signal_strength import AntennaKind
from tests.conftest import Cast


def kinds() -> tuple[AntennaKind, dict[int, AntennaKind]]:
    route = routes()[0]
    return route.placement.kind, {port: one.kind for port, one in route.antennas.items()}


def test_antenna_then_reader_then_the_nearest_location_then_zone(cast: Cast) -> None:
    actor = shell(cast.acme)
    hall = locations.create(actor, name="Hall")
    dock = locations.create(actor, name="Dock", parent_id=hall.id)
    reader = readers.add_reader(actor, name="dock", topic="site/dock", format="csl", location_id=dock.id)
    readers.set_antenna(actor, reader.id, 1, Placement(hall.id, None, True))
    assert kinds() == (AntennaKind.ZONE, {1: AntennaKind.ZONE})

    set_location_kind(actor, hall.id, hall.name, AntennaKind.PORTAL)
    assert kinds() == (AntennaKind.PORTAL, {1: AntennaKind.PORTAL})
    set_location_kind(actor, dock.id, dock.name, AntennaKind.ZONE)
    assert kinds() == (AntennaKind.ZONE, {1: AntennaKind.PORTAL})

    set_reader_kind(actor, reader.id, reader.name, AntennaKind.DIRECT)
    assert kinds() == (AntennaKind.DIRECT, {1: AntennaKind.DIRECT})
    set_reader_kind(actor, reader.id, reader.name, AntennaKind.PORTAL, port=2)
    assert kinds() == (AntennaKind.DIRECT, {1: AntennaKind.DIRECT, 2: AntennaKind.PORTAL})

    version = scalar("SELECT readers FROM version")
    set_reader_kind(actor, reader.id, reader.name, None)
    assert scalar("SELECT readers FROM version") > version
    assert kinds() == (AntennaKind.ZONE, {1: AntennaKind.PORTAL, 2: AntennaKind.PORTAL})
