"""Labels of selected assets or locations, as PDF or on a label printer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode

from flask import Response, abort, make_response, redirect, render_template, request
from markupsafe import Markup

from edge.errors import EdgeError, Invalid, NotFound, Unavailable
from edge.labels import printers
from edge.labels.label_content import Code, Label, check_fit, needs_east_asian_font
from edge.labels.papers import DEFAULT_PAPER, EAST_ASIAN_PACKAGE, PAPERS, east_asian_font
from edge.labels.printers import LabelPrinter
from edge.labels.zpl import DOTS_PER_MM, labels_zpl
from edge.outbound import check_host
from edge.pages import label_documents, record_links
from edge.pages.forms import Errors, message_of, text, whole
from edge.pages.guard import Answer, actor, administrators, operators, organization_id, viewers
from edge.pages.notices import done
from edge.pages.tracking.board import board_filter, board_query
from edge.pages.translation import gettext, localized, translated
from edge.records import locations
from edge.services import services
from edge.texts import N_
from edge.tracking import board, location_board

MOST = 1000  # labels in one document
AT_ONCE = 100  # more are drawn in the background
CODES = {
    Code.QR: N_("QR code: opens on any phone"),
    Code.DATA_MATRIX: N_("Data Matrix: small, contains the key"),
    Code.CODE_128: N_("Code 128: for laser scanners, contains the key"),
}


@viewers.get("/labels", manual="office#labels")
def choose_labels() -> str:
    return _page({})


@viewers.get("/labels/preview")
def preview_labels() -> str:
    """Return the picture of the first label, for the page that chooses."""
    labels = _labels() or abort(404)
    return render_template("labels/_preview.html", labels=labels, **_preview(labels))


@viewers.get("/labels.pdf")
def download_labels() -> Answer:
    """Answer with the document, or the address of a page that shows its progress and then opens it."""
    paper = PAPERS.get(request.args.get("paper", DEFAULT_PAPER)) or abort(404)
    skip = min(max(request.args.get("skip", 0, type=whole), 0), paper.per_page - 1)
    chosen = _labels() or abort(404)
    try:
        check_fit(chosen, paper, _code())
    except Invalid as error:
        return _page({"": message_of(error)}), 400
    if len(chosen) > AT_ONCE:
        try:
            started = label_documents.start(organization_id(), chosen, paper, _code(), skip)
        except Unavailable as error:
            abort(429, str(error))
        return redirect(f"/labels/documents/{started.id}", 303)
    # Imported here because its library takes 7 MB and 0.1 s.
    from edge.labels.pdf import labels_pdf

    with _drawing() as progress:
        return _pdf(labels_pdf(chosen, paper, _code(), skip=skip, progress=progress))


@viewers.get("/labels/documents/<document_id>", manual="office#labels")
def show_label_document(document_id: str) -> Answer:
    """Show the progress, and open the document as soon as it is complete."""
    document = label_documents.find(organization_id(), document_id) or abort(404)
    if document.is_done:
        return redirect(f"/labels/documents/{document_id}.pdf", 303)
    response = make_response(render_template("labels/document.html", document=document))
    response.headers["Refresh"] = "1"
    return response


@viewers.get("/labels/documents/<document_id>.pdf")
def open_label_document(document_id: str) -> Response:
    document = label_documents.find(organization_id(), document_id) or abort(404)
    if not document.is_done:
        abort(409, N_("The labels are still being created."))
    if not document.content:
        abort(500)
    return _pdf(b"".join(document.content))


def _pdf(document: bytes) -> Response:
    headers = {"Content-Disposition": 'inline; filename="labels.pdf"'}
    return Response(document, mimetype="application/pdf", headers=headers)


@contextmanager
def _drawing() -> Iterator[Callable[[int], None]]:
    try:
        with label_documents.drawing(organization_id()) as progress:
            yield progress
    except Unavailable as error:
        abort(429, str(error))


@operators.post("/labels/print")
def print_labels() -> Answer:
    chosen_printer = printers.find_printer(organization_id()) or abort(404)
    chosen, paper = _labels() or abort(404), PAPERS[chosen_printer.paper]
    try:
        with _drawing() as progress:
            check_fit(chosen, paper, _code(), chosen_printer.dots_per_mm)
            document = labels_zpl(chosen, paper, _code(), chosen_printer.dots_per_mm, progress)
        _send(chosen_printer, document)
    except Invalid as error:
        return _page({"": message_of(error)}), 400
    except EdgeError as error:
        return _page({"": message_of(error)}), 503
    return redirect("/labels?" + urlencode([*_selection(), ("done", "printed")]), 303)


def print_asset_label(organization_id: int, places: Sequence[int], name: str, external_key: str) -> bool:
    """Print the label of an asset on the nearest printer. Returns False if there is none.

    `places` as in `nearest_printer`. Raises Invalid and Unavailable.
    """
    nearest = printers.nearest_printer(organization_id, places)
    if nearest is None:
        return False
    label = Label(name, external_key, record_links.link("asset", external_key))
    paper = PAPERS[nearest.paper]  # a single label does not wait for documents that others draw
    check_fit([label], paper, Code.QR, nearest.dots_per_mm)
    document = labels_zpl([label], paper, Code.QR, nearest.dots_per_mm)
    _send(nearest, document)
    return True


def _printer_page(errors: Errors) -> str:
    """Return the form with what was entered, or else with the printer of the organization."""
    present = printers.find_printer(organization_id())
    saved = present._asdict() if present else {"paper": "roll-102x51", "dots_per_mm": 8}
    return render_template(
        "labels/printer.html",
        values=request.form if "address" in request.form else saved,
        errors=errors,
        papers=[(name, translated(paper.title)) for name, paper in PAPERS.items() if paper.per_page == 1],
        at_locations=printers.location_printers(organization_id()),
        locations=location_board.choices(organization_id()),
        dots=[(8, "203 dpi"), (12, "300 dpi"), (24, "600 dpi")],
        printer=present,
    )


@administrators.form("/labels/printer", _printer_page, "office#label-printer")
def set_label_printer() -> Answer:
    """Save the label printer, or that of a location. An empty address removes it."""
    location_id = request.form.get("location", 0, type=whole) or None
    entered = _entered_printer()
    if entered is None:
        printers.remove_printer(actor(), location_id)
        return done("/labels/printer", "dropped")
    try:
        printers.set_printer(actor(), entered, location_id)
    except NotFound as error:
        raise Invalid.one("location", "fk_not_found", N_("This location no longer exists")) from error
    return done("/labels/printer", "changed")


@administrators.post("/labels/printer/test")
def print_test_label() -> Answer:
    chosen_printer = printers.find_printer(organization_id()) or abort(404)
    label = Label(gettext("Label printer test"), "TEST-0001", record_links.link("asset", "TEST-0001"))
    paper, dots_per_mm = PAPERS[chosen_printer.paper], chosen_printer.dots_per_mm
    try:
        _send(chosen_printer, labels_zpl([label], paper, Code.QR, dots_per_mm))
    except EdgeError as error:
        return _printer_page({"address": message_of(error)}), 503
    return done("/labels/printer", "printed")


def _send(to: LabelPrinter, document: bytes) -> None:
    printers.send(to.address, document, services().config.labels_printer_ports)


def _labels() -> list[Label]:
    """Return the labels of the selection in the URL: selected assets, else the filtered board; or locations."""
    if request.values.get("kind") == "location":
        branches = location_board.tree(organization_id())
        top = request.values.get("location", 0, type=whole)
        chosen = location_board.inside(branches, top) if top else branches
        rows = (locations.get(organization_id(), branch.id) for branch in chosen[:MOST])
        return [Label(row.name, row.external_key, record_links.link("location", row.external_key)) for row in rows]
    return [Label(row.name, row.external_key, record_links.link("asset", row.external_key)) for row in _assets()]


def _assets() -> Sequence[board.BoardRow]:
    chosen = request.values.getlist("asset", type=whole)
    if chosen:
        return board.by_ids(organization_id(), chosen[:MOST])
    query = board_filter(request.values)
    if query.retired:  # retired keys may be reused
        return []
    return board.board(organization_id(), query, limit=MOST).rows


def _code() -> Code:
    code = request.values.get("code", Code.QR)
    return Code(code) if code in CODES else Code.QR


def _selection() -> list[tuple[str, str]]:
    """Return the selection in the URL as query parameters: everything that `_labels` reads."""
    if request.values.get("kind") == "location":
        return [("kind", "location"), ("location", str(request.values.get("location", 0, type=whole)))]
    if chosen := request.values.getlist("asset", type=whole):
        return [("asset", str(asset_id)) for asset_id in chosen[:MOST]]
    return parse_qsl(board_query(board_filter(request.values)))


def _preview(labels: Sequence[Label]) -> dict[str, object]:
    """Return the picture of the first label, or why the labels cannot be printed."""
    from edge.labels.picture import label_svg  # see download_labels

    paper = PAPERS.get(request.values.get("paper", ""), PAPERS[DEFAULT_PAPER])
    try:
        check_fit(labels, paper, _code())
    except Invalid as error:
        return {"fault": message_of(error), "picture": None}
    picture = Markup(label_svg(labels[0], paper, _code()))  # noqa: S704 - texts are escaped there
    return {"fault": None, "picture": picture, "size": localized(f"{paper.width:g} × {paper.height:g} mm")}


def _source() -> str:
    """Return the address of the page where the labels were chosen."""
    if request.values.get("kind") == "location":
        location_id = request.values.get("location", 0, type=whole)
        return f"/locations/{location_id}" if location_id else "/locations"
    return "/?" + board_query(board_filter(request.values))


def _page(errors: Errors) -> str:
    labels = _labels()
    preview = _preview(labels) if labels else {}
    return render_template(
        "labels/labels.html",
        labels=labels,
        missing_font="" if east_asian_font() or not needs_east_asian_font(labels) else EAST_ASIAN_PACKAGE,
        selection=_selection(),
        papers=[(name, translated(paper.title)) for name, paper in PAPERS.items()],
        paper=request.values.get("paper", DEFAULT_PAPER),
        codes=[(code, gettext(title)) for code, title in CODES.items()],
        code=_code(),
        most=MOST,
        printer=printers.find_printer(organization_id()),
        errors=errors,
        has_no_address=record_links.has_no_address(),
        source=_source(),
        **preview,
    )


def _entered_printer() -> LabelPrinter | None:
    form = request.form
    address = text(form, "address")
    if not address:
        return None
    host, separator, port = address.rpartition(":")
    host, port = (host, port) if separator else (address, str(printers.PORT))
    is_host = 0 < len(host) < 254 and all(letter.isalnum() or letter in ".-" for letter in host)
    if not (is_host and host.isascii() and port.isascii() and port.isdigit()):
        raise Invalid.one("address", "invalid_value", N_("Enter an address like 192.168.1.50 or 192.168.1.50:9100"))
    printers.check_port(int(port[:6]), services().config.labels_printer_ports)
    check_host("address", host, printers.NETWORK)
    dots = form.get("dots_per_mm", "")
    if form.get("paper") not in PAPERS or dots not in map(str, DOTS_PER_MM):
        raise Invalid.one("paper", "invalid_value", N_("Choose one from the list"))
    return LabelPrinter(f"{host}:{port}", form["paper"], int(dots))
