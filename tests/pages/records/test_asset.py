"""The page of an asset: location, history, label and search."""

from __future__ import annotations

from flask import Flask

from edge import clock
from edge.people.people import Role
from tests.application import change
from tests.conftest import Cast
from tests.pages.conftest import SignIn, Site, see


def test_matching_assets_are_suggested(sign_in_as: SignIn, site: Site) -> None:
    viewer = sign_in_as(Role.VIEWER)
    assert viewer.get("/assets/suggested?q=cage").json == {"assets": [["ASSET-0002", "Roll cage"]]}
    assert viewer.get("/assets/suggested?q=%00").json == {"assets": []}


def test_the_pages_of_an_asset_and_a_location_refresh(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now() - 60 * clock.SECOND)
    browser = sign_in_as(Role.VIEWER)
    for path in (f"/assets/{site.cage.id}", f"/locations/{site.dock.id}"):
        first = browser.get(f"{path}/now")
        assert first.text.strip() in browser.get(path).text
        assert browser.get(f"{path}/now", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
        see(cast.acme, site.cage.id, site.dock.id, clock.now())
        assert browser.get(f"{path}/now", headers={"If-None-Match": first.headers["ETag"]}).status_code == 200
        see(cast.acme, site.cage.id, site.rack.id, clock.now())


def test_the_place_of_an_asset_is_not_called_a_time(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.cage.id, site.rack.id, clock.now())
    german = sign_in_as(Role.VIEWER).get(f"/assets/{site.cage.id}", headers={"Accept-Language": "de"}).text
    where = german[german.index('class="card where"') :]
    assert where[: where.index("</a>")].count("Aktueller Lagerplatz") == 1


def test_history_shows_readers_and_links_to_older_rows(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    start = clock.now() - clock.DAY
    for number in range(60):
        see(cast.acme, site.cage.id, (site.rack if number % 2 else site.dock).id, start + number * clock.SECOND)
    browser = sign_in_as(Role.VIEWER)
    first = browser.get(f"/assets/{site.cage.id}").text
    assert first.count('class="dot') == 50
    older = first.split("?before=")[1].split('"')[0]
    assert browser.get(f"/assets/{site.cage.id}?before={older}").text.count('class="dot') == 10


def test_a_label_is_a_picture_of_the_link(sign_in_as: SignIn, app: Flask, site: Site) -> None:
    change(app, http_public_url="https://edge-hall7.local")
    text = sign_in_as(Role.VIEWER).get(f"/assets/{site.pallet.id}/label").text
    assert "<svg" in text
    assert f"https://edge-hall7.local/a/{site.pallet.external_key}" in text


def test_a_labels_link_opens_the_page(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.VIEWER)
    assert browser.get(f"/a/{site.pallet.external_key}").location == f"/assets/{site.pallet.id}"
    assert browser.get("/l/DOCK-1").location == f"/locations/{site.dock.id}"
    assert browser.get("/l/dock-1").status_code == 404
