"""Every record has exactly one home, where it is changed; at other boxes of a company it is a mirror."""

from __future__ import annotations

from edge.database.connection import execute
from edge.errors import Conflict


def check_home(record_id: int) -> None:
    """Raises Conflict for a record that is kept at another box: it is changed there, and nowhere else."""
    row = execute("SELECT home FROM mirror WHERE record_id = ?", (record_id,)).fetchone()
    if row:
        raise Conflict(f"this record is kept at {row[0]}; change it there")


def home_name(organization_id: int, record_id: int) -> str | None:
    """The box a record of the organization is kept at; None: this one."""
    row = execute(
        "SELECT home FROM mirror WHERE record_id = ?1 AND EXISTS (SELECT 1 FROM searchable "
        "WHERE id = ?1 AND organization_id = ?2)",
        (record_id, organization_id),
    ).fetchone()
    return row[0] if row else None


def home_of(record_id: int) -> int | None:
    """The peer that is home of a record (see `mirrors.Peer`); None: here."""
    row = execute("SELECT peer FROM mirror WHERE record_id = ?", (record_id,)).fetchone()
    return row[0] if row else None
