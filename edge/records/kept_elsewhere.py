"""Home of a record: the one box on which it can be changed. Other boxes have a read-only mirror of it."""

from __future__ import annotations

from edge.database.connection import execute, find_scalar
from edge.errors import Conflict
from edge.texts import N_, fill


def check_home(record_id: int) -> None:
    """Raise Conflict if the home of the record is another box."""
    row = execute("SELECT home FROM mirror WHERE record_id = ?", (record_id,)).fetchone()
    if row:
        raise Conflict(refusal(row[0]))


def refusal(home: str) -> str:
    """Return the error message for a change of a record whose home is another box."""
    return fill(N_("this record is kept at %(site)s; change it there"), site=home)


def home_name(organization_id: int, record_id: int) -> str | None:
    """Return the name of the record's home, or None if it is this box."""
    row = execute(
        "SELECT home FROM mirror WHERE record_id = ?1 AND EXISTS (SELECT 1 FROM searchable "
        "WHERE id = ?1 AND organization_id = ?2)",
        (record_id, organization_id),
    ).fetchone()
    return row[0] if row else None


def home_of(record_id: int) -> int | None:
    """Return the number of the peer that is the record's home (see `mirrors.Peer`), or None if it is this box."""
    return find_scalar("SELECT peer FROM mirror WHERE record_id = ?", (record_id,))
