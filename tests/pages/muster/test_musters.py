"""Pages of musters: plan, start, follow, tick, end, report; who may; drills; the banner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute
from edge.muster import musters
from edge.pages.kept_values import KeptValues
from edge.pages.muster import musters as muster_pages
from edge.people.people import Role
from edge.tracking import tracked_people
from tests.conftest import Cast
from tests.muster.hall import SETTING, Hall
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]


@pytest.fixture
def hall(cast: Cast) -> Hall:
    return Hall(cast.acme)


@pytest.fixture(autouse=True)
def _nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request sees what was recorded before."""
    monkeypatch.setattr(muster_pages, "_shared", KeptValues(-1.0, 1))


def test_many_devices_share_what_the_first_one_asked_for(
    sign_in_as: SignIn, hall: Hall, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 5,000 people a look takes 29 ms of processor time, and each device looks every two seconds."""
    monkeypatch.setattr(muster_pages, "_shared", KeptValues(3600.0, 1))
    muster_id, asked, real = hall.start(), [], musters.find_state
    monkeypatch.setattr(musters, "find_state", lambda *given: asked.append(given) or real(*given))
    wardens = [sign_in_as(Role.OPERATOR) for _ in range(5)]
    path = f"/musters/{muster_id}/now"
    assert {warden.get(path).headers["ETag"] for warden in wardens for _ in range(10)} != {""}
    assert asked == [(cast.acme, muster_id)]
    assert sign_in_as(Role.OPERATOR, organization_id=cast.rival).get(path).status_code == 404
    wardens[0].post(f"/musters/{muster_id}/people/{hall.people[1]}/tick")
    assert "<b>2</b> missing" in wardens[0].get(f"/musters/{muster_id}").text  # who ticks sees it at once
    assert "<b>3</b> missing" in wardens[1].get(path).text
    muster_pages._shared.clear()
    assert "<b>2</b> missing" in wardens[1].get(path).text


def test_from_the_plan_to_the_report(sign_in_as: SignIn, hall: Hall) -> None:
    editor, warden = sign_in_as(Role.EDITOR), sign_in_as(Role.OPERATOR)
    form: dict[str, object] = {"name": "Office", "points": str(hall.yard), "chosen": "all", "once": "plan"}
    assert editor.post("/musters/plans/new", {**form, "chosen": "key"}).status_code == 400
    assert editor.post("/musters/plans/new", form).status_code == 303
    (plan,) = execute("SELECT id FROM muster_plan WHERE name = 'Office'").fetchone()
    assert "Office" in warden.get("/musters").text
    assert warden.get(f"/musters/plans/{plan}").status_code == 403
    hall.read(0, hall.hall, -60)
    answer = warden.post(f"/musters/plans/{plan}/start")
    path = answer.headers["Location"]
    assert warden.post(f"/musters/plans/{plan}/start").headers["Location"] == path  # a second warden, or a second tap
    live = warden.get(f"{path}/now")
    assert "<b>3</b> missing" in live.text
    assert "Hall, <time" in live.text
    assert warden.get(f"{path}/now", headers={"If-None-Match": live.headers["ETag"]}).status_code == 304
    hall.began = clock.now()
    hall.read(0, hall.yard, 5)
    live = warden.get(f"{path}/now", headers={"If-None-Match": live.headers["ETag"]})
    assert "<b>2</b> missing" in live.text
    person = f"{path}/people/{hall.people[1]}"
    assert "Worker 1 is here and safe" in warden.get(person).text
    answer = warden.post(f"{person}/tick")
    page = warden.get(answer.headers["Location"]).text
    assert "Worker 1 is marked as safe." in page
    assert f'action="{person}/untick"' in page
    assert "<b>1</b> missing" in page
    end = warden.get(f"{path}/end").text
    version = end.split('name="version" value="')[1].split('"')[0]
    warden.post(f"{person}/untick")
    assert warden.post(f"{path}/end", {"version": version}).status_code == 409
    version = warden.get(f"{path}/end").text.split('name="version" value="')[1].split('"')[0]
    assert warden.post(f"{path}/end", {"version": version, "note": "Roll call done"}).status_code == 303
    report = warden.get(path).text
    assert "Roll call done" in report
    assert "data-live=" not in report
    table = warden.get(f"{path}.csv").text.splitlines()
    assert len(table) == 4
    assert table[1].startswith("safe,PERSON-0,Worker 0,point,Yard,")
    assert "Office" in warden.get("/musters").text.split("Reports")[1]


def test_roles_of_the_setting(sign_in_as: SignIn, hall: Hall) -> None:
    muster = f"/musters/{hall.start()}"
    viewer, operator, editor = (sign_in_as(role) for role in (Role.VIEWER, Role.OPERATOR, Role.EDITOR))
    assert viewer.get(muster).status_code == 403
    assert operator.get(muster).status_code == 200
    assert f'href="{muster}"' in operator.get("/").text
    assert f'href="{muster}"' not in viewer.get("/").text
    tracked_people.save(shell(hall.organization_id), SETTING._replace(muster_by=Role.EDITOR))
    paths = (muster, f"{muster}/now", f"{muster}.csv", f"{muster}/end", f"{muster}/people/{hall.people[0]}", "/musters")
    for path in paths:
        assert operator.get(path).status_code == 403, path
        assert editor.get(path).status_code == 200, path
    for path in (f"{muster}/end", f"{muster}/people/{hall.people[0]}/tick", f"/musters/plans/{hall.plan}/start"):
        assert operator.post(path).status_code == 403, path
    assert f'href="{muster}"' not in operator.get("/").text


def test_a_drill_is_marked_everywhere(sign_in_as: SignIn, hall: Hall) -> None:
    warden = sign_in_as(Role.OPERATOR)
    path = warden.post(f"/musters/plans/{hall.plan}/start", {"drill": "1"}).headers["Location"]
    assert "This is a drill" in warden.get(path).text
    assert "This is a drill" in warden.get(f"{path}/people/{hall.people[0]}").text
    for page in (f"{path}/end", "/"):
        assert "DRILL: Hall" in warden.get(page).text, page
    hall.end(int(path.rsplit("/", 1)[1]))
    assert "This is a drill" in warden.get(path).text
    assert "DRILL: Hall" in warden.get("/musters").text


def test_offline_readers_points_without_one_and_a_clock_set_back(
    sign_in_as: SignIn, hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall.add_reader(hall.yard, "Yard reader", heard_at=clock.now(), is_offline=True)
    path = f"/musters/{hall.start()}"
    warden = sign_in_as(Role.OPERATOR)
    page = warden.get(path).text
    assert "Yard reader: <b>offline</b>" in page
    assert "No reader here." in page
    assert "was set back" not in page
    execute("UPDATE muster SET started_at = started_at + ?", (3600 * SECOND,))
    assert "was set back" in warden.get(f"{path}/now").text


def test_many_people_are_shown_in_part_and_found_by_name(
    sign_in_as: SignIn, hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(muster_pages, "MOST_SHOWN", 1)
    path = f"/musters/{hall.start()}"
    warden = sign_in_as(Role.OPERATOR)
    assert "2 more. Search for a name." in warden.get(path).text
    found = warden.get(f"{path}?q=worker+2").text
    assert "Worker 2" in found
    assert "Worker 0" not in found
    assert "<b>3</b> missing" in found  # the counts are of all
    assert f'data-live="{path}/now?q=worker%202"' in found
    assert "Worker 2" in warden.get(f"{path}?all=1").text


def test_the_list_says_what_is_not_set_up(sign_in_as: SignIn, cast: Cast) -> None:
    assert "An administrator has to say" in sign_in_as(Role.OPERATOR).get("/musters").text
    assert "/people/positions" in sign_in_as(Role.ADMINISTRATOR).get("/musters").text
