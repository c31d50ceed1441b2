"""Pages of doors: setup by an administrator, passages live, reasons, CSV; nothing for another organization."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from edge.audit.actors import shell
from edge.audit.trail import recent
from edge.database.connection import execute, writing
from edge.doors import doors
from edge.doors.passage_rule import Side
from edge.pages.doors import doors as door_pages
from edge.people.people import Role
from edge.readers import readers
from tests.conftest import Cast
from tests.doors.site import Gate, passing
from tests.pages.conftest import Browser


@pytest.fixture
def admin(sign_in_as: Callable[..., Browser]) -> Browser:
    return sign_in_as(Role.ADMINISTRATOR)


@pytest.fixture
def gate(cast: Cast) -> Gate:
    return Gate(cast.acme)


def test_an_administrator_sets_up_a_door(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="dock4", topic="site/dock4", format="csl").id
    assert "No doors yet" in admin.get("/doors").text
    answer = admin.post("/doors", {"name": "Dock 4", "location_id": "", "once": "a"})
    assert answer.status_code == 303
    (door,) = doors.list_doors(cast.acme)
    form: dict[str, object] = {
        "name": "Dock 4 north",
        "location_id": "",
        "inner_reader": [str(reader), ""],
        "inner_port": ["1", ""],
        "outer_reader": [str(reader)],
        "outer_port": ["2"],
    }
    assert admin.post(f"/doors/{door.id}/edit", form).status_code == 303
    assert [(one.side, one.label) for one in doors.antennas_of(cast.acme, door.id)] == [
        (Side.INNER, "dock4 / 1"),
        (Side.OUTER, "dock4 / 2"),
    ]
    page = admin.get(f"/doors/{door.id}").text
    assert "Dock 4 north" in page
    assert "inside" in page
    assert 'value="2"' in admin.get(f"/doors/{door.id}/edit").text
    assert {line.action for line in recent(cast.acme, 9)} >= {"door.created", "door.changed"}
    outer_only = {**form, "inner_reader": [], "inner_port": [], "outer_port": ["1"]}
    assert admin.post(f"/doors/{door.id}/edit", outer_only).status_code == 303
    assert recent(cast.acme, 1)[0].detail["antennas"] == {
        "old": ["inner dock4 / 1", "outer dock4 / 2"],
        "new": ["outer dock4 / 1"],
    }
    assert admin.post(f"/doors/{door.id}/remove").status_code == 303
    assert admin.get(f"/doors/{door.id}").status_code == 404


def test_a_taken_name_and_an_antenna_on_both_sides_are_refused(admin: Browser, gate: Gate) -> None:
    answer = admin.post("/doors", {"name": "gate", "once": "b"})
    assert answer.status_code == 409
    assert "another door has this name" in answer.text.lower()
    reader = str(gate.reader)
    form: dict[str, object] = {
        "inner_reader": reader,
        "inner_port": "1",
        "outer_reader": reader,
        "outer_port": "1",
        "name": "Gate",
    }
    answer = admin.post(f"/doors/{gate.door}/edit", form)
    assert answer.status_code == 400
    assert "one side of a door only" in answer.text
    assert len(doors.antennas_of(gate.organization_id, gate.door)) == 2


def test_doors_and_their_errors_are_in_the_language_of_the_person(
    admin: Browser, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.send("/language", {"language": "de"})
    answer = admin.post("/doors", {"name": "gate", "once": "b"})
    assert "Ein anderes Tor hat diesen Namen." in answer.text
    assert '<main id="main" lang="de"' in answer.text
    monkeypatch.setattr(doors, "MOST_ANTENNAS", 0)
    form: dict[str, object] = {"name": "Gate", "inner_reader": str(gate.reader), "inner_port": "1"}
    answer = admin.post(f"/doors/{gate.door}/edit", form)
    assert "Eine Seite kann höchstens 0 Antennen haben" in answer.text


def test_a_fragment_is_new_in_another_language(admin: Browser, gate: Gate) -> None:
    address = f"/doors/{gate.door}/now"
    version = admin.get(address).headers["ETag"]
    assert admin.get(address, headers={"If-None-Match": version}).status_code == 304
    admin.send("/language", {"language": "de"})
    answer = admin.get(address, headers={"If-None-Match": version})
    assert answer.status_code == 200
    assert "Noch kein Durchgang." in answer.text


def test_a_viewer_sees_who_left_and_why(sign_in_as: Callable[..., Browser], gate: Gate) -> None:
    gate.receive(passing(3000, asset=0) + passing(3100, asset=1, is_out=False))
    viewer = sign_in_as(Role.VIEWER)
    page = viewer.get(f"/doors/{gate.door}").text
    assert "Pallet 0" in page
    assert "Turned back" not in page
    live = viewer.get(f"/doors/{gate.door}/now")
    assert viewer.get(f"/doors/{gate.door}/now", headers={"If-None-Match": live.headers["ETag"]}).status_code == 304
    assert "Gate" in viewer.get(f"/assets/{gate.assets[0]}").text
    assert "Gate" in viewer.get(f"/assets/{gate.assets[0]}/why").text
    (no,) = execute("SELECT no FROM passage WHERE asset_id = ?", (gate.assets[0],)).fetchone()
    why = viewer.get(f"/passages/{no}").text
    assert "Reads behind it" in why
    assert why.count("dBm") > 20
    lines = viewer.get("/export/passages.csv").text.removeprefix("\ufeff").splitlines()
    assert lines[0].startswith("asset_key,asset,door,direction,time")
    assert [line.split(",")[1:4] for line in lines[1:]] == [["Pallet 0", "Gate", "out"], ["Pallet 1", "Gate", "in"]]
    assert viewer.get(f"/doors/{gate.door}/edit").status_code == 403


def test_another_organization_sees_and_changes_nothing(
    cast: Cast, sign_in_as: Callable[..., Browser], gate: Gate
) -> None:
    rival = Gate(cast.rival, topic="rival/gate")
    rival.receive(passing(3000))
    (no,) = execute("SELECT ifnull(max(no), 0) FROM passage").fetchone()
    admin = sign_in_as(Role.ADMINISTRATOR)
    for path in (f"/doors/{rival.door}", f"/doors/{rival.door}/edit", f"/passages/{no}"):
        assert admin.get(path).status_code == 404
    assert admin.post(f"/doors/{rival.door}/remove").status_code == 404
    answer = admin.post(f"/doors/{gate.door}/edit", {"name": "Gate", "inner_reader": str(rival.reader)})
    assert answer.status_code == 400


def test_older_passages_of_one_moment_are_all_shown(
    admin: Browser, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may end between two passages of the same microsecond."""
    monkeypatch.setattr(door_pages, "SHOWN", 2)
    gate.receive(passing(3000))
    for _ in range(6):
        with writing():
            columns = [row[1] for row in execute("PRAGMA table_info(passage)") if row[1] != "no"]
            names = ", ".join(columns)
            execute(f"INSERT INTO passage ({names}) SELECT {names} FROM passage ORDER BY no LIMIT 1")
    path, shown = f"/doors/{gate.door}", []
    while path:
        page = admin.get(path).text
        shown += re.findall(r"/passages/(\d+)", page)
        older = re.search(r'href="(/doors/\d+\?before=\d+)"', page)
        path = older[1] if older else ""
    assert shown == [str(no) for (no,) in execute("SELECT no FROM passage ORDER BY at DESC, no DESC")]
