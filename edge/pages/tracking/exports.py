"""The board, history and ledger as streamed CSV files, with the filters of their pages."""

from __future__ import annotations

from flask import Response, render_template, request

from edge import clock
from edge.pages.csv_download import csv_file, times
from edge.pages.dates import local, requested_days
from edge.pages.forms import whole
from edge.pages.guard import current_session, pages, require_role
from edge.pages.tracking.board import board_filter
from edge.pages.tracking.past import past_filter
from edge.people.people import Role
from edge.readers import ledger
from edge.tracking import exports, flows

DAYS = 31  # default range


@pages.get("/export")
@require_role(Role.VIEWER)
def export_form() -> str:
    return render_template("tracking/export.html", days=requested_days(DAYS))


@pages.get("/export/board.csv")
@require_role(Role.VIEWER)
def export_board() -> Response:
    heading = ("external_key", "name", "is_active", "location_key", "location", "area", "there_since", "last_seen")
    rows = (
        (
            *(row.external_key, row.name, "yes" if row.is_active else "no"),
            *(row.location_key, row.location_name, row.area_name, *times(row.dwell_started_at, row.last_seen_at)),
        )
        for row in exports.board_rows(current_session().organization_id, board_filter(request.args))
    )
    return csv_file("assets.csv", heading, rows)


@pages.get("/export/past.csv")
@require_role(Role.VIEWER)
def export_past() -> Response:
    heading = ("external_key", "name", "location_key", "location", "arrived", "last_seen")
    query = past_filter(clock.now())
    rows = (
        (row.external_key, row.name, row.location_key, row.location_name, *times(row.arrived_at, row.last_seen_at))
        for row in exports.past_rows(current_session().organization_id, query)
    )
    return csv_file(f"assets-{local(query.at).replace(':', '')}.csv", heading, rows)


@pages.get("/export/history.csv")
@require_role(Role.VIEWER)
def export_history() -> Response:
    days = requested_days(DAYS)
    heading = ("asset_key", "asset", "location_key", "location", "from", "seen_until", "seconds")
    seen_by = ("reader", "antenna", "site")
    rows = (
        (*row[:4], *times(row.since, row.until), (row.until - row.since) // clock.SECOND, *row[6:])
        for row in flows.export_rows(
            current_session().organization_id,
            since=days.since,
            until=days.until,
            asset_id=request.args.get("asset", type=whole),
            location_id=request.args.get("location", type=whole),
        )
    )
    return csv_file("history.csv", (*heading, *seen_by), rows)


@pages.get("/export/ledger.csv")
@require_role(Role.EDITOR)
def export_ledger() -> Response:
    days = requested_days(DAYS)
    rows = (
        (row.reader_name, *times(row.hour * clock.HOUR), row.bucket, row.messages, row.reads)
        for row in ledger.export_rows(current_session().organization_id, since=days.since, until=days.until)
    )
    return csv_file("ledger.csv", ("reader", "hour", "bucket", "messages", "reads"), rows)
