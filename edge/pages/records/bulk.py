"""Changes of many assets at once: the ticked ones, or all that match the filter of the board."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from flask import Response, abort, redirect, render_template, request

from edge import clock
from edge.bulk import bulk_jobs, imports
from edge.bulk.asset_changes import Action, BulkChange, Fault
from edge.bulk.bulk_jobs import MAX_ASSETS, BulkJob, Refused
from edge.errors import EdgeError, Invalid
from edge.pages.actions import add_fragment
from edge.pages.csv_download import table_file
from edge.pages.double_submit import once
from edge.pages.forms import Errors, errors_of, text, values_of, whole
from edge.pages.guard import Answer, actor, current_session, editors
from edge.pages.records.csv_import import errors_file
from edge.pages.tracking.board import board_filter, board_query
from edge.pages.translation import gettext, translated
from edge.services import services
from edge.texts import N_
from edge.tracking import board, location_board
from edge.validation import bodies

LISTED = 100  # assets that cannot be changed; the file has all
SHOWN = 5  # names of chosen assets
TITLES = {
    Action.MOVE: N_("Move to a location"),
    Action.CHANGE: N_("Change of a field"),
    Action.RETIRE: N_("Retirement"),
    Action.RESTORE: N_("Restoration"),
    Action.IMPORT: N_("Import"),
}
FIELD_NAMES = {"description": N_("Description"), "is_active": N_("In use"), "valid_to": N_("Valid to")}


class Chosen(NamedTuple):
    """The chosen assets. `query` selects them again: their ids, or the filter of the board."""

    query: Sequence[tuple[str, str]]
    rows: Sequence[board.BoardRow]
    total: int
    are_retired: bool
    is_filter: bool


@editors.get("/bulk", manual="office#changes-of-many-assets")
def choose_bulk_change() -> str:
    return _form(_chosen(SHOWN), {})


@editors.post("/bulk")
@once
def start_bulk_change() -> Answer:
    """Check all assets and start the job. It runs in the background."""
    chosen = _chosen(MAX_ASSETS)
    if chosen.total > MAX_ASSETS:
        return _form(chosen, {}), 400
    if chosen.total != request.form.get("count", type=whole):
        message = gettext("The filter now matches other assets than before. Check the number and send the form again.")
        return _form(chosen, {"": message}), 409
    try:
        job_id = bulk_jobs.start(actor(), _entered(), [row.asset_id for row in chosen.rows])
    except Refused as error:
        return _form(chosen, {}, error.faults), 409
    except EdgeError as error:
        return _form(chosen, errors_of(error)), 400
    return redirect(f"/bulk/{job_id}", 303)


@editors.get("/bulk/<job_id>", manual="office#changes-of-many-assets")
def show_bulk_job(job_id: str) -> str:
    return render_template("records/bulk-job.html", **_shown(job_id))


@editors.post("/bulk/<job_id>/stop")
def stop_bulk_job(job_id: str) -> Answer:
    bulk_jobs.stop(actor(), _job(job_id).id)
    return redirect(f"/bulk/{job_id}", 303)


@editors.get("/bulk/<job_id>/unchanged.csv")
def unchanged_assets(job_id: str) -> Response:
    """Return the assets that were not changed, with the reasons."""
    job = _job(job_id)
    if job.is_import:
        failed = [(row.reason, row.record.cells or {}) for row in imports.rows(job, is_faulty=True) if row.record]
        return errors_file(list(failed[0][1]) if failed else [], failed)
    rows = [(*fault[1:-1], translated(fault.reason)) for fault in bulk_jobs.failures(job, MAX_ASSETS)]
    return table_file("unchanged-assets.csv", ("external_key", "name", "reason"), rows)


@editors.get("/bulk/<job_id>/results.csv")
def imported_rows(job_id: str) -> Response:
    """Return the result of each row of an import, with the key of each new record."""
    rows = [
        (row.line, row.external_key, row.result or "", translated(row.reason)) for row in imports.rows(_job(job_id))
    ]
    return table_file("import-results.csv", ("line", "external_key", "result", "reason"), rows)


def _job(job_id: str) -> BulkJob:
    gone = gettext("This change has expired. The last 20 changes are kept for 7 days.")
    return bulk_jobs.find_job(current_session().organization_id, job_id) or abort(404, gone)


def _chosen(most: int) -> Chosen:
    """Return the assets of the URL or form: ticked ones, else all that match the filter of the board.

    `most`: rows to read.
    """
    organization_id = current_session().organization_id
    query, ids = board_filter(request.values), request.values.getlist("asset", type=whole)
    if ids:
        rows: Sequence[board.BoardRow] = board.by_ids(organization_id, ids, are_retired=query.retired)
        selection = [("asset", str(asset_id)) for asset_id in ids] + ([("show", "retired")] if query.retired else [])
        return Chosen(selection, rows, len(rows), query.retired, is_filter=False)
    page = board.board(organization_id, query, limit=most)
    return Chosen(parse_qsl(board_query(query)), page.rows, page.total_count, query.retired, is_filter=True)


def _entered() -> BulkChange:
    """Return the change in the form. Raises Invalid."""
    form = request.form
    try:
        action = Action(form.get("action", ""))
    except ValueError:
        abort(400, gettext("Choose what to change."))
    if action is Action.MOVE:
        return BulkChange(action, form.get("location_id", type=whole))
    return _entered_field() if action is Action.CHANGE else BulkChange(action)


def _entered_field() -> BulkChange:
    form, field = request.form, request.form.get("field", "")
    if field == "property":
        name = text(form, "name")
        if not name:
            raise Invalid.one("name", "required", gettext("Enter the name of the property"))
        return BulkChange(Action.CHANGE, None, name, text(form, "property") or None, is_property=True)
    entered: Any = text(form, field) or None
    if field == "is_active":
        entered = form.get("is_active") == "yes"
    if field == "valid_to" and entered:
        entered = clock.rfc3339(_moment(entered))
    values = values_of(bodies.ASSET_PATCH, {field: entered})
    return BulkChange(Action.CHANGE, None, field, values[field])


def _moment(entered: str) -> int:
    try:
        return clock.to_micros(datetime.fromisoformat(entered).replace(tzinfo=services().zone))
    except (ValueError, OverflowError):
        message = gettext("Enter a time like 2026-03-02T14:00")
        raise Invalid.one("valid_to", "invalid_value", message) from None


def _form(chosen: Chosen, errors: Errors, faults: Sequence[Fault] = ()) -> str:
    organization_id = current_session().organization_id
    selection = urlencode(chosen.query)
    return render_template(
        "records/bulk.html",
        chosen=chosen,
        names=[row.name for row in chosen.rows[:SHOWN]],
        most=MAX_ASSETS,
        errors=errors,
        faults=faults,
        listed=LISTED,
        values=request.form,
        running=bulk_jobs.running_job(organization_id),
        locations=location_board.choices(organization_id),
        labels=f"/labels?{selection}",
        export=f"/export/board.csv?{selection}",
        back=f"/assets/{chosen.rows[0].asset_id}" if chosen.total == 1 and not chosen.is_filter else "/",
    )


def _shown(job_id: str) -> dict[str, Any]:
    job = _job(job_id)
    change, progress = job.change, bulk_jobs.progress(job)
    return {
        "job": job,
        "progress": progress,
        "title": TITLES[change.action],
        "place": location_board.name_of(job.organization_id, change.location_id),
        "field": FIELD_NAMES.get(change.field, "") if not change.is_property else change.field,
        "faults": bulk_jobs.failures(job, LISTED) if job.finished_at and not job.is_import else [],
        "counts": imports.counts(job),
        "rows": list(imports.rows(job, is_faulty=True, limit=LISTED)) if job.is_import and job.finished_at else [],
        "Action": Action,
    }


add_fragment(editors, "/bulk/<job_id>/now", "records/_bulk-now.html", _shown, "progress", "job")
