"""Offer to correct history after the location of a reader or antenna was changed.

A correction is never automatic: only a person knows if the reader was moved or its setting was wrong.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from edge.audit.trail import AuditFilter, AuditRow, list_page
from edge.clock import DAY, SECOND, rfc3339
from edge.database.connection import column
from edge.errors import NotFound
from edge.people import organizations
from edge.readers import readers
from edge.readers.location_corrections import Correction
from edge.records import locations
from edge.records.locations import LocationRow

_MOST_LINES = 200  # audit entries of one reader
_MOST_REPLAYED = 31 * DAY  # maximum age of replayed messages (default: 7 days)


class Offer(NamedTuple):
    """Reads of one antenna, or of all (`port` None), recorded at `was` since `since`; the location is now `right`."""

    port: int | None
    was: LocationRow
    right: LocationRow
    since: int


def location_of(organization_id: int, reader_id: int, port: int | None) -> int | None:
    """Return the location of an antenna, or with None of the reader. Raises NotFound."""
    own = _own_locations(organization_id, reader_id).get(port) if port is not None else None
    return own or readers.get_reader(organization_id, reader_id).location_id


def offers(organization_id: int, reader_id: int, port: int | None, was_id: int | None) -> list[Offer]:
    """Return possible corrections after the location `was_id` was replaced.

    For a reader, return one offer for all antennas. If one of its antennas is set to `was_id`, return one offer for
    each antenna without its own location.
    """
    right_id = location_of(organization_id, reader_id, port)
    if was_id is None or right_id is None or was_id == right_id:
        return []
    try:
        was, right = locations.get(organization_id, was_id), locations.get(organization_id, right_id)
    except NotFound:  # deleted: it cannot be chosen
        return []
    ports = _ports_read_at(organization_id, reader_id, was_id)
    own = _own_locations(organization_id, reader_id)
    if port is not None:
        affected: list[int | None] = [port] if port in ports else []
    elif was_id in own.values():
        affected = [number for number in sorted(ports) if number not in own]
    else:
        affected = [None] if ports else []
    return [Offer(number, was, right, _set_at(organization_id, reader_id, number, was)) for number in affected]


def command(organization_id: int, correction: Correction) -> str:
    """Return the shell command that previews a correction. Raises NotFound."""
    reader = readers.get_reader(organization_id, correction.reader_id)
    was = locations.get(organization_id, correction.from_location_id).external_key
    right = locations.get(organization_id, correction.to_location_id).external_key
    arguments = [
        "edge",
        "reader",
        "correct",
        reader.name,
        "--was",
        was,
        "--is",
        right,
        "--since",
        rfc3339(correction.since),
    ]
    if correction.port is not None:
        arguments += ["--antenna", str(correction.port)]
    if len(organizations.list_organizations()) > 1:
        arguments += ["--org", organizations.get_organization(organization_id).name]
    return shlex.join(arguments)


def _own_locations(organization_id: int, reader_id: int) -> dict[int, int]:
    """Return {port: location} of the antennas with their own location."""
    antennas = readers.list_antennas(organization_id, reader_id)
    return {antenna.port: antenna.location_id for antenna in antennas if antenna.location_id is not None}


def _ports_read_at(organization_id: int, reader_id: int, location_id: int) -> set[int]:
    """Return the ports with reads recorded at the location; 0 for reads without an antenna."""
    sql = (
        "SELECT DISTINCT ifnull(port, 0) FROM source "
        "WHERE organization_id = ? AND reader_id = ? AND location_id = ? AND site_no IS NULL"
    )
    return set(column(sql, (organization_id, reader_id, location_id)))


def _set_at(organization_id: int, reader_id: int, port: int | None, was: LocationRow) -> int:
    """Return the time at which the location was set, from the audit, or else the time at which the reader was added.

    The first location also applies to older messages, because they are replayed after setup.
    """
    named = f"{was.name} ({was.external_key})"
    of_reader = AuditFilter(subject_kind="reader", subject_id=str(reader_id))
    for line in list_page(organization_id, of_reader, limit=_MOST_LINES).rows:
        if _sets(line, port, named):
            is_first = line.action == "reader.created" or line.detail["location"]["old"] is None
            return _to_the_second(line.at - _MOST_REPLAYED * is_first)
    return _to_the_second(readers.get_reader(organization_id, reader_id).created_at - _MOST_REPLAYED)


def _to_the_second(at: int) -> int:
    return at // SECOND * SECOND


def _sets(line: AuditRow, port: int | None, named: str) -> bool:
    if line.detail.get("port") not in (None, port):
        return False
    location = line.detail.get("location")
    if isinstance(location, dict):
        return line.action in ("reader.changed", "antenna.changed") and location.get("new") == named
    return line.action == "reader.created" and location == named
