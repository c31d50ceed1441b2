"""Progress of a new site toward its first position."""

from __future__ import annotations

from typing import NamedTuple

from edge.database.connection import execute
from edge.tracking import report


class FirstSteps(NamedTuple):
    """Completed setup steps. `has_messages`: a reader has sent a message."""

    has_locations: bool
    has_readers: bool
    has_messages: bool
    has_tagged_assets: bool
    has_positions: bool


_STEPS = """
SELECT EXISTS (SELECT 1 FROM location WHERE organization_id = :organization_id AND deleted_at IS NULL),
       EXISTS (SELECT 1 FROM reader WHERE organization_id = :organization_id AND deleted_at IS NULL),
       EXISTS (SELECT 1 FROM reader r JOIN reader_state s ON s.reader_id = r.id
               WHERE r.organization_id = :organization_id AND r.deleted_at IS NULL),
       EXISTS (SELECT 1 FROM tag WHERE organization_id = :organization_id AND asset_id IS NOT NULL
               AND deleted_at IS NULL)
"""


def first_steps(organization_id: int) -> FirstSteps:
    """Return the completed setup steps of an organization."""
    steps = execute(_STEPS, {"organization_id": organization_id}).fetchone()
    return FirstSteps(*map(bool, (*steps, report.has_positions(organization_id))))
