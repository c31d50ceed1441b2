"""Records of other sites are read-only."""

from __future__ import annotations

from edge.errors import Conflict
from edge.pages.forms import sentence
from edge.pages.guard import Views, current_session
from edge.pages.translation import translated
from edge.people.people import Role
from edge.records.kept_elsewhere import home_name, refusal


def _check_home(asset_id: int = 0, location_id: int = 0, **_: int) -> None:
    """Raise Conflict if another site owns the record in the path."""
    if home := home_name(current_session().organization_id, asset_id or location_id):
        raise Conflict(sentence(translated(refusal(home))))


home_editors = Views(Role.EDITOR, _check_home)  # of records that this site owns
