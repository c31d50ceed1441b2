"""Import of assets and locations from CSV: template, dry run, and import of all rows or none."""

from __future__ import annotations

from flask import Response, abort, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge.budget import WORK
from edge.errors import EdgeError, Unavailable
from edge.pages.csv_download import csv_file
from edge.pages.forms import Errors, errors_of
from edge.pages.guard import MAX_UPLOAD, actor, current_session, pages, require_role
from edge.pages.polling import fragment
from edge.pages.records import csv_import_jobs
from edge.pages.records.csv_import_jobs import Job
from edge.pages.records.csv_import_rows import (
    BETWEEN_TAGS,
    BYTES_OF_BYTE,
    COLUMNS,
    EXAMPLES,
    MOST_ROWS,
    PREVIEWED,
    table_of,
)
from edge.people.people import Role
from edge.validation.encodings import ENCODINGS

KINDS = {"asset": "Assets", "location": "Locations"}
SEPARATOR_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
FAULTS = 100  # listed on the page; the results file has all


@pages.get("/import")
@require_role(Role.EDITOR)
def import_form() -> str:
    return _form({})


@pages.post("/import")
@require_role(Role.EDITOR)
def check_import() -> AnyResponse | tuple[str, int]:
    """Start a dry run. Its records stay in memory until they are imported or several newer files were uploaded."""
    kind, file = request.form.get("kind", ""), request.files.get("file")
    if kind not in KINDS:
        abort(400, "Choose assets or locations.")
    if file is None or not file.filename:
        return _form({"file": "Choose a file"}), 400
    try:
        job = _check(kind, file.read())
    except Unavailable:
        raise
    except EdgeError as error:
        return _form({"file": next(iter(errors_of(error).values()))}), 400
    return redirect(f"/import/{job.id}", 303)


def _check(kind: str, data: bytes, encoding: str = "") -> Job:
    """Start a dry run. Raises Unavailable while too many other files are in progress."""
    with WORK.holding(BYTES_OF_BYTE * len(data)):
        table = table_of(kind, data, encoding)
    shown = table._replace(lines=table.lines[:PREVIEWED])
    return csv_import_jobs.start(Job(actor(), kind, lines=table.lines, data=data, table=shown))


check_import.max_body = MAX_UPLOAD  # type: ignore[attr-defined]


@pages.post("/import/<job_id>/encoding")
@require_role(Role.EDITOR)
def check_import_again(job_id: str) -> AnyResponse | tuple[str, int]:
    """Repeat the dry run with the selected encoding."""
    job, encoding = _job(job_id), request.form.get("encoding", "")
    if encoding not in ENCODINGS or not job.data:
        abort(400, "Choose one of the encodings.")
    try:
        again = _check(job.kind, job.data, encoding)
    except Unavailable:
        raise
    except EdgeError as error:
        return _form({"file": next(iter(errors_of(error).values()))}), 400
    return redirect(f"/import/{again.id}", 303)


@pages.get("/import/<job_id>")
@require_role(Role.EDITOR)
def show_import(job_id: str) -> str:
    return render_template("records/import-job.html", job=_job(job_id), **_labels())


@pages.get("/import/<job_id>/now")
@require_role(Role.EDITOR)
def import_now(job_id: str) -> Response:
    job = _job(job_id)
    return fragment("records/_import-now.html", (job.step, job.progress, job.is_done), job=job, **_labels())


@pages.post("/import/<job_id>")
@require_role(Role.EDITOR)
def run_import(job_id: str) -> AnyResponse:
    """Import the records of the dry run. They are validated again."""
    checked = _job(job_id)
    if not checked.is_done or not checked.dry_run or checked.faults or checked.trouble:
        abort(409, "Only a file checked without errors can be imported.")
    if checked.table and not checked.table.is_certain:
        abort(409, "Choose the encoding of the file first.")
    try:
        job = csv_import_jobs.start(Job(actor(), checked.kind, records=checked.records))
    except EdgeError as error:
        abort(409, str(error))
    return redirect(f"/import/{job.id}", 303)


@pages.get("/import/<job_id>/results.csv")
@require_role(Role.EDITOR)
def import_results(job_id: str) -> Response:
    rows = [(one.line, one.external_key, one.result, one.reason) for one in _job(job_id).outcomes]
    return csv_file("import-results.csv", ("line", "external_key", "result", "reason"), rows)


@pages.get("/import/template/<kind>.csv")
@require_role(Role.EDITOR)
def import_template(kind: str) -> Response:
    columns = COLUMNS.get(kind) or abort(404)
    return csv_file(f"{kind}s.csv", columns, [EXAMPLES[kind]])


def _job(job_id: str) -> Job:
    gone = "This import has expired. Upload the file again."
    return csv_import_jobs.find(current_session().organization_id, job_id) or abort(404, gone)


def _labels() -> dict[str, object]:
    return {"kinds": KINDS, "most_faults": FAULTS, "encodings": ENCODINGS, "separators": SEPARATOR_NAMES}


def _form(errors: Errors) -> str:
    return render_template(
        "records/import.html",
        errors=errors,
        kinds=KINDS,
        kind=request.values.get("kind", "asset"),
        columns=COLUMNS,
        between=BETWEEN_TAGS,
        most=MOST_ROWS,
    )
