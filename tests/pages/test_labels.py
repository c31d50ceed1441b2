"""Labels of selected or filtered assets, as PDF and on a label printer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from xml.etree import ElementTree

import pypdfium2
import pytest
import zxingcpp
from flask import Flask

from edge.audit.actors import shell
from edge.fair_turns import Turn
from edge.labels import pdf, printers, zpl
from edge.labels import printers as network_printer
from edge.labels.label_content import Code, Label
from edge.labels.papers import DEFAULT_PAPER, PAPERS
from edge.labels.printers import LabelPrinter
from edge.outbound import Network
from edge.pages import label_documents, labels, record_links
from edge.people.people import Role
from edge.records import assets
from tests.application import change
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


class Printer:
    """Receive the data on a port, as a label printer does."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.taken = b""
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            while part := connection.recv(4096):
                self.taken += part

    def stop(self) -> bytes:
        self._thread.join(60)
        self._socket.close()
        return self.taken


@pytest.fixture
def printer(monkeypatch: pytest.MonkeyPatch, app: Flask) -> Iterator[Printer]:
    monkeypatch.setattr(network_printer, "NETWORK", Network.LOOPBACK)
    made = Printer()
    change(app, labels_printer_ports=(made.address.rpartition(":")[2],))
    yield made
    made._socket.close()


def pages_of(document: bytes) -> int:
    return len(pypdfium2.PdfDocument(document))


def codes(document: bytes) -> list[str]:
    return [
        code.text
        for page in pypdfium2.PdfDocument(document)
        for code in zxingcpp.read_barcodes(page.render(scale=200 / 72).to_pil())
    ]


def test_labels_of_the_filtered_board(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.VIEWER)
    assert "1 label" in browser.get("/labels?q=roll").text
    answer = browser.get("/labels.pdf?q=roll&code=qr")
    assert answer.mimetype == "application/pdf"
    assert codes(answer.data) == ["ASSET-0002"]


def test_labels_of_selected_assets(sign_in_as: SignIn, site: Site) -> None:
    path = f"/labels.pdf?asset={site.pallet.id}&code=datamatrix&paper=roll-57x32"
    assert codes(sign_in_as(Role.VIEWER).get(path).data) == ["ASSET-0001"]


@pytest.fixture
def many(cast: Cast) -> int:
    """Add more assets than are drawn at once. Returns their number."""
    number = labels.AT_ONCE + 1
    for one in range(number):
        assets.create(shell(cast.acme), name=f"Crate {one}")
    return number


def test_many_labels_are_drawn_in_the_background(sign_in_as: SignIn, cast: Cast, many: int) -> None:
    browser = sign_in_as(Role.VIEWER)
    page = browser.get("/labels.pdf?q=crate").location
    document = label_documents.find(cast.acme, page.rpartition("/")[2])
    assert document
    assert document.ended.wait(60)
    assert browser.get(page).location == f"{page}.pdf"
    assert pages_of(browser.get(f"{page}.pdf").data) == -(-many // PAPERS[DEFAULT_PAPER].per_page)
    other = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    assert [other.get(path).status_code for path in (page, f"{page}.pdf")] == [404, 404]


def test_the_page_shows_the_progress_until_then(
    sign_in_as: SignIn, cast: Cast, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, may_end = threading.Event(), threading.Event()

    def draw(chosen: Sequence[Label], *_: object, progress: Callable[[int], None], **__: object) -> bytes:
        progress(7)
        drawn.set()
        assert may_end.wait(60)
        return b"%PDF"

    monkeypatch.setattr(pdf, "labels_pdf", draw)
    browser = sign_in_as(Role.VIEWER)
    page = browser.get("/labels.pdf?q=crate").location
    assert drawn.wait(60)
    shown = browser.get(page)
    assert shown.headers["Refresh"] == "1"
    assert f"7 of {many} are ready" in shown.text
    assert browser.get(f"{page}.pdf").status_code == 409
    assert browser.get("/labels.pdf?q=crate").status_code == 429
    may_end.set()
    document = label_documents.find(cast.acme, page.rpartition("/")[2])
    assert document
    assert document.ended.wait(60)
    assert browser.get(f"{page}.pdf").data == b"%PDF"


def test_a_document_that_failed_or_is_old_is_an_error(
    sign_in_as: SignIn, cast: Cast, many: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise ValueError("no font")

    monkeypatch.setattr(pdf, "labels_pdf", fail)
    browser = sign_in_as(Role.VIEWER)
    page = browser.get("/labels.pdf?q=crate").location
    document = label_documents.find(cast.acme, page.rpartition("/")[2])
    assert document
    assert document.ended.wait(60)
    assert browser.get(f"{page}.pdf").status_code == 500
    assert "Drawing of labels failed" in caplog.text
    document.started_at -= label_documents.KEPT_SECONDS + 1
    assert browser.get(page).status_code == 404


def test_a_code_that_is_too_fine_is_refused_with_a_message(sign_in_as: SignIn, cast: Cast) -> None:
    made = assets.create(shell(cast.acme), name="Cage", external_key="K" * 40)
    answer = sign_in_as(Role.VIEWER).get(f"/labels.pdf?asset={made.id}&code=code128&paper=avery-l7651")
    assert (answer.status_code, "too fine to read: choose larger labels" in answer.text) == (400, True)


def test_labels_of_a_location_and_what_is_inside(sign_in_as: SignIn, site: Site) -> None:
    path = f"/labels.pdf?kind=location&location={site.hall.id}&code=code128"
    assert sorted(codes(sign_in_as(Role.VIEWER).get(path).data)) == ["DOCK-1", "HALL-1", "RACK-A"]


def test_the_page_shows_the_first_label_as_in_the_pdf(sign_in_as: SignIn, cast: Cast) -> None:
    made = assets.create(shell(cast.acme), name="<b>Cage</b> & Söhne", external_key="K-1")
    browser, chosen = sign_in_as(Role.VIEWER), f"asset={made.id}&code=datamatrix&paper=roll-57x32"
    fragment = browser.get(f"/labels/preview?{chosen}").text
    picture = fragment[fragment.index("<svg") : fragment.index("</svg>") + 6]
    assert fragment[fragment.index("<div") :] in browser.get(f"/labels?{chosen}").text
    drawn = ElementTree.fromstring(picture)  # noqa: S314 - made by this program
    assert (drawn.get("width"), drawn.get("height")) == ("57mm", "32mm")
    texts = "".join(text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text"))
    assert texts.replace(" ", "") == "<b>Cage</b>&SöhneK-1"
    printed = pypdfium2.PdfDocument(browser.get(f"/labels.pdf?{chosen}").data)[0].get_textpage().get_text_range()
    assert "".join(printed.split()) == texts.replace(" ", "")


@pytest.mark.parametrize(
    ("language", "size"), [("en", "63.5 × 38.1 mm"), ("de", "63,5 × 38,1 mm"), ("pl", "63,5 × 38,1 mm")]
)
def test_sizes_of_paper_have_the_decimal_separator_of_the_language(
    sign_in_as: SignIn, site: Site, language: str, size: str
) -> None:
    page = sign_in_as(Role.VIEWER).get(f"/labels?asset={site.pallet.id}", headers={"Accept-Language": language}).text
    assert page.count(size) == 2  # in the list of papers, and below the preview


def test_the_preview_says_why_labels_cannot_be_printed(sign_in_as: SignIn, cast: Cast) -> None:
    made = assets.create(shell(cast.acme), name="Cage", external_key="K" * 40)
    preview = sign_in_as(Role.VIEWER).get(f"/labels/preview?asset={made.id}&code=code128&paper=avery-l7651").text
    assert "too fine to read" in preview
    assert "<svg" not in preview


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("q=roll", "/?q=roll"),
        ("kind=location&location={hall}", "/locations/{hall}"),
        ("kind=location", "/locations"),
    ],
)
def test_the_page_leads_back_to_the_choice(sign_in_as: SignIn, site: Site, query: str, source: str) -> None:
    page = sign_in_as(Role.VIEWER).get("/labels?" + query.format(hall=site.hall.id)).text
    assert f'<a href="{source.format(hall=site.hall.id)}">Choose others</a>' in page


def test_nothing_of_another_organization(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.VIEWER, organization_id=cast.rival)
    assert "Nothing to label" in browser.get(f"/labels?asset={site.pallet.id}").text
    for path in ("/labels.pdf", "/labels/preview"):
        assert browser.get(f"{path}?asset={site.pallet.id}").status_code == 404


@pytest.mark.parametrize("query", ["paper=nonsense", "asset=x&q=nothing-fits", "kind=location&location=99"])
def test_labels_of_nothing_are_404(sign_in_as: SignIn, site: Site, query: str) -> None:
    assert sign_in_as(Role.VIEWER).get(f"/labels.pdf?{query}").status_code == 404


def test_a_printer_is_set_up_tested_and_used(sign_in_as: SignIn, site: Site, printer: Printer) -> None:
    admin = sign_in_as(Role.ADMINISTRATOR)
    entered = {"address": printer.address, "paper": "roll-57x32", "dots_per_mm": "8"}
    assert admin.post("/labels/printer", entered).status_code == 303
    assert admin.post("/labels/print", {"asset": site.pallet.id}).status_code == 303
    assert b"^BQN" in printer.stop()
    gone = admin.post("/labels/printer/test")
    assert gone.status_code == 503
    assert "does not respond" in gone.text


def test_labels_of_an_organization_are_made_one_document_at_a_time(
    sign_in_as: SignIn, site: Site, cast: Cast, printer: Printer
) -> None:
    """Regression: each of six requests of an operator could use the interpreter for a minute."""
    admin = sign_in_as(Role.ADMINISTRATOR)
    admin.post("/labels/printer", {"address": printer.address, "paper": "roll-57x32", "dots_per_mm": "8"})
    with label_documents.DRAWING.turn(cast.acme, 0):
        assert admin.post("/labels/print", {"asset": site.pallet.id}).status_code == 429
        assert admin.get(f"/labels.pdf?asset={site.pallet.id}").status_code == 429
    assert admin.post("/labels/print", {"asset": site.pallet.id}).status_code == 303
    printer.stop()


def test_labels_of_others_wait_for_one_label_and_not_for_a_document(
    sign_in_as: SignIn, cast: Cast, site: Site, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, whoever drew a document kept all other organizations from theirs."""
    drawn, real = threading.Event(), pdf.labels_pdf
    waits = threading.Event()

    def draw(chosen: Sequence[Label], *given: object, progress: Callable[[int], None], **named: object) -> bytes:
        for number in range(1000):
            progress(number)
            drawn.set()
            if number == 1:
                assert waits.wait(60)
        return b"%PDF"

    monkeypatch.setattr(pdf, "labels_pdf", draw)
    page = sign_in_as(Role.VIEWER).get("/labels.pdf?q=crate").location
    document = label_documents.find(cast.acme, page.rpartition("/")[2])
    assert document
    assert drawn.wait(60)
    monkeypatch.setattr(pdf, "labels_pdf", real)
    asset = assets.create(shell(cast.rival), name="Theirs")
    waiting = label_documents.DRAWING.join(cast.rival)
    assert waiting
    waits.set()
    assert label_documents.DRAWING.wait(waiting, 60)
    assert not document.is_done
    label_documents.DRAWING.leave(waiting)
    other = sign_in_as(Role.VIEWER, organization_id=cast.rival)
    assert codes(other.get(f"/labels.pdf?asset={asset.id}&code=datamatrix").data) == [asset.external_key]
    assert document.ended.wait(60)


def test_labels_of_others_wait_for_one_label_of_a_printer(
    sign_in_as: SignIn, cast: Cast, site: Site, printer: Printer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a thousand long names for a printer took 7 s of processor time in one turn."""
    admin = sign_in_as(Role.ADMINISTRATOR)
    admin.post("/labels/printer", {"address": printer.address, "paper": "roll-57x32", "dots_per_mm": "8"})
    made: list[str] = []
    theirs: list[int] = []

    def make(label: Label, *given: object) -> str:
        made.append(label.name)
        if len(made) == 1:
            turn = label_documents.DRAWING.join(cast.rival)
            assert turn
            other = threading.Thread(target=draw, args=(turn,))
            other.start()
        return "^XA^XZ"

    def draw(turn: Turn) -> None:
        assert label_documents.DRAWING.wait(turn, 60)
        theirs.append(len(made))
        label_documents.DRAWING.leave(turn)

    monkeypatch.setattr(zpl, "_format", make)
    assert admin.post("/labels/print", {"asset": [site.pallet.id, site.cage.id]}).status_code == 303
    printer.stop()
    assert (len(made), theirs) == (2, [1])


def test_documents_of_others_are_not_forgotten(sign_in_as: SignIn, cast: Cast, many: int) -> None:
    """Before, four documents of one organization removed those of all others."""
    label = [Label("Theirs", "K-1", "K-1")]
    paper = PAPERS[DEFAULT_PAPER]
    theirs = label_documents.start(cast.rival, label, paper, Code.QR, 0)
    assert theirs.ended.wait(60)
    own = []
    for _ in range(label_documents.KEPT + 2):
        own.append(label_documents.start(cast.acme, label, paper, Code.QR, 0))
        assert own[-1].ended.wait(60)
    assert label_documents.find(cast.rival, theirs.id) is theirs
    kept = [label_documents.find(cast.acme, one.id) is not None for one in own]
    assert kept == [False, False, *[True] * label_documents.KEPT]


@pytest.mark.parametrize("port", [80, 1024, 1883, 5432, 8080, 9099, 9110, 65_535])
def test_a_port_of_other_services_is_neither_saved_nor_tried(
    sign_in_as: SignIn, cast: Cast, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator could find out which services run in the network of the box."""
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("connected"))
    admin = sign_in_as(Role.ADMINISTRATOR)
    entered = {"address": f"10.0.0.7:{port}", "paper": "roll-57x32", "dots_per_mm": "8"}
    answer = admin.post("/labels/printer", entered)
    assert (answer.status_code, "Label printers use the ports 6101, 9100-9109" in answer.text) == (400, True)
    printers.set_printer(shell(cast.acme), LabelPrinter(f"10.0.0.7:{port}", "roll-57x32", 8))  # by an earlier release
    assert "Label printers use the ports" in admin.post("/labels/printer/test").text


@pytest.mark.parametrize(
    "entered",
    [
        {"address": "printer:80"},
        {"address": "a b:9100"},
        {"address": "http://printer"},
        {"address": "printer", "paper": "none"},
        {"address": "printer", "dots_per_mm": "9"},
    ],
)
def test_a_printer_that_cannot_be_is_refused(sign_in_as: SignIn, entered: dict[str, object]) -> None:
    given = {"paper": "roll-57x32", "dots_per_mm": "8", **entered}
    assert sign_in_as(Role.ADMINISTRATOR).post("/labels/printer", given).status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "0.0.0.0"])  # noqa: S104 - the subject
def test_no_label_goes_to_this_box_or_a_link_local_address(
    sign_in_as: SignIn, cast: Cast, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> socket.socket:
        raise AssertionError("connected")

    monkeypatch.setattr(socket, "create_connection", never)
    browser = sign_in_as(Role.ADMINISTRATOR)
    entered = {"address": f"{host}:9100", "paper": "roll-102x51", "dots_per_mm": "8"}
    assert browser.post("/labels/printer", entered).status_code == 400
    printers.set_printer(shell(cast.acme), LabelPrinter(f"{host}:9100", "roll-102x51", 8))  # of an earlier release
    answer = browser.post("/labels/printer/test")
    assert answer.status_code == 503
    assert "Enter the printer" in answer.text


def test_only_an_administrator_sets_the_printer(sign_in_as: SignIn, site: Site) -> None:
    entered = {"address": "127.0.0.1:9100", "paper": "roll-57x32", "dots_per_mm": "8"}
    assert sign_in_as(Role.EDITOR).post("/labels/printer", entered).status_code == 403
    assert sign_in_as(Role.OPERATOR).post("/labels/print", {"asset": site.pallet.id}).status_code == 404


def test_a_name_that_is_invalid_in_dns_is_reported(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    browser.post("/labels/printer", {"address": "label..printer", "paper": "roll-102x51", "dots_per_mm": "8"})
    answer = browser.post("/labels/printer/test")
    assert (answer.status_code, "does not respond" in answer.text) == (503, True)


@pytest.mark.parametrize("path", ["/labels?q=roll", "/assets/{asset}/label", "/locations/{location}/label"])
def test_labels_never_lead_a_phone_to_itself(sign_in_as: SignIn, app: Flask, site: Site, path: str) -> None:
    """This browser uses http://localhost."""
    browser, path = sign_in_as(Role.VIEWER), path.format(asset=site.cage.id, location=site.dock.id)
    for address in ("", "http://127.0.0.1:8080", "http://[::1]:8080", "http://edge.localhost"):
        change(app, http_public_url=address, own_address=None)
        assert "contain only the key" in browser.get(path).text
        change(app, http_public_url=address, own_address="http://hall7.local:8080")
        assert "contain only the key" not in browser.get(path).text
    for address in ("http://192.168.1.50:8080", "http://edge.local"):
        change(app, http_public_url=address, own_address=None)
        assert "contain only the key" not in browser.get(path).text


@pytest.mark.parametrize(
    ("own_address", "kind", "held"),
    [
        ("https://hall7.local", "asset", "https://hall7.local/a/K-1"),
        ("https://hall7.local", "location", "https://hall7.local/l/K-1"),
        (None, "asset", "K-1"),
        (None, "location", "K-1"),
    ],
)
def test_the_content_of_the_code_on_a_label(app: Flask, own_address: str | None, kind: str, held: str) -> None:
    change(app, http_public_url="", own_address=own_address)
    with app.test_request_context(base_url="http://127.0.0.1:8080"):
        link = record_links.link(kind, "K-1")
    assert link == held
