"""Printed labels: codes are decoded from the rendered page."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

import pypdfium2
import pytest
import segno
import zxingcpp

from edge.errors import Invalid, Unavailable
from edge.labels import papers, pdf, printers, zpl
from edge.labels.label_content import Code, Label, check_fit, needs_east_asian_font, wrap
from edge.labels.papers import PAPERS, Paper
from edge.labels.pdf import labels_pdf
from edge.labels.zpl import DOTS_PER_MM, labels_zpl, text_width
from edge.outbound import Network
from tests.mosquitto import free_port

FORMATS = {Code.QR: "QR", Code.DATA_MATRIX: "DataMatrix", Code.CODE_128: "Code128"}


def make(count: int) -> list[Label]:
    return [
        Label(f"Pallet {number}", f"ASSET-{number:04}", f"http://edge.nord.example:8080/a/ASSET-{number:04}")
        for number in range(1, count + 1)
    ]


def read_back(document: bytes, dpi: int = 300) -> list[str]:
    texts = []
    for page in pypdfium2.PdfDocument(document):
        texts += [code.text for code in zxingcpp.read_barcodes(page.render(scale=dpi / 72).to_pil())]
    return texts


@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize("paper", ["avery-l7160", "herma-4272", "roll-57x32"])
def test_every_code_is_read_back_from_the_page(code: Code, paper: str) -> None:
    labels = make(7)
    assert sorted(read_back(labels_pdf(labels, PAPERS[paper], code))) == sorted(one.content(code) for one in labels)


def test_labels_of_several_pages_are_read_back() -> None:
    labels = make(50)
    document = labels_pdf(labels, PAPERS["avery-l7160"], Code.QR)
    assert len(pypdfium2.PdfDocument(document)) == 3
    assert sorted(read_back(document, 200)) == sorted(one.link for one in labels)


def test_code_128_of_a_full_sheet_of_small_labels_is_read_back() -> None:
    """Printers have 300 or 600 dots per inch; others scale the page."""
    labels = make(65)
    document = labels_pdf(labels, PAPERS["avery-l7651"], Code.CODE_128)
    for dpi in (300, 400, 600):
        assert len(set(read_back(document, dpi))) == 65, dpi


def test_characters_without_a_font_become_one_square_each(monkeypatch: pytest.MonkeyPatch) -> None:
    label = Label("栈板 Łódź 👩🏽‍🔧🚚", "ASSET-1", "http://e/a/1")
    document = labels_pdf([label], PAPERS["avery-l7163"], Code.QR)
    shown = pypdfium2.PdfDocument(document)[0].get_textpage().get_text_range()
    assert shown.count(pdf.PLACEHOLDER) == (2 + 3 if papers.east_asian_font() is None else 3)
    assert "Łódź" in shown
    monkeypatch.setattr(pdf, "_has", lambda font, letter: (font == pdf._EAST_ASIAN_FONT) == (letter >= "\u2e80"))
    pdf._parts.cache_clear()
    assert pdf._parts("A栈板b", "Label") == (("A", "Label"), ("栈板", pdf._EAST_ASIAN_FONT), ("b", "Label"))
    pdf._parts.cache_clear()


def test_labels_with_east_asian_letters_are_noticed() -> None:
    assert needs_east_asian_font([Label("栈板", "A", "")])
    assert needs_east_asian_font([Label("A", "팔레트", "")])
    assert not needs_east_asian_font([Label("Łódź 🚚", "A-1", "")])


def test_a_code_that_fits_is_read_back_and_one_too_fine_is_refused() -> None:
    paper = PAPERS["avery-l7651"]
    fits, too_fine = Label("Cage", "K" * 12, ""), Label("Cage", "K" * 13, "")
    check_fit([fits], paper, Code.CODE_128)
    assert read_back(labels_pdf([fits], paper, Code.CODE_128)) == [fits.external_key]
    with pytest.raises(Invalid, match="choose larger labels"):
        check_fit([fits, too_fine], paper, Code.CODE_128)
    check_fit([too_fine], paper, Code.DATA_MATRIX)


def test_labels_that_are_used_up_are_left_out() -> None:
    document = labels_pdf(make(20), PAPERS["avery-l7160"], Code.QR, skip=5)
    assert len(pypdfium2.PdfDocument(document)) == 2
    assert len(read_back(document)) == 20


@pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)
def test_every_paper_has_its_labels_on_the_page(paper: Paper) -> None:
    width = paper.left + (paper.columns - 1) * paper.across + paper.width
    height = paper.top + (paper.rows - 1) * paper.down + paper.height
    assert width <= paper.page[0] + 0.2
    assert height <= paper.page[1] + 0.2
    assert (paper.across, paper.down) >= (paper.width, paper.height)


@pytest.mark.parametrize("name", ["x" * 255, "long words " * 23, "Łódź Ω Жук", "東京", "“quotes” & <tags>"])
def test_no_name_is_too_long_or_too_foreign(name: str) -> None:
    label = Label(name, "K" * 60, "http://edge.nord.example/a/" + "K" * 60)
    for paper in ("avery-l7651", "roll-102x51"):
        assert label.link in read_back(labels_pdf([label], PAPERS[paper], Code.QR))  # letters may look like bars


def test_a_name_cannot_command_the_printer() -> None:
    data = labels_zpl([Label("^XZ~JR é", "ASSET-1", "http://x/a/ASSET-1")], PAPERS["roll-102x51"], Code.QR)
    assert data.count(b"^XA") == data.count(b"^XZ") == 1
    assert b"~JR" not in data
    assert b"_5E_58_5A" in data
    assert b"_C3_A9" in data


@pytest.mark.parametrize(
    ("code", "command"), [(Code.QR, b"^BQN"), (Code.DATA_MATRIX, b"^BXN"), (Code.CODE_128, b"^BCN")]
)
def test_the_printer_makes_the_code(code: Code, command: bytes) -> None:
    data = labels_zpl(make(3), PAPERS["roll-57x32"], code, 12)
    assert data.count(command) == 3
    assert b"^PW684^LL384" in data


FIELD = re.compile(rb"\^FO(\d+),(\d+)\^A0N,(\d+),\d+\^FH\^FD([_0-9A-F]*)\^FS")


@pytest.mark.parametrize("dots", DOTS_PER_MM)
@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize("paper", [name for name, paper in PAPERS.items() if paper.per_page == 1])
@pytest.mark.parametrize("name", ["Box", "Long words that say what it is " * 8, "W" * 200, "Łódź 東京"])
@pytest.mark.parametrize("key", ["P-1", "PALLET-2026-000-123-456", "W" * 120, "K" * 255])
def test_the_texts_of_a_printer_label_are_whole_and_apart(
    key: str, name: str, paper: str, code: Code, dots: int
) -> None:
    """Every line is inside the label, right of or below the code, without overlap. The key is never cut."""
    size = PAPERS[paper]
    data = labels_zpl([Label(name, key, f"http://edge.nord.example/a/{key}")], size, code, dots)
    fields = [
        (int(left), int(top), int(height), bytes.fromhex(text.decode().replace("_", "")).decode())
        for left, top, height, text in FIELD.findall(data)
    ]
    bottom = 0
    for left, top, height, text in fields:
        assert left + text_width(text, height) <= round(size.width * dots)
        assert height >= 1.2 * dots
        assert top >= bottom
        bottom = top + height
    assert bottom <= round(size.height * dots)
    texts = [text for *_, text in fields]
    assert key in "".join(texts)
    assert "".join(texts).removesuffix(key).replace(" ", "") == name.replace(" ", "") or "…" in "".join(texts)
    if len(name) < 100:
        assert "…" not in "".join(texts)


def test_a_long_key_is_whole_in_the_pdf() -> None:
    key = "PALLET-" + "0123456789" * 12
    document = labels_pdf([Label("Name " * 30, key, "")], PAPERS["roll-57x32"], Code.DATA_MATRIX)
    text = pypdfium2.PdfDocument(document)[0].get_textpage().get_text_bounded()
    assert key in re.sub(r"\s", "", text)


def test_bars_that_a_printer_cannot_make_fine_enough_are_refused() -> None:
    """0.2 mm suits an office printer, but at 203 dpi one dot is 0.125 mm and two are too wide."""
    label, paper = Label("Cage", "K" * 18, ""), PAPERS["roll-57x32"]
    check_fit([label], paper, Code.CODE_128)
    with pytest.raises(Invalid, match="too fine"):
        check_fit([label], paper, Code.CODE_128, 8)


def test_an_unreachable_printer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printers, "NETWORK", Network.LOOPBACK)
    port = free_port()
    with pytest.raises(Unavailable, match="does not respond"):
        printers.send(f"127.0.0.1:{port}", b"^XA^XZ", [str(port)])


def test_a_printer_that_is_off_occupies_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: eight operators, or one with some requests at once, blocked all pages for as long as they liked."""
    begun, is_over = threading.Event(), threading.Event()

    def connect(*_: object, **__: object) -> NoReturn:
        begun.set()
        is_over.wait(60)
        raise OSError("no response")

    monkeypatch.setattr("edge.outbound.connect", connect)
    monkeypatch.setattr(printers, "WAIT_SECONDS", 0.05)
    with ThreadPoolExecutor() as others:
        first = others.submit(printers.send, "10.9.9.9:9100", b"^XA^XZ", ["9100"])
        begun.wait(60)
        with pytest.raises(Unavailable, match="is busy or off"):
            printers.send("10.9.9.9:9100", b"^XA^XZ", ["9100"])
        is_over.set()
        with pytest.raises(Unavailable, match="does not respond"):
            first.result()
        with pytest.raises(Unavailable, match="does not respond"):
            printers.send("10.9.9.9:9100", b"^XA^XZ", ["9100"])


@pytest.mark.parametrize("text", ["x" * 255, "Pallet 71", "W W" * 85, "a " * 127, "Euro pallet, blue, " * 13])
def test_letters_are_as_large_as_fit_without_trying_each_size(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def counted(*arguments: Any) -> list[str]:
        tried.append(text)
        return wrap(*arguments)

    monkeypatch.setattr(zpl, "wrap", counted)
    for height in (60, 200, 800):
        tried.clear()
        fit = zpl._fit(text, 120, 30, 900, height)
        assert len(tried) < 10
        sizes = [size for size in range(30, 121) if _height(text, size) <= height] or [30]
        assert fit.size == max(sizes)


def _height(text: str, size: int) -> int:
    return zpl._Lines(size, wrap(text, 900, partial(zpl.text_width, size=size))).height


def test_the_masks_of_qr_codes_are_tried_once_for_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying all eight takes most of the time of a long list."""
    masks = []
    make_code = segno.make
    monkeypatch.setattr(
        segno, "make", lambda content, **options: (masks.append(options["mask"]), make_code(content, **options))[1]
    )
    labels_pdf(make(5), PAPERS["avery-l7160"], Code.QR)
    assert masks[0] is None
    assert len(set(masks[1:])) == 1
    assert None not in masks[1:]
