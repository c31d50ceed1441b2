"""The board, assets and locations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.store import assets, board, location_board, locations, scans
from edge.store.actors import shell
from edge.store.board import BoardFilter
from edge.store.database import database
from edge.store.parents import UNSET, Parent
from edge.store.people import Role
from edge.store.stays import Quality, Scan
from edge.store.tags import NewTag
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]
GAP = 300 * clock.SECOND


def see(organization_id: int, asset_id: int, location_id: int, at: int) -> None:
    scans.record([Scan(organization_id, asset_id, location_id, None, None, at, at, Quality.HANDHELD)], GAP)


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


@pytest.mark.parametrize("path", ["/", "/past", "/readers/new", "/event-destinations/new", "/locations/new", "/plans"])
def test_a_location_to_choose_stands_below_the_one_it_is_in(sign_in_as: SignIn, site: Site, path: str) -> None:
    """Indented by what browsers leave in an option: they drop blanks."""
    text = sign_in_as(Role.ADMINISTRATOR).get(path).text
    assert f">{site.hall.name}</option>" in text
    assert f">\u2003{site.dock.name}</option>" in text


def test_how_long_ago_is_told_only_where_it_matters(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.pallet.id, site.rack.id, clock.now() - 2 * clock.HOUR)
    see(cast.acme, site.cage.id, site.dock.id, clock.now() - 60 * clock.SECOND)
    text = sign_in_as(Role.VIEWER).get("/").text
    assert "data-unseen>2 h</time>" in text
    assert "data-unseen></time>" in text


def test_the_pages_of_an_asset_and_a_location_are_followed(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now() - 60 * clock.SECOND)
    browser = sign_in_as(Role.VIEWER)
    for path in (f"/assets/{site.cage.id}", f"/locations/{site.dock.id}"):
        first = browser.get(f"{path}/now")
        assert first.text.strip() in browser.get(path).text
        assert browser.get(f"{path}/now", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
        see(cast.acme, site.cage.id, site.dock.id, clock.now())
        assert browser.get(f"{path}/now", headers={"If-None-Match": first.headers["ETag"]}).status_code == 200
        see(cast.acme, site.cage.id, site.rack.id, clock.now())


@pytest.mark.parametrize("q", ["roll", "ASSET-0002", "e28011700000020a7b2c3d4e"])
def test_the_search_finds_names_keys_and_tags(sign_in_as: SignIn, site: Site, q: str) -> None:
    text = sign_in_as(Role.VIEWER).get("/", query_string={"q": q}).text
    assert "Roll cage" in text
    assert "Pallet 1" not in text


@pytest.mark.parametrize("q", ["%", "_", "\\"])
def test_the_search_takes_wildcards_literally(cast: Cast, site: Site, q: str) -> None:
    assert board.board(cast.acme, BoardFilter(q=q), limit=10).total_count == 0


def test_a_location_includes_everything_below_it(cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    found = {location.name: board.board(cast.acme, BoardFilter(location_id=location.id), limit=10).total_count
             for location in (site.hall, site.rack, site.dock)}  # fmt: skip
    assert found == {"Hall 1": 1, "Rack A": 1, "Dock 1": 0}


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


def test_the_page_and_what_follows_it_are_the_same_rows(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
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


def test_history_tells_who_saw_it_and_leads_to_older_rows(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    start = clock.now() - clock.DAY
    for number in range(60):
        see(cast.acme, site.cage.id, (site.rack if number % 2 else site.dock).id, start + number * clock.SECOND)
    browser = sign_in_as(Role.VIEWER)
    first = browser.get(f"/assets/{site.cage.id}").text
    assert first.count('class="dot') == 50
    older = first.split("?before=")[1].split('"')[0]
    assert browser.get(f"/assets/{site.cage.id}?before={older}").text.count('class="dot') == 10


def test_a_location_tells_what_is_here_and_what_arrived_and_left(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    now = clock.now()
    see(cast.acme, site.cage.id, site.dock.id, now - 2 * clock.DAY)
    see(cast.acme, site.cage.id, site.rack.id, now - 3 * clock.SECOND)
    see(cast.acme, site.pallet.id, site.dock.id, now - 2 * clock.SECOND)
    see(cast.acme, site.pallet.id, site.dock.id, now - 1 * clock.SECOND)
    found = [
        (row.came, row.asset_name, row.other_name)
        for row in location_board.passages(cast.acme, site.dock.id, now - clock.HOUR)
    ]
    assert found == [(True, "Pallet 1", None), (False, "Roll cage", "Rack A")]
    text = sign_in_as(Role.VIEWER).get(f"/locations/{site.dock.id}").text
    assert "Pallet 1" in text
    assert "left for Rack A" in text or clock.to_datetime(now).hour == 0


def test_the_tree_counts_what_is_below(cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    see(cast.acme, site.pallet.id, site.hall.id, clock.now())
    tree = [(row.name, row.depth, row.here, row.below) for row in location_board.tree(cast.acme)]
    assert tree == [("Hall 1", 0, 1, 2), ("Dock 1", 1, 0, 0), ("Rack A", 1, 1, 1)]


def test_a_large_tree_is_shown_closed_and_can_be_searched(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    for number in range(80):
        locations.create(shell(cast.acme), name=f"Shelf {number}", parent=Parent(site.rack.id, UNSET))
    browser = sign_in_as(Role.VIEWER)
    assert browser.get("/locations").text.count(" hidden>") == 82
    found = browser.get("/locations?q=shelf+7").text
    assert found.count("data-branch=") == 11
    assert "in Rack A" in found
    assert " hidden>" not in found
    assert "Nothing found" in browser.get("/locations?q=%00nowhere").text


def test_a_deep_tree_is_shown(sign_in_as: SignIn, cast: Cast) -> None:
    parent = Parent(None, UNSET)
    for number in range(300):
        parent = Parent(locations.create(shell(cast.acme), name=f"Level {number}", parent=parent).id, UNSET)
    browser = sign_in_as(Role.EDITOR)
    assert "Level 299" in browser.get("/locations").text
    assert browser.get(f"/locations/{parent.id}").status_code == 200


def test_a_label_is_a_picture_of_the_link(sign_in_as: SignIn, site: Site) -> None:
    text = sign_in_as(Role.VIEWER).get(f"/assets/{site.pallet.id}/label").text
    assert "<svg" in text
    assert f"http://localhost/a/{site.pallet.external_key}" in text


def test_a_labels_link_opens_the_page(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.VIEWER)
    assert browser.get(f"/a/{site.pallet.external_key}").location == f"/assets/{site.pallet.id}"
    assert browser.get("/l/DOCK-1").location == f"/locations/{site.dock.id}"
    assert browser.get("/l/dock-1").status_code == 404


class TestEditing:
    def test_an_asset_is_made_with_its_tag(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        browser = sign_in_as(Role.EDITOR)
        entered = {"name": "New one", "is_active": "on", "tag_type": "barcode", "tag_value": "4711"}
        made = browser.post("/assets/new", entered)
        asset = assets.get(cast.acme, int(made.location.split("?")[0].rsplit("/", 1)[1]))
        assert (asset.name, asset.external_key, [tag.value for tag in asset.tags]) == (
            "New one",
            "ASSET-0003",
            ["4711"],
        )

    @pytest.mark.parametrize(
        ("entered", "fault"),
        [
            ({"name": ""}, "name must"),
            ({"name": "ok", "external_key": "not ok"}, "external_key"),
            ({"name": "ok", "external_key": "ASSET-0001"}, "already exists"),
            ({"name": "ok", "tag_type": "barcode", "tag_value": "4006381333931"}, "already exists"),
            ({"name": "ok", "tag_type": "smell", "tag_value": "x"}, "tag_type"),
        ],
    )
    def test_the_rules_are_those_of_the_api(
        self, sign_in_as: SignIn, cast: Cast, site: Site, entered: dict[str, str], fault: str
    ) -> None:
        answer = sign_in_as(Role.EDITOR).post("/assets/new", entered)
        assert answer.status_code == 400
        assert fault in answer.text
        assert board.board(cast.acme, BoardFilter(), limit=10).total_count == 2

    def test_an_asset_is_changed_and_renamed_together_or_not_at_all(
        self, sign_in_as: SignIn, cast: Cast, site: Site
    ) -> None:
        browser, path = sign_in_as(Role.EDITOR), f"/assets/{site.pallet.id}/edit"
        entered = {"name": "Changed", "description": "two\r\nlines", "external_key": "ASSET-0002"}
        entered["updated_at"] = str(site.pallet.updated_at)
        assert browser.post(path, entered).status_code == 400
        assert assets.get(cast.acme, site.pallet.id).name == "Pallet 1"
        assert browser.post(path, {**entered, "external_key": "P-1"}).status_code == 303
        asset = assets.get(cast.acme, site.pallet.id)
        found = (asset.name, asset.description, asset.external_key, bool(asset.is_active))
        assert found == ("Changed", "two\nlines", "P-1", False)

    def test_a_retired_asset_is_gone_and_its_tag_free(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        browser = sign_in_as(Role.EDITOR)
        assert browser.post(f"/assets/{site.pallet.id}/retire").status_code == 303
        assert "retired" in browser.get(f"/assets/{site.pallet.id}").text
        assert "Pallet 1" not in browser.get("/").text
        assert "Pallet 1" in browser.get("/?show=retired&q=pallet").text
        assert browser.get(f"/assets/{site.pallet.id}/edit").status_code == 404
        entered = {"tag_type": "barcode", "value": "4006381333931"}
        assert browser.post(f"/assets/{site.cage.id}/tags", entered).status_code == 303

    def test_a_location_with_something_at_it_is_not_retired(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        see(cast.acme, site.cage.id, site.rack.id, clock.now())
        browser = sign_in_as(Role.EDITOR)
        assert "placed at it" in browser.post(f"/locations/{site.rack.id}/retire").text
        assert "descendant" in browser.post(f"/locations/{site.hall.id}/retire").text
        assert browser.post(f"/locations/{site.dock.id}/retire").status_code == 303

    def test_a_location_cannot_be_put_into_itself(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        browser, path = sign_in_as(Role.EDITOR), f"/locations/{site.hall.id}/edit"
        assert f'<option value="{site.rack.id}"' not in browser.get(path).text
        entered = {"name": "Hall 1", "external_key": "HALL-1", "parent_id": site.rack.id}
        entered["updated_at"] = site.hall.updated_at
        answer = browser.post(path, entered)
        assert answer.status_code == 400
        assert "ycle" in answer.text


def test_the_board_asks_the_database_a_fixed_number_of_times(
    cast: Cast, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert "To the first position" not in browser.get("/").text


def test_the_steps_offer_only_what_the_role_may(sign_in_as: SignIn) -> None:
    text = sign_in_as(Role.VIEWER).get("/").text
    assert "To the first position" in text
    assert "/locations/new" not in text
    assert "Connect a reader" not in text
