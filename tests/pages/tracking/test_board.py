"""The board: current locations, sorted, filtered, searched and updated."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import database
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import board
from edge.tracking.board import BoardFilter
from tests.conftest import Cast
from tests.pages.conftest import SignIn, Site, see


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", "Pallet 1 Roll cage apple"),
        ("name", "apple Pallet 1 Roll cage"),
        ("-name", "Roll cage Pallet 1 apple"),
        ("key", "Pallet 1 Roll cage apple"),
        ("location", "Roll cage Pallet 1 apple"),
        ("-location", "Pallet 1 Roll cage apple"),
        ("seen", "Pallet 1 Roll cage apple"),
        ("-seen", "Roll cage Pallet 1 apple"),
        ("since", "Pallet 1 Roll cage apple"),
        ("nonsense", "Pallet 1 Roll cage apple"),
    ],
)
def test_the_board_is_sorted_by_any_column_and_the_never_seen_come_last(
    sign_in_as: SignIn, cast: Cast, site: Site, sort: str, order: str
) -> None:
    assets.create(shell(cast.acme), name="apple")
    see(cast.acme, site.pallet.id, site.rack.id, clock.now() - clock.HOUR)
    see(cast.acme, site.cage.id, site.dock.id, clock.now())
    text = sign_in_as(Role.VIEWER).get(f"/?sort={sort}").text
    names = sorted(("apple", "Pallet 1", "Roll cage"), key=lambda name: text.index(f">{name}</a>"))
    assert " ".join(names) == order
    assert "never seen" in text


def test_the_board_is_in_the_language_of_the_person(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.pallet.id, site.rack.id, clock.now())
    viewer = sign_in_as(Role.VIEWER)
    viewer.send("/language", {"language": "de"})
    page = viewer.get("/?unseen=8&q=Pallet&sort=-name").text
    for text in (
        "Nach Objekt, umgekehrt",
        "Filter: Suche nach „Pallet“, 8 Stunden lang nicht gesehen",
        "Nicht gesehen seit",
    ):
        assert text in page
    assert "<span>8 Stunden lang nicht gesehen</span>" in viewer.get("/not-seen").text


@pytest.mark.parametrize("path", ["/", "/past", "/readers/new", "/event-destinations/new", "/locations/new", "/plans"])
def test_the_choice_of_locations_is_indented_as_a_tree(sign_in_as: SignIn, site: Site, path: str) -> None:
    """Browsers drop leading blanks in options, so other characters indent them."""
    text = sign_in_as(Role.ADMINISTRATOR).get(path).text
    assert f">{site.hall.name}</option>" in text
    assert f">\u2003{site.dock.name}</option>" in text


def test_a_deep_tree_is_indented_by_a_few_levels(sign_in_as: SignIn, cast: Cast) -> None:
    """Regression: a site of a hub with a chain of 3,000 locations made every page with a choice of them 5 MB large."""
    parent_id = None
    for level in range(12):
        made = locations.create(shell(cast.acme), name=f"Level {level}", external_key=f"L-{level}", parent_id=parent_id)
        parent_id = made.id
    text = sign_in_as(Role.VIEWER).get("/").text
    assert f">{chr(0x2003) * 8}Level 11</option>" in text


def test_the_age_is_shown_only_for_old_reads(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.pallet.id, site.rack.id, clock.now() - 2 * clock.HOUR)
    see(cast.acme, site.cage.id, site.dock.id, clock.now() - 60 * clock.SECOND)
    text = sign_in_as(Role.VIEWER).get("/").text
    assert "data-unseen>2 h</time>" in text
    assert "data-unseen></time>" in text


@pytest.mark.parametrize("q", ["roll", "ASSET-0002", "e28011700000020a7b2c3d4e"])
def test_the_search_finds_names_keys_and_tags(sign_in_as: SignIn, site: Site, q: str) -> None:
    text = sign_in_as(Role.VIEWER).get("/", query_string={"q": q}).text
    assert "Roll cage" in text
    assert "Pallet 1" not in text


@pytest.mark.parametrize("q", ["%", "_", "\\"])
def test_the_search_takes_wildcards_literally(cast: Cast, site: Site, q: str) -> None:
    assert board.board(cast.acme, BoardFilter(q=q), limit=10).total_count == 0


def test_a_location_includes_its_sub_locations(cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    counts = {location.name: board.board(cast.acme, BoardFilter(location_id=location.id), limit=10).total_count
             for location in (site.hall, site.rack, site.dock)}  # fmt: skip
    assert counts == {"Hall 1": 1, "Rack A": 1, "Dock 1": 0}


def test_not_seen_for_hours_finds_the_never_seen_too(cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now() - 2 * clock.HOUR)
    assert board.board(cast.acme, BoardFilter(unseen_hours=1), limit=10).total_count == 2
    assert board.board(cast.acme, BoardFilter(unseen_hours=3), limit=10).total_count == 1


def test_following_costs_nothing_while_nothing_changes(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.VIEWER)
    first = browser.get("/board/rows")
    again = browser.get("/board/rows", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    fresh = browser.get("/board/rows", headers={"If-None-Match": first.headers["ETag"]})
    assert fresh.status_code == 200
    assert "Rack A" in fresh.text


def test_the_page_and_its_updates_have_the_same_rows(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.VIEWER)
    assert browser.get("/board/rows").text.strip() in browser.get("/").text


@pytest.mark.parametrize(
    "query",
    [
        *("location=x", "unseen=-1", "offset=-5", "offset=99999999999999", "q=" + "a" * 999, "unseen=1e9"),
        *("location=" + "9" * 30, "location=" + "9" * 5000, "q=abc%00def", "q=%00", "q=%ff%fe%22%27"),
    ],
)
def test_an_odd_address_is_no_fault(sign_in_as: SignIn, site: Site, query: str) -> None:
    assert sign_in_as(Role.VIEWER).get(f"/?{query}").status_code == 200


def test_an_asset_called_script_is_only_a_name(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    name = "<script>alert(1)</script>"
    asset = assets.create(shell(cast.acme), name=name, description='"><img src=x onerror=alert(1)>')
    location = locations.create(shell(cast.acme), name=name)
    see(cast.acme, asset.id, location.id, clock.now())
    browser = sign_in_as(Role.ADMINISTRATOR)
    for path in (
        "/",
        f"/assets/{asset.id}",
        f"/assets/{asset.id}/edit",
        f"/assets/{asset.id}/label",
        f"/locations/{location.id}",
        f"/locations/{location.id}/edit",
        "/locations",
        "/locations/new",
        f"/?q={name}",
    ):
        text = browser.get(path).text
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
        assert "&lt;script&gt;" in text, path


def test_the_board_needs_a_fixed_number_of_queries(cast: Cast, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = database.execute_sql
    monkeypatch.setattr(database, "execute_sql", lambda *a, **k: asked.append(a) or real(*a, **k))
    for number in range(20):
        assets.create(shell(cast.acme), name=f"A {number}")
    asked.clear()
    board.board(cast.acme, BoardFilter(q="A"), limit=50)
    assert len(asked) <= 4


def test_a_new_site_is_led_to_its_first_position(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert browser.get("/").text.count('class="pill ok">done') == 0
    location = locations.create(shell(cast.acme), name="Dock")
    assert browser.get("/board/steps").text.count('class="pill ok">done') == 1
    asset = assets.create(shell(cast.acme), name="Pallet", tags=[NewTag("barcode", "1")])
    steps = browser.get("/board/steps").text
    assert steps.count('class="pill ok">done') == 2
    assert 'href="/readers">Connect a reader' in steps
    see(cast.acme, asset.id, location.id, clock.now())
    assert "First steps" not in browser.get("/").text


def test_the_steps_offer_only_permitted_actions(sign_in_as: SignIn) -> None:
    text = sign_in_as(Role.VIEWER).get("/").text
    assert "First steps" in text
    assert "/locations/new" not in text
    assert "Connect a reader" not in text


def test_a_filter_that_finds_nothing_is_not_taken_for_a_new_site(sign_in_as: SignIn, site: Site) -> None:
    text = sign_in_as(Role.VIEWER).get(f"/?location={site.dock.id}").text
    assert "No matches" in text
    assert "No assets yet" not in text
