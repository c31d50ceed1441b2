"""Where scans can come from. Each source has a number, which history keeps instead of antenna, person and location."""

from __future__ import annotations

from typing import NamedTuple

from edge.store.database import execute


class ScanSource(NamedTuple):
    """An antenna as it was placed, or people at a location. On a hub the last three are of one of its sites.

    `remote_person` without a site is somebody who used this box before it was recovered from its hub.
    """

    location_id: int
    reader_id: int | None = None
    port: int | None = None
    site_no: int | None = None
    remote_reader: int | None = None
    remote_person: int | None = None


def number_of(organization_id: int, source: ScanSource) -> int:
    """The number of a source, assigned when it is first asked for. Within the caller's transaction."""
    found = execute(_FIND, source).fetchone() or execute(_ADD, (organization_id, *source)).fetchone()
    number: int = found[0]
    return number


# As the unique index `source_origin` has it.
_FIND = """
SELECT no FROM source WHERE location_id = ? AND ifnull(reader_id, 0) = ifnull(?, 0)
AND ifnull(port, -1) = ifnull(?, -1) AND ifnull(site_no, 0) = ifnull(?, 0)
AND ifnull(remote_reader, 0) = ifnull(?, 0) AND ifnull(remote_person, 0) = ifnull(?, 0)
"""
_ADD = """
INSERT INTO source (organization_id, location_id, reader_id, port, site_no, remote_reader, remote_person)
VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING no
"""
