"""Floor plans: live counts, search, an editor for the shapes of locations, and the path of an asset on a day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from flask import Response, jsonify, redirect, render_template, request

from edge import clock
from edge.errors import Invalid, NotFound
from edge.pages.actions import add_action, add_fragment
from edge.pages.dates import requested_days
from edge.pages.forms import Errors, is_id, json_object, search_text, whole
from edge.pages.guard import MAX_UPLOAD, Answer, actor, editors, has_role, organization_id, viewers
from edge.pages.notices import done
from edge.pages.translation import gettext, translated
from edge.people.people import Role
from edge.records import assets, locations
from edge.texts import N_, fill
from edge.tracking import board, floor_plans, location_board, past
from edge.tracking.board import BoardFilter, BoardRow
from edge.tracking.floor_plans import Plan, Point, Shape
from edge.tracking.location_board import Branch

MOST_LISTED = 20  # matches below the plan
MOST_MARKED = 500  # matches on the plan
COLORS = {
    "": N_("No colors"),
    "count": N_("Color by number of assets"),
    "dwell": N_("Color by longest stay"),
    "age": N_("Color by longest not seen"),
}
LEVELS = 4
STEPS = (clock.HOUR, 8 * clock.HOUR, clock.DAY, 7 * clock.DAY)  # durations at which the next color begins
_DURATIONS = (N_("under 1 h"), N_("1 h"), N_("8 h"), N_("1 day"), N_("7 days"))
LEGENDS = {
    "count": ("0", *(fill(N_("to %(number)s %%"), number=number) for number in (25, 50, 75)), N_("most assets")),
    "dwell": _DURATIONS,
    "age": _DURATIONS,
}


class Spot(NamedTuple):
    """A drawn location, in pixels of the plan."""

    branch: Branch
    corners: str  # as in SVG
    x: int  # center
    y: int
    is_match: bool
    level: int | None = None  # of its color, 0 to 4


class Marker(NamedTuple):
    """A location on a plan. Coordinates are pixels of the plan."""

    plan: Plan
    shape_name: str
    corners: str  # as in SVG
    x: int  # center
    y: int
    is_exact: bool  # the location itself is drawn, otherwise an area around it


def marker_of(location_id: int | None) -> Marker | None:
    """Return where a location is on a plan, or None if neither it nor an area around it is drawn."""
    if location_id is None:
        return None
    drawn = floor_plans.drawn_location(organization_id(), location_id)
    if drawn is None:
        return None
    corners, x, y = _in_pixels(drawn.plan, drawn.shape)
    return Marker(drawn.plan, drawn.name, corners, x, y, drawn.shape.location_id == location_id)


def _plans_page(errors: Errors) -> str:
    plans, areas = floor_plans.list_plans(organization_id()), location_board.choices(organization_id())
    return render_template("tracking/floor-plans.html", plans=plans, locations=areas, errors=errors)


@viewers.get("/plans", manual="office#floor-plans")
def show_plans() -> Answer:
    plans = floor_plans.list_plans(organization_id())
    if len(plans) == 1 and not has_role(Role.EDITOR):
        return redirect(f"/locations/{plans[0].location_id}/plan", 303)
    return _plans_page({})


@editors.post("/plans", MAX_UPLOAD, again=_plans_page)
def upload_plan() -> Answer:
    """Save the drawing of an area. A replacement keeps the shapes."""
    file, location_id = request.files.get("image"), request.form.get("location_id", 0, type=whole)
    if not location_id:
        raise Invalid.one("location_id", "required", N_("Choose an area"))
    if file is None or not file.filename:
        raise Invalid.one("image", "required", N_("Choose a file"))
    # Imported here because its library takes 2 MB and is rarely used.
    from edge.records.images import drawing_of

    drawing = drawing_of(organization_id(), file.read())
    try:
        floor_plans.set_image(actor(), location_id, drawing.content, drawing.media_type, drawing.size)
    except NotFound as error:
        raise Invalid.one("location_id", "fk_not_found", N_("This location no longer exists")) from error
    return done(f"/locations/{location_id}/plan/edit", "changed")


@viewers.get("/locations/<int:location_id>/plan", manual="office#floor-plans")
def show_plan(location_id: int) -> str:
    q = _searched()
    matches = board.board(organization_id(), BoardFilter(q, location_id), limit=MOST_LISTED) if q else None
    way = location_board.way_to(location_board.tree(organization_id()), location_id)
    return render_template(
        "tracking/floor-plan.html",
        matches=matches,
        way=way,
        plans=floor_plans.list_plans(organization_id()),
        colors={color: gettext(title) for color, title in COLORS.items()},
        legend=[translated(step) for step in LEGENDS.get(_color(), ())],
        **_drawn(location_id),
    )


@viewers.get("/locations/<int:location_id>/plan/image")
def plan_image(location_id: int) -> Response:
    """Return the image. The URL contains the version, so browsers may cache it."""
    content, media_type = floor_plans.image(organization_id(), location_id)
    response = Response(content, mimetype=media_type)
    response.headers["Cache-Control"] = "private, max-age=86400"
    return response


@editors.get("/locations/<int:location_id>/plan/edit", manual="office#floor-plans")
def edit_plan(location_id: int) -> str:
    plan, shapes = floor_plans.whole_plan(organization_id(), location_id)
    branches = location_board.inside(location_board.tree(organization_id()), location_id)
    drawn = {shape.location_id: shape.points for shape in shapes}
    return render_template("tracking/edit-floor-plan.html", plan=plan, branches=branches, drawn=drawn)


@editors.post("/locations/<int:location_id>/plan/shapes")
def save_shapes(location_id: int) -> Response | tuple[Response, int]:
    body = json_object()
    try:
        drawn = {int(shape["location_id"]): _points(shape["points"]) for shape in body["shapes"]}
        opened_at = int(body["updated_at"])
    except (KeyError, TypeError, ValueError, OverflowError):
        drawn, opened_at = {}, 0
    if not opened_at or not all(is_id(location) for location in drawn):
        return jsonify(error=gettext("Invalid list of shapes")), 400
    moment = floor_plans.save_shapes(actor(), location_id, drawn, opened_at)
    return jsonify(updated_at=str(moment))


add_action(editors, "/locations/<int:location_id>/plan/remove", floor_plans.remove_plan, "/plans", "plan-removed")


def _points(given: Sequence[Sequence[int]]) -> list[Point]:
    return [(int(x), int(y)) for x, y in given]


def _drawn(location_id: int) -> dict[str, Any]:
    """Return the shapes over the image. Locations with matches of the search are marked."""
    q = _searched()
    locations.get(organization_id(), location_id)
    plan, shapes = floor_plans.whole_plan(organization_id(), location_id)
    branches = {branch.id: branch for branch in location_board.tree(organization_id())}
    rows = board.board(organization_id(), BoardFilter(q, location_id), limit=MOST_MARKED).rows if q else []
    marked = set(_shapes_of(rows, {shape.location_id for shape in shapes}, branches))
    levels = _levels(organization_id(), branches, [shape.location_id for shape in shapes])
    spots = [
        spot_of(plan, shape, branches[shape.location_id], shape.location_id in marked)._replace(
            level=levels.get(shape.location_id)
        )
        for shape in shapes
    ]
    return {"plan": plan, "spots": spots, "q": q, "color": _color()}


_NOW = "/locations/<int:location_id>/plan/now"
add_fragment(viewers, _NOW, "tracking/_floor-plan.html", _drawn, "plan", "spots")


def _searched() -> str:
    return search_text(request.args.get("q", ""))


def _color() -> str:
    color = request.args.get("color", "")
    return color if color in COLORS else ""


def _levels(organization_id: int, branches: Mapping[int, Branch], drawn: Sequence[int]) -> dict[int, int]:
    """Return the level of color of each drawn location that has assets, sub-locations included."""
    color = _color()
    if color == "count":
        most = max((branches[one].below for one in drawn), default=0)
        return {one: -(-LEVELS * branches[one].below // most) for one in drawn if most}
    if not color:
        return {}
    oldest = location_board.oldest(organization_id, list(branches.values()))
    moments = {one: oldest[one].dwell_started_at if color == "dwell" else oldest[one].last_seen_at for one in oldest}
    now = clock.now()
    return {one: sum(now - moments[one] >= step for step in STEPS) for one in drawn if one in moments}


def spot_of(plan: Plan, shape: Shape, branch: Branch, is_match: bool) -> Spot:
    return Spot(branch, *_in_pixels(plan, shape), is_match)


def _in_pixels(plan: Plan, shape: Shape) -> tuple[str, int, int]:
    """Return the corners as in SVG, and the center."""
    corners = " ".join(f"{x * plan.width // 1000},{y * plan.height // 1000}" for x, y in shape.points)
    x, y = floor_plans.centre(shape.points)
    return corners, x * plan.width // 1000, y * plan.height // 1000


def _shapes_of(rows: Sequence[BoardRow], drawn: set[int], branches: Mapping[int, Branch]) -> Iterator[int]:
    """Return the shape for each row: that of its location, or of the nearest drawn ancestor."""
    for row in rows:
        shape = nearest(row.location_id, drawn, branches)
        if shape is not None:
            yield shape


def nearest(location_id: int | None, drawn: set[int], branches: Mapping[int, Branch]) -> int | None:
    while location_id is not None and location_id not in drawn:
        branch = branches.get(location_id)
        location_id = branch.parent_id if branch else None
    return location_id


@viewers.get("/assets/<int:asset_id>/trail", manual="office#floor-plans")
def show_trail(asset_id: int) -> str:
    asset = assets.get_any(organization_id(), asset_id)
    days = requested_days(1, 1)
    end = days.edges()[-1]
    stays = past.stays(organization_id(), asset_id, since=days.since, until=end).rows
    tree = location_board.tree(organization_id())
    branches = {branch.id: branch for branch in tree}
    seen_at = {stay.location_id for stay in stays}
    above = {step.id for location_id in seen_at for step in location_board.way_to(tree, location_id)}
    plans = floor_plans.plans_of(organization_id(), [*above])
    values: dict[str, Any] = {"plan": None, "spots": [], "steps": []}
    if plans:
        plan, shapes = floor_plans.whole_plan(organization_id(), plans[0])
        drawn = {shape.location_id for shape in shapes}
        spots = {shape.location_id: spot_of(plan, shape, branches[shape.location_id], False) for shape in shapes}
        steps = []
        for stay in stays:
            shape = nearest(stay.location_id, drawn, branches)
            if shape is not None:
                steps.append((max(stay.observed_at, days.since), stay.until, spots[shape], stay))
        values = {"plan": plan, "spots": list(spots.values()), "steps": steps}
    return render_template("tracking/trail.html", asset=asset, days=days, until=end, stays=stays, **values)
