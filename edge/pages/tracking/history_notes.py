"""Why a page shows positions without history."""

from __future__ import annotations

from edge.texts import N_

UNAVAILABLE = N_("The history is unavailable now. Current locations are up to date.")
TOO_MANY_MOVES = N_("Not shown: the history is in PostgreSQL, and more than 20,000 assets have moved in this time.")
