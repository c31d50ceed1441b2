"""The columns of the board that a device chose, on the page and in its CSV file."""

from __future__ import annotations

import re

import pytest

from edge import clock
from edge.people.people import Role
from tests.conftest import Cast
from tests.pages.conftest import Browser, SignIn, Site, see
from tests.pages.tracking.test_exports import table
from tests.records.lending import lend_until_yesterday


def headings(browser: Browser, path: str = "/") -> list[str]:
    head = browser.get(path).text.split("<thead>")[1].split("</thead>")[0]
    return [text for text in re.sub(r"<[^>]+>", "\n", head).split("\n") if text.strip()]


def choose(browser: Browser, *columns: str) -> None:
    assert browser.post("/board/columns", {"column": list(columns), "next": "/?q=cage"}).location == "/?q=cage"


def test_chosen_columns_are_kept_for_the_device(sign_in_as: SignIn, site: Site) -> None:
    viewer, other = sign_in_as(Role.VIEWER), sign_in_as(Role.VIEWER)
    usual = ["Asset", "Key", "Location", "There for", "Not seen for"]
    assert headings(viewer) == usual
    choose(viewer, "area", "key", "nonsense")
    for path in ("/", "/board/rows", "/?sort=since"):
        assert headings(viewer, path) == ["Asset", "Key", "Area"]
    assert headings(other) == usual
    choose(viewer)
    assert headings(viewer) == ["Asset"]
    choose(viewer, "key", "location", "since", "seen")
    assert headings(viewer) == usual


def test_a_page_that_polls_gets_the_new_columns(sign_in_as: SignIn, site: Site) -> None:
    viewer = sign_in_as(Role.VIEWER)
    version = viewer.get("/board/rows").headers["ETag"]
    assert viewer.get("/board/rows", headers={"If-None-Match": version}).status_code == 304
    choose(viewer, "area")
    assert viewer.get("/board/rows", headers={"If-None-Match": version}).status_code == 200


def test_the_file_has_the_columns_of_the_page(
    sign_in_as: SignIn, cast: Cast, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    lend_until_yesterday(monkeypatch, cast.acme, site.cage.id)
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    viewer = sign_in_as(Role.VIEWER)
    assert 'href="/export/board.csv?"' in viewer.get("/").text
    choose(viewer, "area", "borrower")
    page = viewer.get("/?q=cage").text
    assert 'href="/export/board.csv?q=cage&amp;columns=name.area.borrower"' in page
    assert '<input type="hidden" name="columns" value="name.area.borrower">' in page  # for ticked rows
    for selection in ("q=cage", f"asset={site.cage.id}"):
        row = table(viewer, f"/export/board.csv?{selection}&columns=name.area.borrower")[0]
        assert row.pop("due") == f"{clock.to_datetime(clock.now() - clock.DAY):%Y-%m-%d}"
        assert row == {
            "external_key": "ASSET-0002",
            "name": "Roll cage",
            "is_active": "yes",
            "area": "Hall 1",
            "borrower": "Ada",
        }
    assert table(viewer, "/export/board.csv?q=pallet&columns=name.borrower")[0]["borrower"] == ""


def test_a_foreign_address_is_not_followed(sign_in_as: SignIn, site: Site) -> None:
    assert sign_in_as(Role.VIEWER).post("/board/columns", {"next": "//evil.example/"}).location == "/"
