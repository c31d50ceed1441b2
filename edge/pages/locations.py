"""The location tree with its counts, and a location's page: what is there, what came and went today."""

from __future__ import annotations

import time

from flask import abort, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge import clock
from edge.pages import labels
from edge.pages.forms import whole
from edge.pages.guard import current_session, pages, require_role
from edge.store import location_board, locations, lookup
from edge.store.people import Role

PER_PAGE = 50
WHOLE_TREE = 1000  # a larger one is shown by its top, and opened location by location


@pages.get("/locations")
@require_role(Role.VIEWER)
def show_locations() -> str:
    branches = location_board.tree(current_session().organization_id)
    shown = branches if len(branches) <= WHOLE_TREE else [branch for branch in branches if branch.depth == 0]
    return render_template("locations.html", branches=shown, total=len(branches))


@pages.get("/locations/<int:location_id>")
@require_role(Role.VIEWER)
def show_location(location_id: int) -> str:
    location = locations.get(current_session().organization_id, location_id)
    branches = location_board.tree(current_session().organization_id)
    way = location_board.way_to(branches, location_id)
    offset = min(max(request.args.get("offset", 0, type=whole), 0), 2**31)
    return render_template(
        "location.html",
        location=location,
        way=way,
        branch=way[-1] if way else None,
        children=[branch for branch in branches if branch.parent_id == location_id],
        page=location_board.here(current_session().organization_id, location_id, limit=PER_PAGE, offset=offset),
        offset=offset,
        per_page=PER_PAGE,
        passages=location_board.passages(current_session().organization_id, location_id, _midnight()),
    )


@pages.get("/locations/<int:location_id>/label")
@require_role(Role.VIEWER)
def location_label(location_id: int) -> str:
    location = locations.get(current_session().organization_id, location_id)
    link = labels.location_link(request.host_url, location.external_key)
    return labels.page(location.name, location.external_key, link, f"/locations/{location_id}")


@pages.get("/l/<external_key>")
@require_role(Role.VIEWER)
def labelled_location(external_key: str) -> AnyResponse:
    """What the camera of any phone opens from a label."""
    location = lookup.location_by_key(current_session().organization_id, external_key) or abort(404)
    return redirect(f"/locations/{location.id}", 303)


def _midnight() -> int:
    """When today began where the box stands."""
    today = time.localtime()
    return int(time.mktime((today.tm_year, today.tm_mon, today.tm_mday, 0, 0, 0, 0, 0, -1))) * clock.SECOND
