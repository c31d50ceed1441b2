"""Page of an asset."""

from __future__ import annotations

import secrets
from typing import Any

from flask import Response, jsonify, render_template, request

from edge import clock
from edge.doors import passage_report
from edge.errors import HistoryUnavailable
from edge.pages import formatting
from edge.pages.actions import add_fragment
from edge.pages.doors.doors import DIRECTIONS
from edge.pages.forms import Errors, search_text, whole
from edge.pages.guard import current_session, viewers
from edge.pages.tracking import timeline
from edge.pages.tracking.floor_plans import marker_of
from edge.pages.translation import gettext
from edge.records import asset_notes, asset_photos, assets, loans, metadata_fields
from edge.records.assets import AssetRow
from edge.records.kept_elsewhere import home_name
from edge.tracking import asset_values, board, carriers, lost_assets, report, shown_positions
from edge.tracking.board import BoardFilter
from edge.tracking.report import Move
from edge.tracking.why import why_here

MOVES = 50
PASSAGES = 10
MOST_EXPLAINED = 3
SUGGESTED = 10


@viewers.get("/assets/<int:asset_id>", manual="office#assets")
def show_asset(asset_id: int) -> str:
    return asset_page(asset_id)


def asset_page(asset_id: int, *, errors: Errors | None = None, loan_errors: Errors | None = None) -> str:
    """Render the page of an asset. The errors belong to what was entered in the forms for a note and for a loan."""
    organization_id, form = current_session().organization_id, request.form
    asset = assets.get_any(organization_id, asset_id)
    loan = loans.find(organization_id, asset.id)
    borrower, due = form.get("borrower", ""), form.get("due", "")
    if loan and not loan_errors:
        borrower, due = loan.borrower, formatting.day_of_form(loan.last_moment) if loan.last_moment else ""
    return render_template(
        "records/asset.html",
        loan=loan,
        loan_errors=loan_errors or {},
        borrower=borrower,
        due=due,
        today=formatting.day_of_form(clock.now()),
        home=home_name(organization_id, asset.id),
        metadata=metadata_fields.shown(asset.metadata, (gettext("yes"), gettext("no"))),
        in_window=asset.valid_from <= clock.now() < (asset.valid_to or clock.now() + 1),
        notes=asset_notes.of_asset(organization_id, asset.id),
        photos=asset_photos.of_asset(organization_id, asset.id),
        note_id=secrets.token_hex(16),
        note=form.get("text", ""),
        errors=errors or {},
        **_now(asset_id),
    )


def _now(asset_id: int) -> dict[str, Any]:
    """Return the asset with its location and moves."""
    asset = assets.get_any(current_session().organization_id, asset_id)
    before = request.args.get("before", type=whole)
    rows, is_available = _rows(asset, before)
    moves = rows[:MOVES]
    is_hidden = shown_positions.is_hidden(asset.id)
    where = board.whereabouts(current_session().organization_id, asset.id, include_retired=True)
    return {
        "asset": asset,
        "lost_since": lost_assets.lost_since(current_session().organization_id, asset.id),
        "carrier": None if is_hidden else carriers.carrier_of(current_session().organization_id, asset.id),
        "where": where,
        "marker": None if is_hidden else marker_of(where.location_id if where else None),
        "strip": timeline.strip(moves, moves[0].last_seen_at if before and moves else clock.now()),
        "moves": moves,
        "has_history": is_available,
        "more": moves[-1].observed_at if len(rows) > MOVES else None,
        "before": before,
        "passages": passage_report.passages_of_asset(current_session().organization_id, asset.id, PASSAGES),
        "directions": DIRECTIONS,
        "is_hidden": is_hidden,
        "sensors": asset_values.find(current_session().organization_id, asset.id),
        "low_battery": asset_values.LOW,
    }


_WATCHED = ("where", "moves", "lost_since", "carrier", "passages", "sensors", "marker", "has_history")
add_fragment(viewers, "/assets/<int:asset_id>/now", "records/_asset-now.html", _now, *_WATCHED)


def _rows(asset: AssetRow, before: int | None) -> tuple[list[Move], bool]:
    """Return the moves of a page and one more; nothing and False while the history is unavailable."""
    try:
        return report.moves(current_session().organization_id, asset.id, before=before, limit=MOVES + 1), True
    except HistoryUnavailable:
        return [], False


@viewers.get("/assets/<int:asset_id>/why", manual="positions#explanations")
def why_asset(asset_id: int) -> str:
    """Show the evidence for the current location and the last moves."""
    organization_id = current_session().organization_id
    asset = assets.get_any(organization_id, asset_id)
    return render_template(
        "tracking/why.html",
        asset=asset,
        why=why_here(organization_id, asset_id),
        passages=passage_report.passages_of_asset(organization_id, asset_id, MOST_EXPLAINED),
        directions=DIRECTIONS,
    )


@viewers.get("/assets/suggested")
def suggested_assets() -> Response:
    """Return a few matches for an input field."""
    q = search_text(request.args.get("q", ""))
    rows = board.board(current_session().organization_id, BoardFilter(q), limit=SUGGESTED).rows if q else []
    return jsonify(assets=[[row.external_key, row.name] for row in rows])
