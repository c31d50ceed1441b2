"""Administration of walls: list, new link, revoke. The link is shown once."""

from __future__ import annotations

from collections.abc import Mapping

from flask import render_template, request

from edge.doors import doors
from edge.pages import record_links
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import Errors, text, whole
from edge.pages.guard import actor, administrators, organization_id
from edge.pages.translation import LANGUAGES, SOURCE, language
from edge.texts import N_
from edge.tracking import floor_plans, tracked_people
from edge.walls import walls
from edge.walls.walls import NewWall, Shows, Wall

TITLES = {
    Shows.OVERVIEW: N_("Overview"),
    Shows.ALERTS: N_("Open alerts"),
    Shows.DOOR: N_("A door, with its expected lists"),
    Shows.PLAN: N_("A floor plan"),
    Shows.LISTS: N_("Open expected lists"),
    Shows.MUSTER: N_("Musters"),
}


def _list(errors: Errors) -> str:
    return render_template(
        "walls/walls.html",
        walls=walls.list_walls(organization_id()),
        titles=TITLES,
        doors=[(one.id, one.name) for one in doors.list_doors(organization_id())],
        plans=[(one.location_id, one.location_name) for one in floor_plans.list_plans(organization_id())],
        people=tracked_people.setting(organization_id()),
        values=request.form or {"language": language()},
        errors=errors,
    )


@administrators.form("/walls", _list, "walls#add-a-kiosk-display")
@once
def new_wall() -> str:
    """Create a wall. The response is the only page that shows its link, so it is not a redirect."""
    return _link(*walls.add(actor(), _entered(request.form)))


@administrators.get("/walls/<int:wall_id>", manual="walls#revoke")
def show_wall_settings(wall_id: int) -> str:
    return render_template("walls/wall.html", wall=walls.get(organization_id(), wall_id), titles=TITLES)


@administrators.post("/walls/<int:wall_id>/renew")
@once
def renew_wall(wall_id: int) -> str:
    return _link(*walls.renew(actor(), wall_id))


add_action(administrators, "/walls/<int:wall_id>/revoke", walls.revoke, "/walls", "wall-revoked")


def _entered(form: Mapping[str, str]) -> NewWall:
    shows = next((one for one in Shows if one == form.get("shows")), Shows.OVERVIEW)
    return NewWall(
        text(form, "name"),
        shows,
        _number(form, "door_id") if shows == Shows.DOOR else None,
        _number(form, "location_id") if shows == Shows.PLAN else None,
        form["language"] if form.get("language") in LANGUAGES else SOURCE,
    )


def _number(form: Mapping[str, str], field: str) -> int | None:
    try:
        return whole(form.get(field, "")) or None
    except ValueError:
        return None


def _link(wall: Wall, code: str) -> str:
    link = f"{record_links.address()}/w/{code}"
    return render_template(
        "walls/link.html",
        wall=wall,
        link=link,
        code=record_links.qr(link),
        has_no_address=record_links.has_no_address(),
    )
