"""Downloads have the rows that their page announces, in the same order, under every filter."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pypdfium2
import pytest
import zxingcpp

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import close_database
from edge.labels import printers
from edge.labels.printers import LabelPrinter
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.locations import LocationRow
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from edge.tracking import positions
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.databases import Files, copy_files, files_of
from tests.pages.conftest import Browser
from tests.pages.test_labels import Printer, printer  # noqa: F401  a fixture

SignIn = Callable[..., Browser]
COUNT = 60  # assets; a page has 50


class Yard(NamedTuple):
    north: LocationRow
    dock: LocationRow
    south: LocationRow


@pytest.fixture(scope="session")
def database_with_yard(
    tmp_path_factory: pytest.TempPathFactory, database_with_cast: tuple[Files, Cast]
) -> tuple[Files, Yard]:
    folder = tmp_path_factory.mktemp("yard")
    files, cast = database_with_cast
    copy_files(files, folder)
    yard = make_yard(cast)
    return files_of(folder), yard


@pytest.fixture
def store(tmp_path: Path, database_with_yard: tuple[Files, Yard]) -> Iterator[Path]:
    copy_files(database_with_yard[0], tmp_path)
    yield tmp_path
    close_database()


@pytest.fixture
def yard(store: Path, database_with_yard: tuple[Files, Yard]) -> Yard:
    return database_with_yard[1]


def make_yard(cast: Cast) -> Yard:
    """Create two sites, one with a dock, and assets: some seen now, days ago or never, and some retired."""
    actor, now = shell(cast.acme), clock.now()
    north = locations.create(actor, name="North", external_key="NORTH")
    dock = locations.create(actor, name="Dock", external_key="DOCK", parent_id=north.id)
    south = locations.create(actor, name="South", external_key="SOUTH")
    for number in range(COUNT):
        tags = [NewTag("barcode", f"BC-{number}")] if number % 3 == 0 else []
        name = f"{'Crate' if number % 2 else 'Pallet'} {COUNT - number}"
        made = assets.create(actor, name=name, external_key=f"ASSET-{number + 1:04}", tags=tags)
        for days, place in ((40, south), (number % 5, (north, dock, south)[number % 3])):
            if number % 7:
                at = now - days * clock.DAY - number * clock.SECOND
                positions.record([Scan(cast.acme, made.id, place.id, None, None, at, at, Quality.HANDHELD)], 0)
        if number % 10 == 9:
            assets.delete(actor, made.id)
    return Yard(north, dock, south)


FILTERS = [
    "",
    "q=crate",
    "q=BC-1",
    "unseen=24",
    "site={north}",
    "site={south}&q=pallet",
    "location={dock}",
    "site={south}&location={dock}",
    "location={north}&unseen=8&sort=-seen",
    "show=retired",
    "show=retired&q=crate",
    *(f"sort={sort}" for sort in ("-key", "name", "-location", "since", "seen")),
]


@pytest.fixture
def filled(request: pytest.FixtureRequest, yard: Yard) -> str:
    query: str = request.param
    return query.format(north=yard.north.id, dock=yard.dock.id, south=yard.south.id)


of_the_board = pytest.mark.parametrize("filled", FILTERS, indirect=True)


class Links(HTMLParser):
    """Links on a page, and the fields of its forms."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.forms: dict[str, list[tuple[str, str]]] = {}
        self._form = ""
        self.feed(text[text.find("<main") :])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.addresses.append(values.get("href", ""))
        if tag == "form":
            self._form = values.get("action", "")
            self.forms[self._form] = []
        if tag == "input" and values.get("type") == "hidden":
            self.forms[self._form].append((values["name"], values["value"]))

    def one(self, begin: str) -> str:
        [values] = {address for address in self.addresses if address.startswith(begin)}
        return values


def listed(browser: Browser, path: str) -> tuple[list[str], str]:
    """Return the keys of all rows, page by page, and the first page. Checks the number that each page announces."""
    keys: list[str] = []
    first = text = browser.get(path).text
    while True:
        body = text.partition("<tbody>")[2]
        keys += re.findall(r'mono">(ASSET-\d+)<', body)
        later = re.search(r'href="([^"]+)">More</a>', text)
        if not later:
            break
        text = browser.get(unescape(later[1])).text
    announced = re.search(r"([\d,]+) assets?<", first)
    assert (int(announced[1]) if announced else 0) == len(keys)
    return keys, first


def table(browser: Browser, path: str) -> list[dict[str, str]]:
    answer = browser.get(path)
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    return list(csv.DictReader(io.StringIO(answer.data.decode("utf-8-sig"))))


def codes(document: bytes) -> list[str]:
    return [
        code.text
        for page in pypdfium2.PdfDocument(document)
        for code in zxingcpp.read_barcodes(page.render(scale=2).to_pil())
    ]


@of_the_board
def test_the_export_of_the_board(sign_in_as: SignIn, filled: str) -> None:
    browser = sign_in_as(Role.VIEWER)
    keys, page = listed(browser, f"/?{filled}")
    assert keys
    assert [row["external_key"] for row in table(browser, Links(page).one("/export/board.csv"))] == keys


@of_the_board
def test_labels_of_the_board(sign_in_as: SignIn, filled: str, cast: Cast, printer: Printer) -> None:  # noqa: F811
    """The board, the page of labels, the PDF and the printer have the same assets."""
    printers.set_printer(shell(cast.acme), LabelPrinter(printer.address, "roll-57x32", 8))
    browser = sign_in_as(Role.OPERATOR)
    keys, page = listed(browser, f"/?{filled}")
    if "show=retired" in filled:
        assert "/labels" not in page.partition("<tbody>")[2]
        assert "Nothing to label" in browser.get(f"/labels?{filled}").text
        return
    chosen = browser.get(Links(page).one("/labels")).text
    assert re.search(r"<h1>(\d+) labels?</h1>", chosen)[1] == str(len(keys))  # type: ignore[index]
    forms = Links(chosen).forms
    query = "&".join(f"{name}={value}" for name, value in forms["/labels.pdf"])
    document = browser.get(f"/labels.pdf?{query}&code=datamatrix&paper=avery-l7159").data
    assert sorted(codes(document)) == sorted(keys)
    assert browser.post("/labels/print", dict(forms["/labels/print"]) | {"code": "datamatrix"}).status_code == 303
    sent = re.findall(rb"\^BXN,\d+,200\^FH\^FD([_0-9A-F]+)\^FS", printer.stop())
    assert [bytes.fromhex(one.decode().replace("_", "")).decode() for one in sent] == keys


@pytest.mark.parametrize("hours", [1, 24, 72])
def test_the_export_of_missing_assets(sign_in_as: SignIn, yard: Yard, hours: int) -> None:
    browser = sign_in_as(Role.VIEWER)
    keys, page = listed(browser, f"/not-seen?hours={hours}")
    assert keys
    assert [row["external_key"] for row in table(browser, Links(page).one("/export/board.csv"))] == keys


@pytest.mark.parametrize("filled", ["", "q=crate", "location={north}", "sort=-seen", "sort=-location"], indirect=True)
def test_the_export_of_a_past_moment(
    sign_in_as: SignIn, cast: Cast, yard: Yard, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Includes the hour that is repeated when clocks are set back, and scans within the displayed minute."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    late = assets.create(shell(cast.acme), name="Crate that came within the minute")
    at = now - clock.HOUR - 1
    positions.record([Scan(cast.acme, late.id, yard.dock.id, None, None, at, at, Quality.HANDHELD)], 0)
    browser = sign_in_as(Role.VIEWER)
    keys, page = listed(browser, f"/past?{filled}")
    assert keys
    assert [row["external_key"] for row in table(browser, Links(page).one("/export/past.csv"))] == keys


@pytest.mark.parametrize("days", ["", "from={yesterday}&to={yesterday}"])
def test_the_export_of_an_assets_history(sign_in_as: SignIn, cast: Cast, yard: Yard, days: str) -> None:
    [row] = [one for one in assets.list_page(cast.acme, RecordFilter(), limit=90).rows if one.name == "Crate 29"]
    browser = sign_in_as(Role.VIEWER)
    yesterday = clock.rfc3339(clock.now() - clock.DAY)[:10]
    page = browser.get(f"/assets/{row.id}/history?{days.format(yesterday=yesterday)}").text
    [stays] = re.findall(r'class="quiet">(\d+) stays?<', page)
    rows = table(browser, Links(page).one("/export/history.csv"))
    assert len(rows) == int(stays) > 0


def test_the_export_of_a_locations_history(sign_in_as: SignIn, cast: Cast, yard: Yard) -> None:
    """The page and the file both include the sub-locations."""
    browser = sign_in_as(Role.VIEWER)
    page = browser.get(f"/locations/{yard.north.id}/history").text
    assert "including sub-locations" in page
    rows = table(browser, Links(page).one("/export/history.csv"))
    assert {row["location_key"] for row in rows} == {"NORTH", "DOCK"}
    there = {one.external_key for one in assets.list_page(cast.acme, RecordFilter(), limit=90).rows}
    keys, _ = listed(browser, f"/?location={yard.north.id}")
    assert {row["asset_key"] for row in rows} & there == set(keys)
