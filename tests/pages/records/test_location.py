"""The page of a location, and the tree of all locations."""

from __future__ import annotations

import re

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.people.people import Role
from edge.records import locations
from edge.tracking import flows, location_board
from tests.conftest import Cast
from tests.pages.conftest import SignIn, Site, see


def test_a_location_shows_its_assets_arrivals_and_departures(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    now = clock.now()
    see(cast.acme, site.cage.id, site.dock.id, now - 2 * clock.DAY)
    see(cast.acme, site.cage.id, site.rack.id, now - 3 * clock.SECOND)
    see(cast.acme, site.pallet.id, site.dock.id, now - 2 * clock.SECOND)
    see(cast.acme, site.pallet.id, site.dock.id, now - 1 * clock.SECOND)
    result = [
        (row.came, row.asset_name, row.other_name) for row in flows.passages(cast.acme, site.dock.id, now - clock.HOUR)
    ]
    assert result == [(True, "Pallet 1", None), (False, "Roll cage", "Rack A")]
    text = sign_in_as(Role.VIEWER).get(f"/locations/{site.dock.id}").text
    assert "Pallet 1" in text
    assert "left for Rack A" in text or clock.to_datetime(now).hour == 0


def test_the_tree_counts_sub_locations(cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    see(cast.acme, site.pallet.id, site.hall.id, clock.now())
    tree = [(row.name, row.depth, row.here, row.below) for row in location_board.tree(cast.acme)]
    assert tree == [("Hall 1", 0, 1, 2), ("Dock 1", 1, 0, 0), ("Rack A", 1, 1, 1)]


def test_a_large_tree_is_shown_closed_and_can_be_searched(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    for number in range(80):
        locations.create(shell(cast.acme), name=f"Shelf {number}", parent_id=site.rack.id)
    browser = sign_in_as(Role.VIEWER)
    assert browser.get("/locations").text.split("<main")[1].count(" hidden>") == 82
    result = browser.get("/locations?q=shelf+7").text
    assert result.count("data-branch=") == 11
    assert "in Rack A" in result
    assert " hidden>" not in result.split("<main")[1]
    assert "No matches" in browser.get("/locations?q=%00nowhere").text


@pytest.mark.parametrize(
    ("show", "names"),
    [
        ("", "Hall 1,Dock 1,Rack A,Spare"),
        ("occupied", "Rack A"),
        ("vacant", "Dock 1,Spare"),
        ("inactive", "Spare"),
        ("vacant&q=dock", "Dock 1"),
        ("nonsense", "Hall 1,Dock 1,Rack A,Spare"),
    ],
)
def test_the_tree_is_filtered(sign_in_as: SignIn, cast: Cast, site: Site, show: str, names: str) -> None:
    locations.create(shell(cast.acme), name="Spare", is_active=False)
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    page = sign_in_as(Role.VIEWER).get(f"/locations?show={show}").text
    rows = page[page.index("<tbody>") :]
    assert re.findall(r'href="/locations/\d+">([^<]+)<', rows) == names.split(",")


def test_a_deep_tree_is_shown(sign_in_as: SignIn, cast: Cast) -> None:
    parent_id = None
    for number in range(300):
        parent_id = locations.create(shell(cast.acme), name=f"Level {number}", parent_id=parent_id).id
    browser = sign_in_as(Role.EDITOR)
    assert "Level 299" in browser.get("/locations").text
    assert browser.get(f"/locations/{parent_id}").status_code == 200


def test_the_pages_are_in_the_language_of_the_browser(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.EDITOR)
    french = {"Accept-Language": "fr"}
    page = browser.get("/locations", headers=french).text
    assert "<h1>Emplacements</h1>" in page
    assert "3 emplacements</span>" in page
    assert '<main id="main" lang="fr"' in page
    assert "Aucun objet ici." in browser.get(f"/locations/{site.dock.id}", headers=french).text
