"""Records of other sites are read-only."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from edge.errors import Conflict
from edge.pages.forms import sentence
from edge.pages.guard import current_session
from edge.pages.translation import translated
from edge.records.kept_elsewhere import home_name, refusal


def at_home(view: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a view that changes the record in its path; use below the role. Answers 409 if another site owns the
    record.
    """

    @wraps(view)
    def answer(**ids: int) -> Any:
        home = home_name(
            current_session().organization_id, ids["asset_id"] if "asset_id" in ids else ids["location_id"]
        )
        if home:
            raise Conflict(sentence(translated(refusal(home))))
        return view(**ids)

    return answer
