"""Offers to correct history after the location of a reader or an antenna was changed to another one.

Only offers: a reader that was moved and one whose setting was wrong look the same, and only a person knows which it is.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from edge.audit.trail import AuditFilter, AuditRow, list_page
from edge.clock import DAY, SECOND, rfc3339
from edge.database.connection import execute
from edge.errors import NotFound
from edge.people import organizations
from edge.readers import readers
from edge.readers.location_corrections import Correction
from edge.records import locations
from edge.records.locations import LocationRow

_MOST_LINES = 200  # of the audit of one reader
_MOST_REPLAYED = 31 * DAY  # messages from before setup are read again, by default those of 7 days


class Offer(NamedTuple):
    """Reads of one antenna, or of all (`port` None), are recorded at `was`, perhaps since then; now it is `right`."""

    port: int | None
    was: LocationRow
    right: LocationRow
    since: int


def location_of(organization_id: int, reader_id: int, port: int | None) -> int | None:
    """Where an antenna reads, or with None the antennas that have no location of their own. Raises NotFound."""
    own = _own_locations(organization_id, reader_id).get(port) if port is not None else None
    return own or readers.get_reader(organization_id, reader_id).location_id


def offers(organization_id: int, reader_id: int, port: int | None, was_id: int | None) -> list[Offer]:
    """What may have to be corrected, now that it reads another location than `was_id`.

    For a reader it is one offer for all antennas, unless one of them is rightly at `was_id`: then one for each other.
    """
    right_id = location_of(organization_id, reader_id, port)
    if was_id is None or right_id is None or was_id == right_id:
        return []
    try:
        was, right = locations.get(organization_id, was_id), locations.get(organization_id, right_id)
    except NotFound:  # deleted: nobody could choose it
        return []
    ports = _ports_read_at(organization_id, reader_id, was_id)
    own = _own_locations(organization_id, reader_id)
    if port is not None:
        affected: list[int | None] = [port] if port in ports else []
    elif was_id in own.values():
        affected = [one for one in sorted(ports) if one not in own]
    else:
        affected = [None] if ports else []
    return [Offer(one, was, right, _set_at(organization_id, reader_id, one, was)) for one in affected]


def command(organization_id: int, correction: Correction) -> str:
    """The command that shows what a correction would change. Raises NotFound."""
    reader = readers.get_reader(organization_id, correction.reader_id)
    was = locations.get(organization_id, correction.from_location_id).external_key
    right = locations.get(organization_id, correction.to_location_id).external_key
    words = [
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
        words += ["--antenna", str(correction.port)]
    if len(organizations.list_organizations()) > 1:
        words += ["--org", organizations.get_organization(organization_id).name]
    return shlex.join(words)


def _own_locations(organization_id: int, reader_id: int) -> dict[int, int]:
    """Port -> location of the antennas that have one of their own."""
    antennas = readers.list_antennas(organization_id, reader_id)
    return {one.port: one.location_id for one in antennas if one.location_id is not None}


def _ports_read_at(organization_id: int, reader_id: int, location_id: int) -> set[int]:
    """The antennas with reads that were recorded there; 0 for reads without an antenna."""
    sql = (
        "SELECT DISTINCT ifnull(port, 0) FROM source "
        "WHERE organization_id = ? AND reader_id = ? AND location_id = ? AND site_no IS NULL"
    )
    return {port for (port,) in execute(sql, (organization_id, reader_id, location_id))}


def _set_at(organization_id: int, reader_id: int, port: int | None, was: LocationRow) -> int:
    """When that location was set, from the audit; when the reader was added, if the audit does not say.

    The first location also applies to older messages, which are read again once there is one.
    """
    named = f"{was.name} ({was.external_key})"
    wanted = AuditFilter(subject_kind="reader", subject_id=str(reader_id))
    for line in list_page(organization_id, wanted, limit=_MOST_LINES).rows:
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
