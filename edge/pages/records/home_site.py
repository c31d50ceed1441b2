"""Records that are kept at another box are shown here and changed there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from edge.errors import Conflict
from edge.pages.guard import current_session
from edge.records.homes import home_name


def at_home(view: Callable[..., Any]) -> Callable[..., Any]:
    """For views that change the record in their address, below their role: 409 where its home is elsewhere."""

    @wraps(view)
    def answer(**ids: int) -> Any:
        home = home_name(
            current_session().organization_id, ids["asset_id"] if "asset_id" in ids else ids["location_id"]
        )
        if home:
            raise Conflict(f"This record is kept at {home}; change it there.")
        return view(**ids)

    return answer
