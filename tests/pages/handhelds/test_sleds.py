"""Sleds on pages: who carries one, choices of a location from the scan page, and how near an asset is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.operations import stats
from edge.people import people
from edge.people.people import Role
from edge.readers import readers, sled_scans, sleds, status
from edge.readers.readers import ReaderRow
from edge.readers.sled_owners import Owner
from edge.readers.sled_scans import SledRead
from edge.tracking import tracked_people
from edge.tracking.tracked_people import PeopleSetting
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


@pytest.fixture
def reader(cast: Cast) -> ReaderRow:
    return readers.add_reader(shell(cast.acme), name="RFD40", topic="sled/1", format="zebra_sled")


def choose(browser: Browser, location_id: object, number: int = 1, **more: object) -> str:
    item = {"id": f"item-number-{number}", "act": "location", "choice": f"choice-{number}", "location": location_id}
    answer: Any = browser.send("/scan/batch", {"items": [item | {"at": clock.now() // 1000} | more]}).json
    return str(answer["results"][0]["result"])


def choices() -> list[int | None]:
    return [row[0] for row in execute("SELECT location_id FROM location_choice ORDER BY received_at, id")]


def read(reader: ReaderRow, asset_id: int, rssi: float = -55) -> None:
    now = clock.now()
    (person_id,) = execute("SELECT person_id FROM sled_assignment").fetchone()
    with writing():
        one = SledRead(reader.organization_id, reader.id, asset_id, "E280", now, now, rssi)
        sled_scans.record(one, Owner(0, person_id, None), 0)


def test_only_administrators_say_who_carries_a_sled(sign_in_as: SignIn, cast: Cast, reader: ReaderRow) -> None:
    admin, operator, editor = (sign_in_as(role) for role in (Role.ADMINISTRATOR, Role.OPERATOR, Role.EDITOR))
    olga = next(one for one in people.list_people(cast.acme) if one.role == Role.OPERATOR)
    viewer = people.add_person(shell(cast.acme), "Vic", Role.VIEWER)
    stranger = people.add_person(shell(cast.rival), "Bob", Role.OPERATOR)
    path, choice = f"/readers/{reader.id}/sled", {"operator": f"person-{olga.id}"}
    assert [one.post(path, choice).status_code for one in (operator, editor)] == [403, 403]
    for wrong in (f"person-{viewer.id}", f"person-{stranger.id}", "device-1", "person-x", "x-1"):
        assert admin.post(path, {"operator": wrong}).status_code == 400, wrong
    assert admin.post(path, choice).status_code == 303
    page = admin.get(f"/readers/{reader.id}").text
    assert "not chosen" in page
    assert "by its operator" in page
    assert f'value="person-{olga.id}" selected' in page
    assert "Carried by" not in editor.get(f"/readers/{reader.id}").text
    assert admin.post(path, {"operator": ""}).status_code == 303
    rows = execute("SELECT detail FROM audit WHERE action = 'sled.assigned' ORDER BY no").fetchall()
    assert [olga.name in row[0] for row in rows] == [True, True]


def test_a_sled_assigned_while_the_clock_was_ahead_can_be_passed_on(
    cast: Cast, reader: ReaderRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = shell(cast.acme)
    first, second = (people.add_person(by, name, Role.OPERATOR).id for name in ("Olga", "Otto"))
    now = clock.now()
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: now + clock.DAY)
        sleds.assign(by, reader.id, person_id=first)
    sleds.assign(by, reader.id, person_id=second)
    assert sleds.sleds_of(cast.acme, second, None) == [reader.id]
    assert sleds.sleds_of(cast.acme, first, None) == []


def test_a_sled_passed_on_while_the_clock_was_ahead_can_be_given_back(
    cast: Cast, reader: ReaderRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = shell(cast.acme)
    first, second = (people.add_person(by, name, Role.OPERATOR).id for name in ("Olga", "Otto"))
    sleds.assign(by, reader.id, person_id=first)
    now = clock.now()
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: now + clock.DAY)
        sleds.assign(by, reader.id, person_id=second)
    assert sleds.sleds_of(cast.acme, second, None) == [reader.id]
    sleds.assign(by, reader.id, person_id=first)
    assert sleds.sleds_of(cast.acme, first, None) == [reader.id]
    assert sleds.sleds_of(cast.acme, second, None) == []


def test_choices_of_the_scan_page_follow_the_operator(
    sign_in_as: SignIn, cast: Cast, site: Site, reader: ReaderRow
) -> None:
    admin, operator, other = (sign_in_as(role) for role in (Role.ADMINISTRATOR, Role.OPERATOR, Role.OPERATOR))
    olga = next(one for one in people.list_people(cast.acme) if one.role == Role.OPERATOR)
    assert operator.get("/scan/state").json["sled"] is False  # type: ignore[index]
    admin.post(f"/readers/{reader.id}/sled", {"operator": f"person-{olga.id}"})
    assert operator.get("/scan/state").json["sled"] is True  # type: ignore[index]
    assert choose(operator, site.dock.id) == choose(operator, site.dock.id) == "done"
    assert choose(other, site.rack.id, 2) == "done"
    assert choices() == [site.dock.id]
    assert choose(operator, None, 3) == "done"
    assert choose(operator, site.rack.id, 3) == "done"  # somebody said which location was meant
    assert choices() == [site.dock.id, site.rack.id]
    assert choose(operator, "x", 4) == choose(operator, site.rack.id, 5, choice="../x") == "refused"
    read(reader, site.cage.id)
    page = admin.get(f"/readers/{reader.id}").text
    assert "Rack A, chosen by" in page
    assert operator.post("/sign-out").status_code == 303
    assert choices()[-1] is None
    assert admin.post(f"/readers/{reader.id}/sled/undo", {"minutes": "15"}).status_code == 303
    assert execute("SELECT undone_at IS NOT NULL FROM handheld_scan").fetchall() == [(1,)]


def test_a_sled_needs_no_location_but_an_operator_who_may_scan(
    sign_in_as: SignIn, cast: Cast, site: Site, reader: ReaderRow
) -> None:
    sign_in_as(Role.OPERATOR)
    olga = next(one for one in people.list_people(cast.acme) if one.role == Role.OPERATOR)
    status.record_antennas({(reader.id, 0): clock.now()})
    assert (status.list_states(cast.acme)[0].unplaced, len(stats.unplaced_antennas(0))) == (1, 1)
    sleds.assign(shell(cast.acme), reader.id, person_id=olga.id)
    assert (status.list_states(cast.acme)[0].unplaced, stats.unplaced_antennas(0)) == (0, [])
    assert stats.sleds_without_operator() == []
    people.disable_person(shell(cast.acme), olga.id)
    assert stats.sleds_without_operator() == ["RFD40"]


def test_only_who_carries_a_sled_learns_how_near_an_asset_is(
    sign_in_as: SignIn, cast: Cast, site: Site, reader: ReaderRow
) -> None:
    admin, operator, other = (sign_in_as(role) for role in (Role.ADMINISTRATOR, Role.OPERATOR, Role.OPERATOR))
    olga = next(one for one in people.list_people(cast.acme) if one.role == Role.OPERATOR)
    admin.post(f"/readers/{reader.id}/sled", {"operator": f"person-{olga.id}"})
    read(reader, site.cage.id)
    near: Any = operator.get(f"/scan/near/{site.cage.id}").json
    assert near["rssi"] == -55
    assert other.get(f"/scan/near/{site.cage.id}").json == {}
    assert operator.get(f"/scan/near/{site.pallet.id}").json == {}
    assert sign_in_as(Role.OPERATOR, organization_id=cast.rival).get(f"/scan/near/{site.cage.id}").status_code == 404
    tracked_people.save(shell(cast.acme), PeopleSetting(key_prefix=site.cage.external_key))
    assert operator.get(f"/scan/near/{site.cage.id}").json == {}
