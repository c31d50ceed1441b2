"""The location tree with counts, and the page of a location with its assets and today's movements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import render_template, request

from edge import clock
from edge.errors import HistoryUnavailable
from edge.pages.actions import add_fragment
from edge.pages.forms import search_text
from edge.pages.guard import current_session, viewers
from edge.pages.paging import offset_asked
from edge.pages.tracking import history_notes
from edge.pages.tracking.floor_plans import marker_of
from edge.pages.translation import gettext
from edge.records import loans, locations
from edge.records.kept_elsewhere import home_name
from edge.services import services
from edge.texts import N_
from edge.tracking import board, flows, location_board
from edge.tracking.board import BoardFilter
from edge.tracking.flows import Passage
from edge.tracking.location_board import Branch

PER_PAGE = 50
SMALL_TREE = 60  # fully expanded up to this number of locations
WHOLE_TREE = 1000  # beyond this number, only the top level is shown at first
SHOWS = {
    "": N_("Every location"),
    "occupied": N_("Locations with assets"),
    "vacant": N_("Locations without assets"),
    "inactive": N_("Inactive locations"),
}


# Those that are shown as a list instead of a tree.
_CHOOSES: dict[str, Callable[[Branch], bool]] = {
    "occupied": lambda branch: branch.here > 0,
    "vacant": lambda branch: branch.below == 0,
    "inactive": lambda branch: not branch.is_active,
}


@viewers.get("/locations", manual="office#locations")
def show_locations() -> str:
    branches = location_board.tree(current_session().organization_id)
    q = search_text(request.args.get("q", ""))
    show = request.args.get("show", "")
    if q or show in _CHOOSES:
        chosen = list(filter(_CHOOSES.get(show), branches))
        shown = [branch for branch in chosen if q.casefold() in f"{branch.name}\n{branch.external_key}".casefold()]
    else:
        shown = branches if len(branches) <= WHOLE_TREE else [branch for branch in branches if branch.depth == 0]
    return render_template(
        "records/locations.html",
        branches=shown[:WHOLE_TREE],
        total=len(branches),
        q=q,
        show=show if show in _CHOOSES else "",
        shows={name: gettext(title) for name, title in SHOWS.items()},
        open_to=0 if len(shown) > SMALL_TREE else WHOLE_TREE,
        names={branch.id: branch.name for branch in branches},
    )


@viewers.get("/locations/<int:location_id>", manual="office#locations")
def show_location(location_id: int) -> str:
    shown = _now(location_id)
    branches = location_board.tree(current_session().organization_id)
    return render_template(
        "records/location.html",
        home=home_name(current_session().organization_id, location_id),
        way=location_board.way_to(branches, location_id),
        marker=marker_of(location_id),
        children=[branch for branch in branches if branch.parent_id == location_id],
        **shown,
    )


def _now(location_id: int) -> dict[str, Any]:
    """Return the location with its assets and movements."""
    organization_id = current_session().organization_id
    location = locations.get(organization_id, location_id)
    offset = offset_asked()
    here = location_board.here(organization_id, location.id, limit=PER_PAGE, offset=offset)
    lent = loans.of_assets(organization_id, [row.asset_id for row in here.rows])
    inside = BoardFilter(location_id=location.id)
    return {
        "location": location,
        "page": here,
        "loans": lent,
        "overdue": [loan.is_overdue for loan in lent.values()],
        "below": board.board(organization_id, inside, limit=0).total_count - here.total_count,
        "offset": offset,
        "per_page": PER_PAGE,
        "passages": _passages(organization_id, location.id),
        "note": history_notes.UNAVAILABLE,
    }


_WATCHED = ("page", "passages", "below", "loans", "overdue")
add_fragment(viewers, "/locations/<int:location_id>/now", "records/_location-now.html", _now, *_WATCHED)


def _passages(organization_id: int, location_id: int) -> list[Passage] | None:
    """Return the arrivals and departures of today, or None without history."""
    try:
        return flows.passages(organization_id, location_id, clock.midnight(services().zone))
    except HistoryUnavailable:
        return None
