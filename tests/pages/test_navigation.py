"""The sidebar and the search of every page: each role sees what it may use, and finds its own organization's things."""

from __future__ import annotations

import re

import pytest

from edge.audit.actors import shell
from edge.errors import Unavailable
from edge.people.people import RANK, Role
from edge.readers import readers
from edge.records import assets
from edge.records.tags import NewTag
from tests.conftest import Cast
from tests.pages.conftest import Browser, SignIn, Site


def places(browser: Browser) -> list[str]:
    return re.findall(
        r'<li><a href="([^"]+)"', browser.get("/home").text.split('<nav class="side"')[1].split("</nav>")[0]
    )


def found(browser: Browser, q: str) -> list[str]:
    answer = browser.get("/find", query_string={"q": q, "part": "1"})
    assert answer.status_code == 200
    return re.findall(r'<a href="([^"]+)"', answer.text)


@pytest.mark.parametrize("role", list(Role))
def test_the_sidebar_has_the_pages_that_the_role_may_open_and_no_others(sign_in_as: SignIn, role: Role) -> None:
    every, browser = places(sign_in_as(Role.ADMINISTRATOR)), sign_in_as(role)
    shown = places(browser)
    assert len(every) == len(set(every)) > 20
    assert [path for path in every if browser.get(path).status_code == 200] == shown
    assert (len(shown) == len(every)) == (role == Role.ADMINISTRATOR)


def test_the_place_of_the_page_is_marked(sign_in_as: SignIn, site: Site) -> None:
    page = sign_in_as(Role.VIEWER).get(f"/assets/{site.pallet.id}").text
    marked = re.findall(r'<a href="([^"]+)" aria-current="page"', page)
    assert marked == ["/", "/"]  # in the sidebar and in the bar of a phone


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_the_search_finds_records_readers_pages_and_chapters(
    sign_in_as: SignIn, cast: Cast, site: Site, role: Role
) -> None:
    reader = readers.add_reader(
        shell(cast.acme), name="Gate reader", topic="hall/gate", format="edge", location_id=site.dock.id
    )
    assets.create(shell(cast.acme), name="Cage <b>", tags=[NewTag("rfid", "AA7788")])
    assets.create(shell(cast.rival), name="Cage of others")
    browser = sign_in_as(role)
    [cage] = found(browser, "aa7788")
    assert browser.get(cage).status_code == 200
    assert "Cage &lt;b&gt;" in browser.get("/find?q=cage+<b>").text
    assert cage in found(browser, "cage")
    assert "of others" not in browser.get("/find?q=of+others&part=1").text
    assert found(browser, site.dock.external_key)[0] == f"/locations/{site.dock.id}"
    assert (f"/readers/{reader.id}" in found(browser, "gate read")) == (RANK[role] >= RANK[Role.EDITOR])
    assert found(browser, "kiosk displays")[0].startswith("/manual/walls#")
    assert "/stock-takes" in found(browser, "stock-t")
    assert ("/readers" in found(browser, "readers")) == (role == Role.EDITOR)
    assert found(browser, "no such thing anywhere") == []
    assert "Nothing found" in browser.get("/find?q=no+such+thing+anywhere").text


def test_without_the_database_the_error_has_its_page(sign_in_as: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the sidebar of the error page read the database, too, so nobody saw what had failed."""
    browser = sign_in_as(Role.ADMINISTRATOR)

    def fail(*_: object) -> int:
        raise Unavailable("The disk is full")

    monkeypatch.setattr("edge.rules.alerts.scalar", fail)
    answer = browser.get("/rules")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "The disk is full" in answer.text
    assert browser.get("/no-such-page").status_code == 404


def test_places_are_found_by_their_names_in_the_language_of_the_person(sign_in_as: SignIn) -> None:
    viewer = sign_in_as(Role.VIEWER)
    viewer.send("/language", {"language": "de"})
    assert "/stock-takes" in found(viewer, "inventur")
