"""Home: figures of the last 24 hours, who sees what, links to lists, and people."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.pages.tracking import home
from edge.pages.walls import screen
from edge.people.people import Role
from edge.readers import unassigned_topics
from edge.readers.unassigned_topics import Unassigned
from edge.records import assets, locations
from edge.tracking import flows, tracked_people
from edge.walls import walls
from edge.walls.walls import NewWall, Shows
from tests.conftest import Cast
from tests.muster.hall import SETTING
from tests.pages.conftest import Browser, Site, see

SignIn = Callable[..., Browser]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    home.forget()
    screen._kept.clear()


def test_areas_now_and_yesterday_follow_from_moves(cast: Cast, site: Site) -> None:
    now = clock.now()
    yard = locations.create(shell(cast.acme), name="Yard").id
    see(cast.acme, site.pallet.id, site.dock.id, now - 3 * clock.DAY)  # moved within the hall since
    see(cast.acme, site.pallet.id, site.rack.id, now - 2 * clock.HOUR)
    see(cast.acme, site.cage.id, yard, now - 2 * clock.DAY)
    see(cast.acme, site.cage.id, site.dock.id, now - 3 * clock.HOUR)
    crate = assets.create(shell(cast.acme), name="Crate").id
    see(cast.acme, crate, yard, now - clock.HOUR)  # for the first time
    day = home.day_of(cast.acme)
    assert {one.name: tuple(one)[2:] for one in day.areas} == {"Hall 1": (2, 1, 1, 0), "Yard": (1, 1, 1, 1)}
    assert (day.moves, sum(up for up, _ in day.by_hour), day.is_of_doors) == (3, 3, False)
    assert home.day_of(cast.rival).moves == 0


def test_yesterday_does_not_change_with_moves_that_are_not_counted_yet(cast: Cast, site: Site) -> None:
    """Regression: it was counted back from now by moves of up to 30 s ago, and could be below zero."""
    yard = locations.create(shell(cast.acme), name="Yard").id
    now = clock.now()
    see(cast.acme, site.cage.id, site.dock.id, now - clock.HOUR)
    before = {one.name: one.before for one in home.day_of(cast.acme).areas}
    see(cast.acme, site.cage.id, yard, now)
    areas = home.day_of(cast.acme).areas
    assert {one.name: one.before for one in areas} == before == {"Hall 1": 0, "Yard": 0}
    assert {one.name: one.here for one in areas} == {"Hall 1": 0, "Yard": 1}


def test_a_single_location_at_the_top_is_divided(cast: Cast, site: Site) -> None:
    see(cast.acme, site.pallet.id, site.dock.id, clock.now())
    assert {one.name: one.here for one in home.day_of(cast.acme).areas} == {"Dock 1": 1, "Rack A": 0}


def test_moves_are_kept_for_some_seconds(cast: Cast, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = flows.moves_since
    monkeypatch.setattr(flows, "moves_since", lambda *of: asked.append(1) or read(*of))
    for _ in range(3):
        home.day_of(cast.acme)
    assert len(asked) == 1


def test_every_number_leads_to_its_list(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast.acme, site.pallet.id, site.dock.id, clock.now() - 2 * clock.DAY)
    unassigned_topics.record([Unassigned("new/topic", clock.now(), b"{}")])
    boss, viewer = sign_in_as(Role.ADMINISTRATOR), sign_in_as(Role.VIEWER)
    page = boss.get("/home").text
    assert '<a href="/readers/topics"><b class="number">1</b> Topics without a reader' in page
    assert '<b class="number">2</b> Assets not seen for 1 day' in page
    links = {part.split('"')[0].replace("&amp;", "&") for part in page.split("<main")[1].split('href="')[1:]}
    for link in links - {"#main"}:
        assert boss.get(link).status_code == 200, link
    page = viewer.get("/home").text
    assert "/readers" not in page.split("<main")[1]
    for link in {part.split('"')[0].replace("&amp;", "&") for part in page.split("<main")[1].split('href="')[1:]}:
        assert viewer.get(link).status_code == 200, link
    first = viewer.get("/home/now")
    assert viewer.get("/home/now", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304


def test_people_do_not_count_for_roles_that_do_not_see_them(sign_in_as: SignIn, anybody: Browser, cast: Cast) -> None:
    dock = locations.create(shell(cast.acme), name="Dock").id
    ann = assets.create(shell(cast.acme), name="Ann", external_key="PERSON-1").id
    tracked_people.save(shell(cast.acme), SETTING)
    see(cast.acme, ann, dock, clock.now())
    wall = walls.add(shell(cast.acme), NewWall("Office", Shows.OVERVIEW))[1]
    for text in (sign_in_as(Role.EDITOR).get("/home").text, anybody.get(f"/w/{wall}").text):
        assert "Ann" not in text
    editor = sign_in_as(Role.EDITOR).get("/home").text
    assert 'Moves: <b class="number">0</b>' in editor
    assert 'Moves: <b class="number">1</b>' in sign_in_as(Role.ADMINISTRATOR).get("/home").text
    assert '<b class="count">0</b>' in anybody.get(f"/w/{wall}/now").text
