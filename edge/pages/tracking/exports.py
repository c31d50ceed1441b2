"""The board, history and ledger as streamed CSV or Excel files, with the filters of their pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from flask import Response, abort, redirect, render_template, request

from edge import clock
from edge.bulk.import_columns import BETWEEN_TAGS, COLUMNS
from edge.doors import passage_report
from edge.pages.csv_download import table_file, times
from edge.pages.dates import local, requested_days
from edge.pages.forms import whole
from edge.pages.guard import Answer, administrators, editors, organization_id, viewers
from edge.pages.tracking.board import board_filter, columns_of_file
from edge.pages.tracking.past import past_filter
from edge.readers import ledger, reader_table
from edge.records import record_export
from edge.records.external_keys import MILLISECOND
from edge.services import services
from edge.tracking import board, exports, flows, history_engine
from edge.validation import xlsx
from edge.validation.bodies import fields_of
from edge.validation.body import Field
from edge.validation.values import TAG_TYPES

DAYS = 31  # default range
ADDRESSES = {
    "board": "/export/board.csv",
    "asset": "/export/records/asset.csv",
    "location": "/export/records/location.csv",
    "tag": "/export/records/tag.csv",
    "history": "/export/history.csv",
    "passages": "/export/passages.csv",
    "ledger": "/export/ledger.csv",
    "reader": "/export/readers.csv",
}
OF_DAYS = ("history", "passages")


@viewers.get("/export", manual="office#export")
def export_form() -> str:
    return render_template("tracking/export.html", days=requested_days(DAYS), has_xlsx=xlsx.is_available())


@viewers.get("/export/download")
def download_table() -> Answer:
    """Redirect to the file of the chosen table."""
    table = request.args.get("table", "")
    path = ADDRESSES.get(table) or abort(404)
    names = ("separator", "from", "to") if table in OF_DAYS else ("separator",)
    return redirect(f"{path}?{urlencode({name: request.args.get(name, '') for name in names})}", 303)


@viewers.get("/export/board.csv")
def export_board() -> Response:
    """Return the assets of the board: the ticked ones, else all that match the filter.

    The query chooses the columns; without it, the file has all that need no loans.
    """
    query = board_filter(request.args)
    ids = request.args.getlist("asset", type=whole)
    chosen = board.by_ids(organization_id(), ids, are_retired=query.retired) if ids else None
    shown = exports.board_rows(organization_id(), query) if chosen is None else chosen
    columns, zone = columns_of_file(), services().zone
    if columns is None:
        return table_file("assets.csv", exports.BOARD_HEADING, (exports.board_cells(row, zone) for row in shown))
    rows = exports.chosen_cells(organization_id(), shown, columns, zone)
    return table_file("assets.csv", exports.chosen_heading(columns), rows)


@viewers.get("/export/records/<kind>.csv")
def export_records(kind: str) -> Response:
    """Return all assets, locations or tags as a table that can be changed and imported again."""
    columns = COLUMNS[kind] if kind in ("asset", "location", "tag") else abort(404)
    if kind == "tag":
        return table_file("tags.csv", columns, record_export.tag_rows(organization_id()))
    rows = (_cells(kind, record) for record in record_export.rows(organization_id(), kind))
    return table_file(f"{kind}s.csv", columns, ([cells[name] for name in columns] for cells in rows))


@administrators.get("/export/readers.csv")
def export_readers() -> Response:
    """Return all readers and their antennas as a table that can be changed and imported again."""
    columns = COLUMNS["reader"]
    return table_file("readers.csv", columns, reader_table.rows(organization_id(), columns))


def _cells(kind: str, record: record_export.Record) -> dict[str, Any]:
    """Return the cells of a record by column, as an import understands them."""
    tags = {kind: BETWEEN_TAGS.join(tag.value for tag in record.tags if tag.tag_type == kind) for kind in TAG_TYPES}
    return {field.name: _cell(field, getattr(record, field.name)) for field in fields_of(kind)} | tags


def _cell(field: Field, value: Any) -> Any:
    if field.is_time:
        return _exact_time(value)
    if field.type == "boolean":
        return "yes" if value else "no"
    return "" if value is None or (field.type == "object" and value == "{}") else value


def _exact_time(moment: int | None) -> datetime | None:
    """Return a time in the time zone of the site, in milliseconds as the API has it."""
    return None if moment is None else clock.to_datetime(moment - moment % MILLISECOND).astimezone(services().zone)


@viewers.get("/export/past.csv")
def export_past() -> Response:
    heading = ("external_key", "name", "location_key", "location", "arrived", "last_seen")
    query = past_filter(clock.now())
    history_engine.check_reachable()  # before the answer begins
    rows = (
        (row.external_key, row.name, row.location_key, row.location_name, *times(row.arrived_at, row.last_seen_at))
        for row in exports.past_rows(organization_id(), query)
    )
    return table_file(f"assets-{local(query.at).replace(':', '')}.csv", heading, rows)


@viewers.get("/export/history.csv")
def export_history() -> Response:
    days = requested_days(DAYS)
    stay = ("asset_key", "asset", "location_key", "location", "from", "left", "seen_until", "seconds", "sightings")
    seen_by = ("reader", "antenna", "site")
    history_engine.check_reachable()  # before the answer begins
    rows = (
        (
            *(*row[:4], *times(row.since, row.left_at, row.seen_until), row.duration // clock.SECOND),
            *(row.sightings, row.reader_name, row.port, row.site_name),
        )
        for row in flows.export_rows(
            organization_id(),
            since=days.since,
            until=days.edges()[-1],
            asset_id=request.args.get("asset", type=whole),
            location_id=request.args.get("location", type=whole),
        )
    )
    return table_file("history.csv", (*stay, *seen_by), rows)


@viewers.get("/export/passages.csv")
def export_passages() -> Response:
    days = requested_days(DAYS)
    heading = ("asset_key", "asset", "door", "direction", "time", "confidence", "inner_reads", "outer_reads", "site")
    rows = (
        (
            *(row.asset_key, row.asset_name, row.door_name, row.direction.name.lower(), *times(row.at)),
            *(row.confidence, row.inner_reads, row.outer_reads, row.site),
        )
        for row in passage_report.export_rows(
            organization_id(),
            days.since,
            days.until,
            request.args.get("door", type=whole),
            request.args.get("asset", type=whole),
        )
    )
    return table_file("passages.csv", heading, rows)


@editors.get("/export/ledger.csv")
def export_ledger() -> Response:
    days = requested_days(DAYS)
    rows = (
        (row.reader_name, *times(row.hour * clock.HOUR), row.bucket, row.messages, row.reads)
        for row in ledger.export_rows(organization_id(), since=days.since, until=days.until)
    )
    return table_file("ledger.csv", ("reader", "hour", "bucket", "messages", "reads"), rows)
