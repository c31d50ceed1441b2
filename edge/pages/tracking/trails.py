"""The path of an asset on one day, on the plan of the area where it was longest."""

from __future__ import annotations

from typing import Any

from flask import render_template

from edge.pages.dates import requested_days
from edge.pages.guard import organization_id, viewers
from edge.pages.tracking.floor_plans import nearest, spot_of
from edge.records import assets
from edge.tracking import floor_plans, location_board, past


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
