"""Why a page shows positions without history."""

from __future__ import annotations

from edge.texts import N_
from edge.tracking import flows

UNAVAILABLE = N_("The history is unavailable now. Current locations are up to date.")
TOO_LARGE = N_("Not shown on a hub with PostgreSQL and more than 20,000 assets.")


def why_missing(organization_id: int) -> str:
    """Return why moves of all assets are not shown."""
    return TOO_LARGE if flows.is_too_large(organization_id) else UNAVAILABLE
