"""Lists of all locations on pages: names are cut and indentation ends, because a site can have 100,000 locations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import memory_budget
from edge.audit.actors import shell
from edge.memory_budget import Budget
from edge.people.people import Role
from edge.records import locations
from edge.records.tags import NewTag
from edge.tracking import location_board
from tests.conftest import Cast
from tests.pages.conftest import Browser

PAGES = (
    "/",
    "/past",
    "/rules/new",
    "/expected-lists/new",
    "/doors",
    "/musters/plans/new",
    "/readers/new",
    "/event-destinations/new",
    "/labels/printer",
    "/locations/new",
    "/plans",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_choice_of_locations_has_short_names(cast: Cast, sign_in_as: Callable[..., Browser], path: str) -> None:
    """Regression: three pages of one person took all memory at a site with long names, and one with a deep tree did."""
    parent = None
    for level in range(12):
        parent = locations.create(shell(cast.acme), name=f"Level {level} {'x' * 200}", parent_id=parent).id
    if path == "/labels/printer":
        printer = {"address": "192.168.1.9", "paper": "roll-102x51", "dots_per_mm": "8"}
        assert sign_in_as(Role.ADMINISTRATOR).post(path, printer).status_code == 303
    page = sign_in_as(Role.ADMINISTRATOR).get(path).text
    options = [line.partition("</option>")[0] for line in page.split("<option") if "Level 11" in line]
    assert all("x" * 100 not in one and "\u2003" * 9 not in one for one in options)
    assert options


@pytest.mark.parametrize("path", [*PAGES, "/home", "/locations", "/scan/locations"])
def test_lists_of_all_locations_count_as_memory(
    cast: Cast, sign_in_as: Callable[..., Browser], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Regression: one page of one person took all memory at a site with long names and keys in another script."""
    for number in range(100):
        locations.create(
            shell(cast.acme), name=f"{number}" + "\U0001f4a9" * 200, external_key="\U0001f4a9" * 200 + f"{number}"
        )
    browser = sign_in_as(Role.ADMINISTRATOR)
    whole = browser.get(path)
    assert whole.status_code in (200, 303)
    assert memory_budget.WORK.used == 0
    monkeypatch.setattr(memory_budget, "WORK", Budget(60_000 + memory_budget.SMALL))
    monkeypatch.setattr(memory_budget, "SMALL", 1_000)
    assert browser.get(path).status_code == 503
    assert memory_budget.WORK.used == 0


def test_names_are_shorter_at_a_site_with_very_many_locations(
    cast: Cast, sign_in_as: Callable[..., Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location_board, "LARGE", 1)
    for number in range(2):
        locations.create(shell(cast.acme), name=f"{number} <" + "x" * 200)
    page = sign_in_as(Role.VIEWER).get("/").text
    assert f"0 &lt;{'x' * 26}…</option>" in page


def test_a_handheld_has_all_locations(cast: Cast, sign_in_as: Callable[..., Browser]) -> None:
    for number in range(100):
        locations.create(shell(cast.acme), name=f"{number} " + "x" * 200, tags=[NewTag("barcode", f"RACK-{number}")])
    operator = sign_in_as(Role.OPERATOR)
    whole = operator.get("/scan/locations")
    assert len(whole.json or ()) == 100
    assert operator.get("/scan/locations", headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
