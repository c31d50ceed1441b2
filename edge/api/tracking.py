"""Current locations and history of assets (interface: Endpoints)."""

from __future__ import annotations

from flask import Response

from edge.api import responses
from edge.api.operations import Call, operation
from edge.api.records import filters_of, list_arguments
from edge.tracking import report
from edge.tracking.report import AssetLocationFilter
from edge.validation import query

TAG, READ = "Tracking", "tracking:read"


@operation(
    "GET", "/reports/asset-locations", tag=TAG, scope=READ, takes=query.ASSET_LOCATIONS, answer="AssetLocationList"
)
def list_asset_locations(call: Call) -> Response:
    """List the current location of every scanned asset"""
    filters = filters_of(AssetLocationFilter, call.query)
    page = report.list_asset_locations(call.organization_id, filters, **list_arguments(call.query, report.DEFAULT_SORT))
    return responses.page(responses.asset_location, page.rows, page.total_count, call.query)


@operation("GET", "/assets/{asset_id}/history", tag=TAG, scope=READ, takes=query.HISTORY, answer="AssetHistoryList")
def list_asset_history(call: Call) -> Response:
    """List where an asset was, newest first"""
    page = report.list_history(
        call.organization_id,
        call.path["asset_id"],
        since=call.query.get("from"),
        until=call.query.get("to"),
        **list_arguments(call.query, report.NEWEST_FIRST),
    )
    return responses.page(responses.stay, page.rows, page.total_count, call.query)
