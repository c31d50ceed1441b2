"""Stock-takes as sent by devices: stored until sign-off, exactly once, with the result at that time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from edge import clock
from edge.audit import quotas
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.handhelds import device_reports
from edge.people import devices
from edge.people.people import Role
from edge.rate_limits import Buckets
from edge.readers import readers
from edge.records import assets, locations
from edge.tracking import board, positions
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.observed import scans_by_people
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]
TAKE = "stock-take-1"
PALLET, CAGE = "4006381333931", "E28011700000020A7B2C3D4E"


def send(browser: Browser, *items: dict[str, Any]) -> list[dict[str, Any]]:
    answer = browser.send("/scan/batch", {"sent_at": clock.now() // 1000, "items": list(items)})
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json["results"]  # type: ignore[index]
    return results


def begin(site: Site, *expected: int, below: bool = True) -> dict[str, Any]:
    return {
        "id": TAKE,
        "act": "begin",
        "at": clock.now() // 1000,
        "location": site.hall.id,
        "with_sublocations": below,
        "expected": list(expected),
    }


def scanned(number: int, code: str, location_id: int) -> dict[str, Any]:
    at = clock.now() // 1000
    return {"id": f"take-scan-{number}", "code": code, "location": location_id, "at": at, "stock_take": TAKE}


FINISH = {"id": "finish-of-take", "act": "finish", "stock_take": TAKE, "at": 1}


def see(cast: Cast, asset_id: int, location_id: int, at: int) -> None:
    positions.record([Scan(cast.acme, asset_id, location_id, None, None, at, at, Quality.HANDHELD)], 0)


def read(cast: Cast, asset_id: int, location_id: int, at: int) -> None:
    """Record a read by a fixed reader."""
    reader = readers.add_reader(shell(cast.acme), name="gate", topic="site/gate", format="csl", location_id=location_id)
    positions.record([Scan(cast.acme, asset_id, location_id, reader.id, None, at, at, Quality.READER)], 0)


def location_of(cast: Cast, asset_id: int) -> str | None:
    row = board.whereabouts(cast.acme, asset_id)
    return row.location_name if row else None


def results(browser: Browser) -> dict[str, tuple[str, str]]:
    """Return (result, how) by name or code, from the CSV file."""
    text = browser.get(f"/stock-takes/{TAKE}.csv").data.decode("utf-8-sig")
    return {row["name"] or row["code"]: (row["result"], row["seen_by"]) for row in csv.DictReader(io.StringIO(text))}


def test_nothing_is_recorded_before_somebody_signs_off(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    hour_ago = clock.now() - clock.HOUR
    see(cast, site.cage.id, site.rack.id, hour_ago)
    answers = send(
        browser, begin(site, site.cage.id), scanned(1, PALLET, site.dock.id), scanned(2, "NEW", site.dock.id)
    )
    assert [one["result"] for one in answers] == ["done", "counted", "counted"]
    assert answers[1]["asset"]["name"] == "Pallet 1"
    assert location_of(cast, site.pallet.id) is None
    assert scans_by_people() == 0
    assert execute("SELECT count(*) FROM unknown_tag").fetchone() == (0,)

    assert send(browser, FINISH)[0]["result"] == "done"
    assert location_of(cast, site.pallet.id) == "Dock 1"
    assert results(browser) == {
        "Pallet 1": ("elsewhere", "scan"),
        "Roll cage": ("missing", ""),
        "NEW": ("unknown", "scan"),
    }
    assert execute("SELECT value FROM unknown_tag").fetchall() == [("NEW",)]
    page = browser.get(f"/stock-takes/{TAKE}").text
    assert "last seen at Rack A" in page
    newest = execute("SELECT action FROM audit WHERE organization_id = ? ORDER BY no DESC", (cast.acme,)).fetchone()
    assert newest == ("stock_take.signed_off",)


def test_a_device_gets_an_error_for_too_many_stock_takes_and_continues(
    sign_in_as: SignIn, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "CAPS", {"stock_take": quotas.CAPS["stock_take"]._replace(limit=0)})
    olga = sign_in_as(Role.OPERATOR)
    refused, scan = send(olga, begin(site), scanned(1, PALLET, site.hall.id))
    assert (refused["result"], refused["reason"][:24]) == ("refused", "At most 0 are allowed (s")
    assert scan["result"] == "recorded"


def test_a_device_over_its_quota_keeps_scans_for_later(
    sign_in_as: SignIn, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "_of_caller", Buckets(1_000, 1))
    olga = sign_in_as(Role.OPERATOR)
    items = [scanned(number, PALLET, site.hall.id) for number in range(3)]
    answer = olga.send("/scan/batch", {"items": items})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 1
    assert answer.json == {"error": "Too many additions in a short time. Try again later"}
    stored = execute("SELECT id FROM handheld_scan ORDER BY id").fetchall()  # in short transactions before the refusal
    assert len(stored) < len(items)
    monkeypatch.setattr(quotas, "_of_caller", Buckets(1_000_000, 1))
    assert [row["result"] for row in send(olga, *items)] == ["recorded", "again", "again"]
    assert scans_by_people() == len(items)


def test_every_repeat_changes_nothing(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    items = [begin(site, site.pallet.id), scanned(1, PALLET, site.dock.id)]
    send(browser, *items, *items)
    send(browser, FINISH, FINISH)
    send(browser, *items, FINISH)
    assert scans_by_people() == 1
    assert execute("SELECT count(*) FROM history").fetchone() == (1,)
    assert results(browser) == {"Pallet 1": ("here", "scan")}


def test_reads_during_the_count_are_included_and_marked(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    hour_ago = clock.now() - clock.HOUR
    see(cast, site.cage.id, site.rack.id, hour_ago)
    see(cast, site.pallet.id, site.rack.id, hour_ago)
    send(browser, begin(site, site.cage.id, site.pallet.id))
    read(cast, site.cage.id, site.dock.id, clock.now() + 1)
    progress = browser.get(f"/scan/stock-takes/{TAKE}").json
    seen = [(row[0], row[1], row[3]) for row in progress["seen"]]  # type: ignore[index]
    assert seen == [(site.cage.id, site.dock.id, False)]
    send(browser, FINISH)
    assert results(browser) == {"Roll cage": ("here", "reader"), "Pallet 1": ("missing", "")}


def test_a_scan_outside_of_the_stock_take_is_not_attributed_to_a_reader(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site, site.cage.id))
    see(cast, site.cage.id, site.dock.id, clock.now() + 1)
    progress = browser.get(f"/scan/stock-takes/{TAKE}").json
    assert [row[3] for row in progress["seen"]] == [True]  # type: ignore[index]
    send(browser, FINISH)
    assert results(browser) == {"Roll cage": ("here", "person")}
    page = browser.get(f"/stock-takes/{TAKE}").text
    assert ("scanned outside the stock-take" in page, "seen by a reader" in page) == (True, False)


def test_the_signed_result_is_stored_regardless_of_later_arrivals(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    """Another device's scans were not on the screen yet; ids of other organizations and invalid values are ignored."""
    browser, other = sign_in_as(Role.OPERATOR), sign_in_as(Role.OPERATOR)
    theirs = assets.create(shell(cast.rival), name="Theirs")
    send(browser, begin(site, site.pallet.id, site.cage.id))
    send(other, scanned(1, PALLET, site.dock.id), scanned(2, "NEW", site.dock.id))
    see(cast, site.cage.id, site.dock.id, clock.now() + 1)
    missing = [[site.pallet.id, ""], [theirs.id, ""], ["x", ""], [1, "guess"], 5]
    lines = {
        "missing": missing,
        "here": [[site.cage.id, "scan"]],
        "unknown": ["OLD", 7],
        "elsewhere": None,
        "more": [1],
    }
    assert send(browser, {**FINISH, "lines": lines})[0]["result"] == "done"
    assert results(browser) == {"Pallet 1": ("missing", ""), "Roll cage": ("here", "scan"), "OLD": ("unknown", "scan")}
    assert location_of(cast, site.pallet.id) == "Dock 1", "the count itself is recorded"
    send(browser, {**FINISH, "id": "finish-again", "lines": {"here": [[site.pallet.id, "scan"]]}})
    assert results(browser)["Pallet 1"] == ("missing", "")


def test_whoever_signs_off_second_hears_that_the_first_result_is_the_stored_one(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    """Regression: both screens said "Signed off", and one of the two results was dropped without a word."""
    olga, otto = sign_in_as(Role.OPERATOR), sign_in_as(Role.OPERATOR)
    send(olga, begin(site, site.cage.id), {**FINISH, "lines": {"missing": [[site.cage.id, ""]]}})
    second = {**FINISH, "id": "finish-of-otto", "lines": {"here": [[site.cage.id, "scan"]]}}
    for _ in range(2):
        answer = send(otto, second)[0]
        assert answer["result"] == "refused"
        assert answer["reason"].endswith("has signed it off already. Your result is not stored")
    assert send(olga, FINISH)[0]["result"] == "done", "its answer was lost on the way"
    assert results(olga) == {"Roll cage": ("missing", "")}


def test_without_sublocations_assets_below_are_elsewhere(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    see(cast, site.cage.id, site.hall.id, clock.now() - clock.HOUR)
    send(browser, begin(site, site.cage.id, below=False))
    read(cast, site.cage.id, site.dock.id, clock.now() + 1)
    send(browser, FINISH)
    assert results(browser) == {"Roll cage": ("elsewhere", "reader")}


def test_another_device_continues_a_stock_take(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    one, other = sign_in_as(Role.OPERATOR), sign_in_as(Role.OPERATOR)
    send(one, begin(site, site.pallet.id, site.cage.id), scanned(1, PALLET, site.dock.id))
    listed = other.get("/scan/stock-takes").json["stock_takes"]  # type: ignore[index]
    assert [(row["id"], row["expected"], row["scanned"]) for row in listed] == [(TAKE, 2, 1)]
    progress: dict[str, Any] = other.get(f"/scan/stock-takes/{TAKE}").json  # type: ignore[assignment]
    assert sorted(progress["expected_ids"]) == sorted([site.pallet.id, site.cage.id])
    assert [row[1] for row in progress["scans"]] == [PALLET]
    send(other, scanned(2, CAGE, site.dock.id), FINISH)
    assert set(results(one).values()) == {("here", "scan")}
    assert one.get("/scan/stock-takes").json["stock_takes"] == []  # type: ignore[index]
    late = send(one, scanned(3, CAGE, site.rack.id))
    assert late[0]["result"] == "recorded"
    assert location_of(cast, site.cage.id) == "Rack A"


def test_a_scan_can_be_taken_back_before_and_after(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site), scanned(1, PALLET, site.dock.id), scanned(2, CAGE, site.dock.id))
    assert send(browser, {"id": "undo-take-1", "undo": "take-scan-1"})[0]["result"] == "undone"
    assert send(browser, scanned(1, PALLET, site.dock.id))[0]["result"] == "undone"
    send(browser, FINISH)
    assert location_of(cast, site.pallet.id) is None
    assert location_of(cast, site.cage.id) == "Dock 1"
    send(browser, {"id": "undo-take-2", "undo": "take-scan-2"})
    assert location_of(cast, site.cage.id) is None


def test_a_cancelled_stock_take_leaves_nothing(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site), scanned(1, PALLET, site.dock.id))
    cancel = {"id": "cancel-of-take", "act": "cancel", "stock_take": TAKE, "at": 1}
    assert [one["result"] for one in send(browser, cancel, FINISH)] == ["done", "refused"]
    assert location_of(cast, site.pallet.id) is None
    assert browser.get(f"/stock-takes/{TAKE}").status_code == 404
    assert browser.get("/stock-takes").status_code == 200


def test_the_missing_are_marked_as_lost_until_they_are_seen(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site, site.cage.id), FINISH)
    mark = {"id": "lost-act-1", "act": "lost", "asset": site.cage.id, "at": 1}
    assert send(browser, mark)[0]["result"] == "done"
    assert '"pill bad">lost' in browser.get(f"/stock-takes/{TAKE}").text
    assert "marked as lost" in browser.get(f"/assets/{site.cage.id}").text
    assert send(browser, {**mark, "id": "lost-act-2", "act": "found"})[0]["result"] == "done"
    assert '"pill bad">lost' not in browser.get(f"/stock-takes/{TAKE}").text
    send(browser, {**mark, "id": "lost-act-3"})
    see(cast, site.cage.id, site.dock.id, clock.now() + clock.SECOND)
    assert '"pill bad">lost' not in browser.get(f"/stock-takes/{TAKE}").text


def test_another_organization_sees_and_changes_nothing(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site, site.cage.id), scanned(1, PALLET, site.dock.id))
    stranger = sign_in_as(Role.OPERATOR, organization_id=cast.rival)
    theirs, place = assets.create(shell(cast.rival), name="Theirs"), locations.create(shell(cast.rival), name="There")
    own = {**begin(site, site.cage.id, theirs.id), "id": "stock-take-2", "location": place.id}
    assert send(stranger, own)[0]["result"] == "done"
    assert stranger.get("/scan/stock-takes/stock-take-2").json["expected_ids"] == [theirs.id]  # type: ignore[index]
    assert send(stranger, {**FINISH, "stock_take": "stock-take-2"})[0]["result"] == "done"
    assert stranger.get(f"/scan/stock-takes/{TAKE}").status_code == 404
    assert stranger.get("/scan/stock-takes").json["stock_takes"] == []  # type: ignore[index]
    assert send(stranger, begin(site, site.cage.id))[0]["result"] == "refused"
    assert send(stranger, FINISH)[0]["result"] == "refused"
    lost = {"id": "lost-act-9", "act": "lost", "asset": site.cage.id, "at": 1}
    assert send(stranger, lost)[0]["result"] == "refused"
    send(browser, FINISH)
    assert stranger.get(f"/stock-takes/{TAKE}").status_code == 404
    assert stranger.get(f"/stock-takes/{TAKE}.csv").status_code == 404


def holds(unsent: int, *, is_open: bool = True, take: str = TAKE) -> list[dict[str, Any]]:
    return [{"stock_take": take, "is_open": is_open, "unsent": unsent, "since": clock.now() // 1000 - 60_000}]


def reports(browser: Browser, device: str, said: Any) -> list[tuple[str, bool, int, bool]]:
    """Send a report and return the reports of all devices: name, is open, number unsent, has a time."""
    answer = browser.send(f"/scan/stock-takes/{TAKE}", {"device": device, "holds": said})
    assert answer.status_code == 200, answer.text
    return [(row[1], row[2], row[3], row[4] is not None) for row in answer.json["devices"]]  # type: ignore[index]


def test_each_device_reports_its_unsent_scans(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    gun = devices.invite(shell(cast.acme), "Gun 2")[0]
    one, other = sign_in_as(Role.OPERATOR), sign_in_as(Role.OPERATOR, device_id=gun.id)
    name = one.get("/scan/state").json["name"]  # type: ignore[index]
    send(one, begin(site, site.pallet.id))
    assert reports(one, "device-1", holds(0)) == [(name, True, 0, False)]
    label = {**scanned(1, "DOCK", site.dock.id), "choice": "choice-1", "code": f"http://box/l/{site.rack.external_key}"}
    items = [
        scanned(2, PALLET, site.dock.id),
        label,
        {**scanned(3, CAGE, site.dock.id), "choice": "choice-1"},  # unclear, so the device keeps it
    ]
    body = {"sent_at": clock.now() // 1000, "items": items, "device": "device-2", "holds": holds(5)}
    answers = other.send("/scan/batch", body).json["results"]  # type: ignore[index]
    assert [answer["result"] for answer in answers] == ["counted", "location", "unclear"]
    both = [("Gun 2", True, 3, True), (name, True, 0, False)]
    assert sorted(reports(one, "device-1", holds(0))) == sorted(both), "two of five have arrived"
    undo = {"id": "undo-of-2", "undo": items[0]["id"], "at": 1, "stock_take": TAKE}
    body = {"sent_at": clock.now() // 1000, "items": [undo], "device": "device-2", "holds": holds(4)}
    assert other.send("/scan/batch", body).json["results"][0]["result"] == "undone"  # type: ignore[index]
    assert {row[0]: row[2] for row in reports(one, "device-1", holds(0))}["Gun 2"] == 3, "an undo is taken off, too"
    assert reports(other, "device-2", holds(1, is_open=False))[0] == ("Gun 2", False, 1, True)
    aside = {"id": "aside-of-take", "act": "set_aside", "stock_take": TAKE, "at": 1}
    body = {"sent_at": clock.now() // 1000, "items": [aside], "device": "device-2", "holds": []}
    assert other.send("/scan/batch", body).json["results"][0]["result"] == "done"  # type: ignore[index]
    assert reports(one, "device-1", holds(0)) == [(name, True, 0, False)]
    assert reports(one, "device-1", holds(1, take="\ud800" * 8)) == [], "what it says of a stock-take is no id"


def test_a_device_that_signs_off_asks_the_others_to_stop_for_a_while(
    sign_in_as: SignIn, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site, site.pallet.id))

    def is_asked(device: str, **more: Any) -> bool:
        answer = browser.send(f"/scan/stock-takes/{TAKE}", {"device": device, "holds": holds(0), **more})
        return bool(answer.json["is_asked"])  # type: ignore[index]

    assert [is_asked("device-1"), is_asked("device-2"), is_asked("device-1", asks=True)] == [False, False, False]
    assert [is_asked("device-2"), is_asked("device-1"), is_asked("device-3", asks="yes")] == [True, False, True]
    later = clock.now() + 16 * clock.SECOND
    monkeypatch.setattr(clock, "now", lambda: later)
    assert not is_asked("device-2")


def test_a_report_that_makes_no_sense_changes_nothing(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site))
    wrong = [5, {}, *holds(-1), *holds(2**70), *holds(1, take="no-such-take"), {**holds(1)[0], "stock_take": 7}]
    assert reports(browser, "device-1", wrong) == []
    assert reports(browser, "device-1", "x") == reports(browser, "short", holds(1)) == []
    assert reports(browser, "device-1", [{**holds(2)[0], "since": "x"}])[0][2:] == (2, False)


def test_reports_of_devices_are_limited(sign_in_as: SignIn, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_reports, "MAX_DEVICES", 2)
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site))
    counts = [len(reports(browser, f"device-{number}", holds(number))) for number in (1, 2, 3, 2)]
    assert counts == [1, 2, 2, 2]


def test_unsent_scans_of_other_devices_are_on_the_signed_sheet(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site, site.pallet.id))
    reports(browser, "device-2", holds(3))
    at = clock.now() // 1000
    known = [["Gun 2", 3, at, at], ["<Gun 3>", 0, None, at], ["Gun 4", -1, at, at], ["Gun 5", 1, at, "x"], 7]
    lines = {"missing": [[site.pallet.id, ""]], "devices": known}
    assert send(browser, {**FINISH, "lines": lines})[0]["result"] == "done"
    page = browser.get(f"/stock-takes/{TAKE}").text
    assert "Gun 2: 3 unsent scans" in page
    assert "&lt;Gun 3&gt;: everything sent" in page
    assert ("Gun 4" in page, "Gun 5" in page) == (False, False)
    polish = browser.get(f"/stock-takes/{TAKE}", headers={"Accept-Language": "pl"}).text
    assert "Gun 2: 3 niewysłane skany" in polish
    assert "&lt;Gun 3&gt;: wszystko wysłane" in polish
    assert reports(browser, "device-2", holds(1)) == [], "it has ended"
    assert execute("SELECT count(*) FROM stock_take_device").fetchone() == (0,)


def test_cancelling_deletes_the_reports_of_devices(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site))
    assert len(reports(browser, "device-1", holds(0))) == 1
    send(browser, {"id": "cancel-of-take", "act": "cancel", "stock_take": TAKE, "at": 1})
    assert execute("SELECT count(*) FROM stock_take_device").fetchone() == (0,)


def test_another_organization_reports_nothing_and_deletes_no_report(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser, stranger = sign_in_as(Role.OPERATOR), sign_in_as(Role.OPERATOR, organization_id=cast.rival)
    send(browser, begin(site))
    reports(browser, "device-1", holds(2))
    for device, said in (("device-1", []), ("device-1", holds(0)), ("device-9", holds(9))):
        answer = stranger.send(f"/scan/stock-takes/{TAKE}", {"device": device, "holds": said})
        assert answer.status_code == 404
    assert [row[2] for row in reports(browser, "device-8", [])] == [2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"location": "x"},
        {"location": 2**70},
        {"expected": None},
        {"expected": ["x", None, 2**70]},
        {"at": None},
        {"at": 1e300},
    ],
)
def test_nonsense_is_refused_or_left_out(sign_in_as: SignIn, site: Site, wrong: dict[str, Any]) -> None:
    answer = send(sign_in_as(Role.OPERATOR), {**begin(site), **wrong})[0]
    assert answer["result"] in ("refused", "done")


def test_a_cell_of_the_csv_is_never_a_formula(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site), scanned(1, "=HYPERLINK(1)", site.dock.id), FINISH)
    assert "'=HYPERLINK(1)" in browser.get(f"/stock-takes/{TAKE}.csv").text


def test_times_in_the_csv_have_the_format_of_other_files(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    see(cast, site.pallet.id, site.rack.id, clock.now() - clock.HOUR)
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site, site.pallet.id), FINISH)
    text = browser.get(f"/stock-takes/{TAKE}.csv?separator=semicolon").data.decode("utf-8-sig")
    seen = next(csv.DictReader(io.StringIO(text), delimiter=";"))["last_seen_at"]
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}[+-][0-9]{2}:[0-9]{2}", seen)


@pytest.mark.parametrize("device", ["\U0001f4e6" * 1_000, "", None, ["a" * 20]])
def test_only_a_device_asks_others_to_stop(sign_in_as: SignIn, site: Site, device: object) -> None:
    """Regression: any text was kept, 4 MB for each stock-take."""
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site))
    browser.send(f"/scan/stock-takes/{TAKE}", {"device": device, "asks": True})
    progress = browser.get(f"/scan/stock-takes/{TAKE}").get_json()
    assert progress["is_asked"] is False


def test_a_long_sheet_is_shown_in_part(sign_in_as: SignIn, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.pages.handhelds.stock_takes.MOST_SHOWN", 1)
    browser = sign_in_as(Role.OPERATOR)
    send(browser, begin(site, site.cage.id, site.pallet.id), FINISH)
    page = browser.get(f"/stock-takes/{TAKE}").text
    assert "1 more in the CSV file" in page
    assert len(results(browser)) == 2
