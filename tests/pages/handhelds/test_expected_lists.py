"""Expected lists on handhelds: started by the queue of a device, ticked off by its scans, signed off once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.expected_lists import expected_lists
from edge.people.people import Role
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]
PALLET, CAGE = "4006381333931", "E28011700000020A7B2C3D4E"


@pytest.fixture
def truck(cast: Cast, site: Site) -> int:
    list_id = expected_lists.create(shell(cast.acme), "Truck 12", [PALLET], location_id=site.dock.id)
    execute("UPDATE expected_list SET created_at = created_at - ?", (clock.HOUR,))
    return list_id


def send(browser: Browser, *items: dict[str, Any]) -> list[tuple[str, str]]:
    answer = browser.send("/scan/batch", {"items": [{"at": clock.now() // 1000, **item} for item in items]})
    return [(one["result"], one.get("reason", "")) for one in answer.json["results"]]  # type: ignore[index]


def start(list_id: object, ago: int = 0, no: int = 1) -> dict[str, Any]:
    return {"id": f"start-list-{no}", "act": "start_list", "list": list_id, "at": (clock.now() - ago) // 1000}


def state_of(browser: Browser, list_id: int) -> dict[str, Any]:
    state: dict[str, Any] = browser.get(f"/scan/expected-lists/{list_id}").json  # type: ignore[assignment]
    return state


def test_a_list_is_started_earlier_than_the_request_arrives(sign_in_as: SignIn, site: Site, truck: int) -> None:
    olga = sign_in_as(Role.OPERATOR)
    [listed] = olga.get("/scan/expected-lists").json["lists"]  # type: ignore[index]
    assert (listed["name"], listed["location"], listed["is_open"], listed["items"]) == (
        "Truck 12",
        site.dock.id,
        False,
        1,
    )
    ten_minutes = 600 * clock.SECOND
    scanned_at = (clock.now() - ten_minutes + clock.SECOND) // 1000
    scans = [
        {"id": f"swept-tag-{no}", "code": code, "location": site.dock.id, "at": scanned_at, "sweep": "swept"}
        for no, code in enumerate([PALLET, CAGE])
    ]
    assert send(olga, start(truck, ten_minutes), *scans) == [("done", ""), ("recorded", ""), ("recorded", "")]
    assert send(olga, start(truck)) == [("done", "")]  # again: it stays as it was
    state = state_of(olga, truck)
    assert (state["is_open"], state["ticked"], state["missing"]) == (True, [site.pallet.id], [])
    assert [one["name"] for one in state["surplus"]] == ["Roll cage"]


def test_a_list_does_not_start_before_it_was_created_or_in_the_future(
    sign_in_as: SignIn, cast: Cast, truck: int
) -> None:
    olga = sign_in_as(Role.OPERATOR)
    assert send(olga, start(truck, 3 * clock.HOUR)) == [("done", "")]
    one = expected_lists.find_list(cast.acme, truck)
    assert one.started_at == one.created_at
    with pytest.raises(expected_lists.Conflict):
        expected_lists.start(shell(cast.acme), truck, clock.now() + clock.HOUR)


def test_only_one_list_is_open_at_a_place(sign_in_as: SignIn, cast: Cast, site: Site, truck: int) -> None:
    other = expected_lists.create(shell(cast.acme), "Truck 13", [CAGE], location_id=site.dock.id)
    olga = sign_in_as(Role.OPERATOR)
    assert send(olga, start(truck), start(other, no=2), start("x", no=3), start(10**9, no=4)) == [
        ("done", ""),
        ("refused", "Another list is open at this place. Sign it off first"),
        ("refused", "This is no longer possible"),
        ("refused", "This is no longer possible"),
    ]


def test_what_is_on_the_screen_is_signed_once(sign_in_as: SignIn, site: Site, truck: int) -> None:
    olga = sign_in_as(Role.OPERATOR)
    path = f"/scan/expected-lists/{truck}/sign-off"
    version = state_of(olga, truck)["version"]
    assert olga.send(path, {"version": version}).status_code == 409  # not started
    send(olga, start(truck))
    version = state_of(olga, truck)["version"]
    send(olga, {"id": "scan-of-pallet", "code": PALLET, "location": site.dock.id})
    refused = olga.send(path, {"version": version})
    assert (refused.status_code, refused.json) == (
        409,
        {"error": "The list changed while you looked at it. Check it again."},
    )
    version = state_of(olga, truck)["version"]
    answers = [olga.send(path, {"version": version}) for _ in range(2)]  # the first answer was lost
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json == answers[1].json
    assert answers[0].json["ticked"] == [site.pallet.id]  # type: ignore[index]
    assert execute("SELECT count(*) FROM audit WHERE action = 'expected_list.signed_off'").fetchone() == (1,)
    assert olga.get("/scan/expected-lists").json == {"lists": []}


def test_nothing_of_another_organization(sign_in_as: SignIn, cast: Cast, truck: int) -> None:
    rival = sign_in_as(Role.OPERATOR, organization_id=cast.rival)
    assert rival.get("/scan/expected-lists").json == {"lists": []}
    assert rival.get(f"/scan/expected-lists/{truck}").status_code == 404
    assert rival.send(f"/scan/expected-lists/{truck}/sign-off", {"version": ""}).status_code == 404
    assert send(rival, start(truck)) == [("refused", "This is no longer possible")]
    viewer = sign_in_as(Role.VIEWER)
    assert viewer.get("/scan/expected-lists").status_code == 403


def holds(list_id: int, unsent: int, *, is_open: bool = True) -> list[dict[str, Any]]:
    return [{"list": list_id, "is_open": is_open, "unsent": unsent, "since": clock.now() // 1000 - 60_000}]


def report(browser: Browser, list_id: int, device: str, held: object, **more: object) -> dict[str, Any]:
    """Send the report of a device, and return the state with the reports of all devices."""
    answer = browser.send(f"/scan/expected-lists/{list_id}", {"device": device, "holds": held, **more})
    assert answer.status_code == 200, answer.text
    state: dict[str, Any] = answer.json  # type: ignore[assignment]
    return state


def test_devices_report_the_unsent_scans_of_a_list_and_are_asked_to_stop(
    sign_in_as: SignIn, site: Site, truck: int, cast: Cast
) -> None:
    """Regression: a list was signed off as missing an asset that another handheld had scanned and not sent yet."""
    olga, otto = sign_in_as(Role.OPERATOR), sign_in_as(Role.OPERATOR)
    send(olga, start(truck))
    report(otto, truck, "device-2", holds(truck, 2))
    state = report(olga, truck, "device-1", holds(truck, 0), asks=True)
    assert [row[2:4] for row in state["devices"]] == [[True, 0], [True, 2]]
    assert not state["is_asked"]
    assert report(otto, truck, "device-2", holds(truck, 2))["is_asked"]
    one = {"id": "scan-0001", "code": PALLET, "location": site.dock.id, "list": truck, "at": clock.now() // 1000}
    body = {
        "sent_at": clock.now() // 1000,
        "items": [one],
        "device": "device-2",
        "holds": holds(truck, 2, is_open=False),
    }
    otto.send("/scan/batch", body)
    state = report(olga, truck, "device-1", holds(truck, 0))
    assert [row[2:4] for row in state["devices"]] == [[True, 0], [False, 1]], "one of two has arrived"
    stranger = sign_in_as(Role.OPERATOR, organization_id=cast.rival)
    assert (
        stranger.send(f"/scan/expected-lists/{truck}", {"device": "device-3", "holds": holds(truck, 1)}).status_code
        == 404
    )
    wrong = [5, {"list": "x", "unsent": 1}, {"list": True, "unsent": 1}, {"stock_take": truck, "unsent": 1}]
    assert len(report(olga, truck, "device-4", wrong)["devices"]) == 2
    page = olga.get(f"/expected-lists/{truck}/sign-off").text
    assert "1 unsent scan," in page
    assert "may have unsent scans" in page
    answer = olga.send(f"/scan/expected-lists/{truck}/sign-off", {"version": state["version"], "device": "device-1"})
    assert answer.json["is_signed"]  # type: ignore[index]
    report(otto, truck, "device-2", holds(truck, 0))
    page = olga.get(f"/expected-lists/{truck}").text
    assert "Other devices at sign-off" in page
    assert "1 unsent scan," in page, "what was said later does not change the report"
    assert page.count("reported ") == 1, "not the device that signed off"


def test_a_deleted_list_takes_the_reports_of_devices_with_it(sign_in_as: SignIn, truck: int) -> None:
    browser = sign_in_as(Role.EDITOR)
    assert len(report(browser, truck, "device-1", holds(truck, 1))["devices"]) == 1
    assert browser.post(f"/expected-lists/{truck}/remove").status_code == 303
    assert execute("SELECT count(*) FROM expected_list_device").fetchone() == (0,)
