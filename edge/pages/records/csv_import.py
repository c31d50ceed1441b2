"""Import of records and readers from a table: template, columns, dry run and start. Progress: see `bulk`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from flask import Response, abort, redirect, render_template, request

from edge.bulk import import_kinds, imports
from edge.bulk.import_columns import (
    BETWEEN_TAGS,
    COLUMNS,
    EXAMPLES,
    PROPERTY,
    check_columns,
    known_columns,
    proposed_columns,
)
from edge.bulk.import_rows import Reading, preview
from edge.bulk.imports import FAULTY
from edge.errors import Conflict, Invalid
from edge.memory_budget import WORK
from edge.pages.csv_download import table_file
from edge.pages.forms import Errors, whole
from edge.pages.guard import MAX_UPLOAD, Answer, actor, current_session, editors, has_role
from edge.pages.polling import fragment
from edge.pages.records import csv_import_jobs
from edge.pages.records.csv_import_jobs import Job
from edge.pages.spilled import Spilled
from edge.pages.translation import gettext, translated
from edge.records.csv_import import Outcome
from edge.services import services
from edge.texts import N_
from edge.validation import xlsx
from edge.validation.encodings import ENCODINGS
from edge.validation.packed_texts import unpack
from edge.validation.table_files import GUESSED, UNREAD, Layout, memory_of, read_csv
from edge.validation.tables import MOST_ROWS

KINDS = {"asset": N_("Assets"), "location": N_("Locations"), "tag": N_("Tags"), "reader": N_("Readers")}
SEPARATORS = {",": N_("comma"), ";": N_("semicolon"), "\t": N_("tab"), "|": N_("vertical bar")}
EMPTY_CELLS = {
    "keep": N_("change nothing; tags are added"),
    "clear": N_("clear the field; tags that are not listed are detached"),
}


def _form(errors: Errors, **_: str) -> str:
    """Return the first form. It shows the first error, also of a file that is read in another way."""
    return render_template(
        "records/import.html",
        errors={"file": next(iter(errors.values()))} if errors else {},
        kinds={kind: gettext(name) for kind, name in KINDS.items() if has_role(import_kinds.role_for(kind))},
        kind=request.values.get("kind", "asset"),
        empty=request.values.get("empty", "keep"),
        empty_cells=_translated(EMPTY_CELLS),
        columns=COLUMNS,
        between=BETWEEN_TAGS,
        has_xlsx=xlsx.is_available(),
        xlsx_extra=xlsx.EXTRA,
        most=MOST_ROWS,
    )


@editors.form("/import", _form, "office#import", max_body=MAX_UPLOAD)
def check_import() -> Answer:
    """Start a dry run. Its records stay in memory until they are imported or several newer files were uploaded."""
    kind, file = request.form.get("kind", ""), request.files.get("file")
    if kind not in KINDS:
        abort(400, gettext("Choose what to import."))
    _check_role(kind)
    if file is None or not file.filename:
        raise Invalid.one("file", "required", N_("Choose a file"))
    return _checked(kind, file.read(), is_exact=request.form.get("empty") == "clear")


def _checked(
    kind: str, data: bytes, *, is_exact: bool, layout: Layout = GUESSED, columns: Sequence[str] = ()
) -> Answer:
    """Start a dry run. Without `columns` they are taken from the heading, or a person chooses them."""
    if xlsx.is_workbook(data):  # takes seconds, so it is read in the background
        table = UNREAD._replace(layout=layout)
    else:
        with WORK.holding(memory_of(data)):
            table = read_csv(data, layout, COLUMNS[kind])
        columns = columns or known_columns(kind, table.heading)
        if columns:
            check_columns(kind, columns)
    reading = Reading(kind, columns, is_exact, services().zone)
    job = csv_import_jobs.start(Job(actor(), kind, Spilled([data]), table, reading))
    return redirect(f"/import/{job.id}", 303)


@editors.post("/import/<job_id>/layout", again=_form)
def check_import_again(job_id: str) -> Answer:
    """Repeat the dry run with the selected encoding, separator and heading."""
    job = _job(job_id)
    heading = request.form.get("heading", 0, type=whole)
    layout = Layout(heading=heading) if job.is_workbook else entered_layout()._replace(heading=heading)
    columns = job.reading.columns if layout[1:] == job.table.layout[1:] else ()
    return _checked(job.kind, job.data, is_exact=job.reading.is_exact, layout=layout, columns=columns)


def entered_layout() -> Layout:
    """Return the encoding and the separator in the form; empty ones are recognized."""
    layout = Layout(request.form.get("encoding", ""), request.form.get("separator", ""))
    if layout.encoding not in ("", *ENCODINGS) or layout.separator not in ("", *SEPARATORS):
        abort(400, gettext("Choose one from the list"))
    return layout


@editors.form("/import/<job_id>/columns", lambda errors, job_id: _columns_form(errors, job_id), "office#import")
def check_import_columns(job_id: str) -> Answer:
    """Repeat the dry run with the selected field of each column."""
    job = _read_job(job_id)
    columns = [_chosen_column(at) for at in range(len(job.table.heading))]
    check_columns(job.kind, columns)
    is_exact, layout = request.form.get("empty") == "clear", job.table.layout
    layout = layout if job.table.is_certain else layout._replace(encoding="")
    return _checked(job.kind, job.data, is_exact=is_exact, layout=layout, columns=columns)


def _read_job(job_id: str) -> Job:
    """Return a job whose table is read."""
    job = _job(job_id)
    if not job.table.heading:
        abort(409, gettext("The file is being read, or it is not a table."))
    return job


def _chosen_column(at: int) -> str:
    chosen = request.form.get(f"column-{at}", "")
    return PROPERTY + request.form.get(f"property-{at}", "").strip() if chosen == PROPERTY else chosen


def _columns_form(errors: Errors, job_id: str) -> str:
    job = _read_job(job_id)
    proposed = job.reading.columns or proposed_columns(job.kind, job.table.heading)
    chosen = [request.form.get(f"column-{at}", name or "") for at, name in enumerate(proposed)]
    fields = {name: name for name in COLUMNS[job.kind]}
    if "metadata" in fields:
        fields[PROPERTY] = gettext("property of the metadata…")
    samples = [[row.cells[at] for row in job.table.rows[:3] if at < len(row.cells)] for at in range(len(proposed))]
    return render_template(
        "records/import-columns.html",
        job=job,
        errors=errors,
        columns=list(zip(job.table.heading, chosen, samples, strict=True)),
        fields=[("", gettext("not imported")), *fields.items()],
        property=PROPERTY,
        is_exact=job.reading.is_exact,
        empty_cells=_translated(EMPTY_CELLS),
        **_labels(job),
    )


@editors.get("/import/<job_id>", manual="office#import")
def show_import(job_id: str) -> Answer:
    job = _job(job_id)
    if job.is_done and job.needs_columns and not job.trouble:
        return redirect(f"/import/{job_id}/columns", 303)
    return render_template("records/import-job.html", job=job, **_labels(job))


@editors.get("/import/<job_id>/now")
def import_now(job_id: str) -> Response:
    job = _job(job_id)
    return fragment("records/_import-now.html", (job.step, job.progress, job.is_done), job=job, **_labels(job))


@editors.post("/import/<job_id>")
def run_import(job_id: str) -> Answer:
    """Import the records of the dry run, once. They are validated again when they are written."""
    job = _job(job_id)
    with job.lock:
        if job.import_id:
            return redirect(f"/bulk/{job.import_id}", 303)
        if not job.is_done or job.records is None or job.faults or job.trouble:
            abort(409, gettext("Only a file checked without errors can be imported."))
        if not job.table.is_certain:
            abort(409, gettext("Choose the encoding of the file first."))
        try:
            job.import_id = imports.start(actor(), job.kind, job.records, job.counts["created"])
        except Conflict as error:
            abort(409, translated(error.args[0]))
        job.records = None
    return redirect(f"/bulk/{job.import_id}", 303)


@editors.get("/import/<job_id>/results.csv")
def import_results(job_id: str) -> Response:
    outcomes = _job(job_id).outcomes or ()
    rows = ((one.line, one.external_key, one.result, translated(unpack(one.reason))) for one in outcomes)
    return table_file("import-results.csv", ("line", "external_key", "result", "reason"), rows)


@editors.get("/import/<job_id>/errors.csv")
def import_errors(job_id: str) -> Response:
    """Return the rows with errors as a table to correct and upload again."""
    job = _job(job_id)
    reasons = {one.line: one.reason for one in job.outcomes or () if one.result == FAULTY}
    faulty = ((unpack(reasons[row.line]), row.cells or {}) for row in job.records or () if row.line in reasons)
    return errors_file(job.reading.names, faulty)


@editors.get("/import/template/<kind>.csv")
def import_template(kind: str) -> Response:
    columns = COLUMNS.get(kind) or abort(404)
    return table_file(f"{kind}s.csv", columns, [EXAMPLES[kind]])


def errors_file(names: Sequence[str], rows: Iterable[tuple[str, Mapping[str, str]]]) -> Response:
    """Return rows with their errors in the first column, which an import ignores."""
    cells = ((translated(reason), *(entered.get(name, "") for name in names)) for reason, entered in rows)
    return table_file("import-errors.csv", ("error", *names), cells)


def _job(job_id: str) -> Job:
    gone = gettext("This import has expired. Upload the file again.")
    job = csv_import_jobs.find(current_session().organization_id, job_id) or abort(404, gone)
    _check_role(job.kind)
    return job


def _check_role(kind: str) -> None:
    if not has_role(import_kinds.role_for(kind)):
        abort(403)


def _labels(job: Job) -> dict[str, object]:
    names = _translated(ENCODINGS)
    choices = [(name, f"{names[name]}: {words}") for name, words in job.table.samples.items()]
    return {
        "faults": partial(_shown_faults, job),  # when the page has seen that the check is done
        "encodings": names,
        "separators": _translated(SEPARATORS),
        "encoding_choices": choices,
        "headings": [(row.number, f"{row.number}: {', '.join(filter(None, row.cells))[:80]}") for row in job.table.top],
        "preview": preview,
        "has_xlsx": xlsx.is_available(),
    }


def _shown_faults(job: Job) -> list[Outcome]:
    return [one._replace(reason=translated(unpack(one.reason))) for one in job.faults]


def _translated(titles: Mapping[str, str]) -> dict[str, str]:
    return {name: gettext(title) for name, title in titles.items()}
