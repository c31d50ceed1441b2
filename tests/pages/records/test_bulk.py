"""The page that changes many assets: selection, refusals and progress."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest
from werkzeug.test import TestResponse

from edge.audit.actors import shell
from edge.bulk import slices
from edge.people.people import Role
from edge.records import assets
from edge.tracking import board, report
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


@pytest.fixture
def ed(sign_in_as: SignIn) -> Browser:
    return sign_in_as(Role.EDITOR)


def send(browser: Browser, path: str, action: str, **values: object) -> TestResponse:
    """Open the page and send one of its forms."""
    page = browser.get(path)
    assert page.status_code == 200
    forms = re.findall(r"<form [^>]*action=\"/bulk\".*?</form>", page.text, re.DOTALL)
    for form in forms:
        hidden: dict[str, object] = {}
        for name, value in re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form):
            hidden[name] = [*hidden[name], value] if isinstance(hidden.get(name), list) else [unescape(value)]
        if hidden["action"] == [action] and hidden.get("field", [None]) == [values.get("field")]:
            return browser.post("/bulk", {**hidden, **values})
    raise AssertionError(f"no form for {action}")


def finished(browser: Browser, answer: TestResponse) -> str:
    assert answer.status_code == 303, answer.text
    assert "0 of " in browser.get(answer.location).text
    slices.run_jobs(lambda _: False)
    return browser.get(answer.location).text


def test_ticked_assets_are_moved(ed: Browser, site: Site) -> None:
    path = f"/bulk?asset={site.pallet.id}&asset={site.cage.id}"
    assert "2 assets" in ed.get(path).text
    page = finished(ed, send(ed, path, "move", location_id=site.dock.id))
    assert "Done." in page
    assert "Dock 1" in page
    for row in (site.pallet, site.cage):
        position = report.current_position(row.id)
        assert position
        assert position.location_id == site.dock.id


def test_all_assets_of_the_filter_are_retired_and_restored(ed: Browser, site: Site, cast: Cast) -> None:
    finished(ed, send(ed, "/bulk?q=pallet", "retire"))
    assert assets.get_any(cast.acme, site.pallet.id).deleted_at
    assert assets.get(cast.acme, site.cage.id)
    page = ed.get("/bulk?show=retired").text
    assert "Restore 1 asset" in page
    assert "Retire 1 asset" not in page
    assert "/labels" not in page.split("<main")[1]
    finished(ed, send(ed, f"/bulk?show=retired&asset={site.pallet.id}", "restore"))
    assert assets.get(cast.acme, site.pallet.id)


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ({"field": "description", "description": "wet"}, "wet"),
        ({"field": "is_active", "is_active": "no"}, "No"),
        ({"field": "valid_to", "valid_to": "2090-03-02T14:00"}, "2090"),
        ({"field": "property", "name": "color", "property": "red"}, "red"),
    ],
)
def test_a_field_is_changed(ed: Browser, site: Site, form: dict[str, object], shown: str) -> None:
    page = finished(ed, send(ed, f"/bulk?asset={site.pallet.id}", "change", **form))
    assert "Done." in page
    assert shown in page.split("<dl")[1]
    assert shown in ed.get(f"/assets/{site.pallet.id}").text or shown == "No"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"field": "property", "name": "", "property": "red"}, "Enter the name of the property"),
        ({"field": "valid_to", "valid_to": "soon"}, "Enter a time like"),
        ({"field": "description", "description": "x" * 5000}, "description must have at most"),
    ],
)
def test_a_wrong_value_is_refused(ed: Browser, site: Site, form: dict[str, object], message: str) -> None:
    answer = send(ed, f"/bulk?asset={site.pallet.id}", "change", **form)
    assert answer.status_code == 400
    assert message in answer.text


def test_a_location_must_be_chosen(ed: Browser, site: Site) -> None:
    answer = send(ed, f"/bulk?asset={site.pallet.id}", "move", location_id="")
    assert answer.status_code == 400
    assert "Choose a location" in answer.text


def test_refused_assets_are_listed_with_their_reasons(ed: Browser, site: Site, cast: Cast) -> None:
    answer = send(ed, "/bulk?q=", "change", field="valid_to", valid_to="2001-01-01T00:00")
    assert answer.status_code == 409
    assert "Nothing was changed: 2 assets cannot be changed." in answer.text
    assert answer.text.count("valid_to must be later than valid_from") == 2
    assert f"/assets/{site.cage.id}" in answer.text


def test_a_filter_that_matches_others_meanwhile_changes_nothing(ed: Browser, site: Site, cast: Cast) -> None:
    answer = ed.post("/bulk", {"action": "retire", "count": 1, "q": ""})
    assert answer.status_code == 409
    assert "now matches other assets" in answer.text
    assert "2 assets" in answer.text
    assert assets.get(cast.acme, site.pallet.id)


def test_too_many_assets_are_refused(ed: Browser, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.pages.records.bulk.MAX_ASSETS", 1)
    page = ed.get("/bulk").text
    assert "At most 1 assets can be changed at once" in page
    assert "Retire" not in page
    assert ed.post("/bulk", {"action": "retire", "count": 2}).status_code == 400


def test_assets_that_failed_are_listed_and_downloaded(ed: Browser, site: Site, cast: Cast) -> None:
    answer = send(ed, "/bulk", "retire")
    assets.delete(shell(cast.acme), site.cage.id)
    page = finished(ed, answer)
    assert "Done, except for some assets." in page
    assert "asset not found" in page
    rows = ed.get(f"{answer.location}/unchanged.csv").text.splitlines()
    assert rows == ["\ufeffexternal_key,name,reason", f"{site.cage.external_key},Roll cage,asset not found"]


def test_a_running_change_is_shown_and_can_be_stopped(ed: Browser, site: Site, cast: Cast) -> None:
    answer = send(ed, "/bulk", "retire")
    assert "Another change of many assets is running" in ed.get("/bulk").text
    again = ed.post("/bulk", {"action": "retire", "count": 2})
    assert again.status_code == 400
    assert "Another change or import is running" in again.text
    assert ed.get(f"{answer.location}/now").status_code == 200
    assert ed.post(f"{answer.location}/stop").status_code == 303
    slices.run_jobs(lambda _: False)
    assert "Ended early: stopped by" in ed.get(answer.location).text
    assert assets.get(cast.acme, site.pallet.id)


def test_jobs_of_other_organizations_are_unknown(ed: Browser, site: Site, cast: Cast, sign_in_as: SignIn) -> None:
    answer = send(ed, "/bulk", "retire")
    rita = sign_in_as(Role.EDITOR, organization_id=cast.rival)
    for path in ("", "/now", "/unchanged.csv"):
        assert rita.get(answer.location + path).status_code == 404
    assert rita.post(answer.location + "/stop").status_code == 404
    assert "No asset matches the filter." in rita.get(f"/bulk?asset={site.pallet.id}").text


def test_the_export_has_only_the_ticked_assets(ed: Browser, site: Site) -> None:
    text = ed.get(f"/export/board.csv?asset={site.cage.id}").text
    assert "Roll cage" in text
    assert "Pallet 1" not in text


def test_only_editors_get_the_buttons(ed: Browser, site: Site, sign_in_as: SignIn) -> None:
    operator = sign_in_as(Role.OPERATOR)
    for path, mark in (("/", 'href="/bulk?'), (f"/assets/{site.pallet.id}", f'href="/bulk?asset={site.pallet.id}"')):
        assert mark in ed.get(path).text
        assert mark not in operator.get(path).text
    assert "Attach tag" in ed.get(f"/assets/{site.pallet.id}").text


def test_a_retired_asset_is_chosen_only_among_retired_ones(site: Site, cast: Cast) -> None:
    assets.delete(shell(cast.acme), site.cage.id)
    ids = [site.pallet.id, site.cage.id]
    assert [row.asset_id for row in board.by_ids(cast.acme, ids)] == [site.pallet.id]
    assert [row.asset_id for row in board.by_ids(cast.acme, ids, are_retired=True)] == [site.cage.id]
