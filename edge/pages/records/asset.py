"""Page of an asset, and the link in the QR code of its label."""

from __future__ import annotations

import json
from typing import Any

from flask import Response, abort, jsonify, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge import clock
from edge.pages import record_links
from edge.pages.forms import search_text, whole
from edge.pages.guard import current_session, pages, require_role
from edge.pages.polling import fragment
from edge.pages.tracking import timeline
from edge.people.people import Role
from edge.records import assets, lookup
from edge.records.assets import AssetRow
from edge.records.kept_elsewhere import home_name
from edge.tracking import board, carriers, lost_assets, report
from edge.tracking.board import BoardFilter
from edge.tracking.why import why_here

MOVES = 50
SUGGESTED = 10


@pages.get("/assets/<int:asset_id>")
@require_role(Role.VIEWER)
def show_asset(asset_id: int) -> str:
    asset = assets.get_any(current_session().organization_id, asset_id)
    return render_template(
        "records/asset.html",
        asset=asset,
        home=home_name(current_session().organization_id, asset.id),
        metadata=json.loads(asset.metadata),
        in_window=asset.valid_from <= clock.now() < (asset.valid_to or clock.now() + 1),
        **_now(asset),
    )


@pages.get("/assets/<int:asset_id>/now")
@require_role(Role.VIEWER)
def asset_now(asset_id: int) -> Response:
    """Return the location and moves. The page polls this."""
    asset = assets.get_any(current_session().organization_id, asset_id)
    values = _now(asset)
    content = (values["where"], values["moves"], values["lost_since"], values["carrier"])
    return fragment("records/_asset-now.html", content, asset=asset, **values)


def _now(asset: AssetRow) -> dict[str, Any]:
    before = request.args.get("before", type=whole)
    rows = report.moves(current_session().organization_id, asset.id, before=before, limit=MOVES + 1)
    moves = rows[:MOVES]
    return {
        "lost_since": lost_assets.lost_since(current_session().organization_id, asset.id),
        "carrier": carriers.carrier_of(current_session().organization_id, asset.id),
        "where": board.whereabouts(current_session().organization_id, asset.id, include_retired=True),
        "strip": timeline.strip(moves, moves[0].last_seen_at if before and moves else clock.now()),
        "moves": moves,
        "more": moves[-1].observed_at if len(rows) > MOVES else None,
        "before": before,
    }


@pages.get("/assets/<int:asset_id>/why")
@require_role(Role.VIEWER)
def why_asset(asset_id: int) -> str:
    """Show the evidence for the current location and the last moves."""
    organization_id = current_session().organization_id
    asset = assets.get_any(organization_id, asset_id)
    return render_template("tracking/why.html", asset=asset, why=why_here(organization_id, asset_id))


@pages.get("/assets/<int:asset_id>/label")
@require_role(Role.VIEWER)
def asset_label(asset_id: int) -> str:
    asset = assets.get(current_session().organization_id, asset_id)
    link = record_links.asset_link(asset.external_key)
    return record_links.page(asset.name, asset.external_key, link, f"/assets/{asset_id}")


@pages.get("/assets/suggested")
@require_role(Role.VIEWER)
def suggested_assets() -> Response:
    """Return a few matches for an input field."""
    q = search_text(request.args.get("q", ""))
    rows = board.board(current_session().organization_id, BoardFilter(q), limit=SUGGESTED).rows if q else []
    return jsonify(assets=[[row.external_key, row.name] for row in rows])


@pages.get("/a/<external_key>")
@require_role(Role.VIEWER)
def labelled_asset(external_key: str) -> AnyResponse:
    """Redirect from the link in the QR code of a label."""
    asset = lookup.asset_by_key(current_session().organization_id, external_key) or abort(404)
    return redirect(f"/assets/{asset.id}", 303)
