"""Pages of walls: the link shown once, what a screen shows without a session, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.doors import doors
from edge.expected_lists import expected_lists
from edge.muster import musters
from edge.pages.kept_values import KeptValues
from edge.pages.walls import screen
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from edge.rules import rules, states
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from edge.rules.states import Occurrence
from edge.tracking import floor_plans, tracked_people
from edge.walls import walls
from edge.walls.walls import NewWall, Shows
from tests.application import change
from tests.conftest import Cast
from tests.muster.hall import SETTING, Hall
from tests.pages.conftest import Browser, Site, see

SignIn = Callable[..., Browser]


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "_kept", KeptValues(0, 1))


def add(organization_id: int, shows: Shows = Shows.ALERTS, **of: int) -> str:
    """Add a wall and return its path."""
    return f"/w/{walls.add(shell(organization_id), NewWall('Dispatch', shows, **of))[1]}"


def alert(organization_id: int, asset_id: int, name: str) -> None:
    rule_no = rules.add_rule(shell(organization_id), RuleFields(f"Gone {name}", Condition.UNSEEN, span=clock.HOUR))
    rule = rules.get(organization_id, rule_no)
    assert states.fire(rule, Occurrence(f"{asset_id}:1", asset_id, name, name, clock.now()))


def test_an_administrator_makes_a_link_that_is_shown_once(admin: Browser, anybody: Browser, cast: Cast) -> None:
    form: dict[str, object] = {"name": "Dispatch", "shows": "alerts", "language": "de", "once": "wall"}
    assert admin.post("/walls", {**form, "name": "", "once": "x"}).status_code == 400
    page = admin.post("/walls", form).text
    link = page.split('<output id="link">')[1].split("</output>")[0]
    code = link.rpartition("/w/")[2]
    assert code not in admin.get("/walls").text
    (wall,) = walls.list_walls(cast.acme)
    assert "Dispatch" in admin.get(f"/walls/{wall.id}").text
    shown = anybody.get(f"/w/{code}")
    assert shown.status_code == 200
    assert '<html lang="de"' in shown.text
    renewed = admin.post(f"/walls/{wall.id}/renew", {"once": "again"}).text
    assert anybody.get(f"/w/{code}").status_code == 404
    code = renewed.split('<output id="link">')[1].split("</output>")[0].rpartition("/w/")[2]
    assert anybody.get(f"/w/{code}").status_code == 200
    assert admin.post(f"/walls/{wall.id}/revoke").status_code == 303
    assert anybody.get(f"/w/{code}").status_code == 404
    assert anybody.get(f"/w/{code}/now").status_code == 404


def test_a_screen_leaks_neither_its_address_nor_other_pages(
    anybody: Browser, admin: Browser, site: Site, cast: Cast
) -> None:
    path = add(cast.acme)
    for answer in (anybody.get(path), anybody.get(f"{path}/now"), anybody.get(f"{path}x")):
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "noindex" in answer.headers["X-Robots-Tag"]
        assert "Set-Cookie" not in answer.headers
    assert 'href="/' not in anybody.get(path).text.replace('href="/static/', "")
    for method in ("post", "put", "delete", "patch"):
        assert getattr(anybody.client, method)(path).status_code in (403, 405), method
    assert anybody.get("/").status_code == 303  # the link signs nobody in
    assert anybody.get(f"{path}/plan").status_code == 404
    # The session of an administrator in the same browser shows nothing more.
    assert admin.get(f"{path}/now").text == anybody.get(f"{path}/now").text


def test_a_wall_shows_alerts_of_its_organization_only(anybody: Browser, site: Site, cast: Cast) -> None:
    path, other = add(cast.acme), add(cast.rival)
    alert(cast.acme, site.pallet.id, site.pallet.name)
    assert "Pallet 1 has not been seen" in anybody.get(f"{path}/now").text
    assert "Pallet 1" not in anybody.get(f"{other}/now").text


def test_unchanged_content_is_not_sent_again(anybody: Browser, cast: Cast) -> None:
    path = add(cast.acme)
    first = anybody.get(f"{path}/now")
    assert anybody.get(f"{path}/now", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304


def test_each_view_shows_its_subject(anybody: Browser, site: Site, cast: Cast) -> None:
    by = shell(cast.acme)
    door = doors.add_door(by, "Gate 4")
    floor_plans.set_image(by, site.hall.id, b"<svg/>", "image/svg+xml", (400, 300))
    floor_plans.save_shapes(
        by, site.hall.id, {site.dock.id: [(0, 0), (9, 0), (9, 9)]}, floor_plans.list_plans(cast.acme)[0].updated_at
    )
    see(cast.acme, site.pallet.id, site.dock.id, clock.now())
    gate = add(cast.acme, Shows.DOOR, door_id=door)
    assert "Nothing has passed yet" in anybody.get(gate).text
    plan = add(cast.acme, Shows.PLAN, location_id=site.hall.id)
    assert f'href="{plan.replace("-", "")}/plan?v=' in anybody.get(plan).text
    assert "Dock 1" in anybody.get(plan).text
    assert anybody.get(f"{plan}/plan").data == b"<svg/>"
    number = expected_lists.create(by, "Truck 7", [site.pallet.external_key], location_id=site.rack.id)
    expected_lists.start(by, number)
    listed = anybody.get(add(cast.acme, Shows.LISTS)).text
    assert "Truck 7" in listed
    assert "Pallet 1" in listed
    doors.remove_door(by, door)
    floor_plans.remove_plan(by, site.hall.id)
    assert "This door was removed" in anybody.get(gate).text
    assert "This floor plan was removed" in anybody.get(plan).text
    assert anybody.get(f"{plan}/plan").status_code == 404


def test_people_are_shown_only_if_the_setting_says_so(anybody: Browser, cast: Cast) -> None:
    hall = Hall(cast.acme)
    hall.read(0, hall.hall, -60)
    floor_plans.set_image(shell(cast.acme), hall.hall, b"<svg/>", "image/svg+xml", (400, 300))
    opened = floor_plans.list_plans(cast.acme)[0].updated_at
    floor_plans.save_shapes(shell(cast.acme), hall.hall, {hall.hall: [(0, 0), (9, 0), (9, 9)]}, opened)
    alert(cast.acme, hall.people[0], "Worker 0")
    musters.start(hall.olga, hall.plan, is_drill=False)
    walls_of = {shows: add(cast.acme, shows) for shows in (Shows.MUSTER, Shows.ALERTS)}
    walls_of[Shows.PLAN] = add(cast.acme, Shows.PLAN, location_id=hall.hall)
    for path in walls_of.values():
        text = anybody.get(f"{path}/now").text
        assert "<b>3</b> missing" in text
        assert "Worker" not in text
    assert 'class="spot vacant"' in anybody.get(f"{walls_of[Shows.PLAN]}/now").text
    tracked_people.save(shell(cast.acme), SETTING._replace(is_on_walls=True))
    assert "Worker 0" in anybody.get(f"{walls_of[Shows.MUSTER]}/now").text
    assert "Worker 0 has not been seen" in anybody.get(f"{walls_of[Shows.ALERTS]}/now").text
    assert 'class="spot vacant"' not in anybody.get(f"{walls_of[Shows.PLAN]}/now").text


def test_too_many_requests_with_one_link_are_refused_and_the_page_asks_again(
    anybody: Browser, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = add(cast.acme)
    monkeypatch.setattr(screen, "_requests", screen.Buckets(burst=1, per_second=0.001))
    assert anybody.get(path).status_code == 200
    refused = anybody.get(path)
    assert refused.status_code == 429
    assert refused.headers["Refresh"]
    assert refused.headers["Referrer-Policy"] == "no-referrer"
    assert anybody.get("/w/unknown").headers["Refresh"]


def test_an_upgrade_changes_the_build_of_the_content(anybody: Browser, cast: Cast) -> None:
    path = add(cast.acme)
    change(anybody.client.application, version="9.9")
    assert 'data-build="9.9"' in anybody.get(f"{path}/now").text


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_walls_are_for_administrators(sign_in_as: SignIn, role: Role) -> None:
    assert sign_in_as(role).get("/walls").status_code == 403


def test_many_screens_with_one_link_cost_as_much_as_one(
    anybody: Browser, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "_kept", KeptValues(60, 100))
    asked: list[int] = []
    read = screen._values
    monkeypatch.setattr(screen, "_values", lambda wall: asked.append(1) or read(wall))
    path, other = add(cast.acme), add(cast.acme)
    assert anybody.get(f"{path}/now").text in anybody.get(path).text
    anybody.get(f"/w/{path[3:].upper().replace('-', ' -')}")  # another spelling is no other screen
    assert len(asked) == 1
    anybody.get(f"{other}/now")
    assert len(asked) == 2
    (wall, _) = walls.list_walls(cast.acme)
    walls.revoke(shell(cast.acme), wall.id)
    assert sorted(anybody.get(f"{one}/now").status_code for one in (path, other)) == [200, 404]


def test_errors_of_the_form_are_in_the_language_of_the_page(admin: Browser) -> None:
    admin.client.set_cookie("edge_language", "de")
    form: dict[str, object] = {"name": "Tor", "shows": "door", "once": "x", "door_id": "99"}
    answer = admin.client.post(
        "/walls", data={"csrf": csrf_token(admin.token), **form}, headers={"Accept-Language": "de"}
    )
    assert "Dieses Tor gibt es nicht mehr" in answer.text
