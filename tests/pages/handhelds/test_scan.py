"""Scans by hand: recorded exactly once, in order, and undone completely."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge import clock
from edge.audit import actors, trail
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.handhelds import scans as handheld
from edge.handhelds.scans import Result, Submitted
from edge.pages.handhelds.scan import MAX_BATCH
from edge.people import devices, people
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import board, report
from tests.conftest import Cast
from tests.observed import scans_by_people
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]
BARCODE = "4006381333931"


def item(scan_id: str, code: str, place: int, at: int | None = None) -> dict[str, object]:
    return {"id": f"scan-no-{scan_id}", "code": code, "location": place, "at": (at or clock.now()) // 1000}


def send(browser: Browser, *items: dict[str, object]) -> list[dict[str, object]]:
    answer = browser.send("/scan/batch", {"sent_at": clock.now() // 1000, "items": list(items)})
    assert answer.status_code == 200, answer.text
    results: list[dict[str, object]] = answer.json["results"]  # type: ignore[index]
    return results


def place_of(organization_id: int, asset_id: int) -> str | None:
    row = board.whereabouts(organization_id, asset_id)
    assert row
    return row.location_name


def moves_of(organization_id: int, asset_id: int) -> list[str]:
    return [move.location_name for move in report.moves(organization_id, asset_id)]


def test_the_result_of_a_scan_has_the_asset_and_its_previous_location(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    browser = sign_in_as(Role.OPERATOR)
    first = send(browser, item("1", f"]E0{BARCODE}", site.dock.id))
    assert first[0]["result"] == "recorded"
    assert first[0]["asset"] == {"id": site.pallet.id, "key": site.pallet.external_key, "name": "Pallet 1"}
    assert first[0]["was"] is None
    second = send(browser, item("2", BARCODE, site.rack.id))
    assert second[0]["was"]["name"] == "Dock 1"  # type: ignore[index]
    assert place_of(cast.acme, site.pallet.id) == "Rack A"


@pytest.mark.parametrize("code", ["ASSET-0001", "http://elsewhere:99/a/ASSET-0001", "https://box.local/a/ASSET-0001"])
def test_keys_and_labels_are_codes_too(sign_in_as: SignIn, site: Site, code: str) -> None:
    results = send(sign_in_as(Role.OPERATOR), item("1", code, site.dock.id))
    assert results[0]["asset"]["id"] == site.pallet.id  # type: ignore[index]


def test_a_search_shows_when_and_where_an_asset_was_seen(sign_in_as: SignIn, site: Site) -> None:
    browser, at = sign_in_as(Role.OPERATOR), clock.now() - 60_000_000
    [never] = browser.get(f"/scan/find?q={BARCODE}").json["assets"]  # type: ignore[index]
    assert (never["seen_at"], never["since"], never["location"]) == (None, None, None)
    send(browser, item("1", BARCODE, site.dock.id, at))
    [seen] = browser.get(f"/scan/find?q={BARCODE}").json["assets"]  # type: ignore[index]
    assert (seen["seen_at"], seen["since"], seen["location"]) == (at // 1000, at // 1000, "Dock 1")


def test_an_epc_matches_as_it_does_for_readers(sign_in_as: SignIn, site: Site) -> None:
    results = send(sign_in_as(Role.OPERATOR), item("1", "00e28011700000020a7b2c3d4e", site.dock.id))
    assert results[0]["asset"]["id"] == site.cage.id  # type: ignore[index]


def test_a_repeat_is_recorded_once(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    one = item("1", BARCODE, site.dock.id)
    assert [row["result"] for row in send(browser, one, one)] == ["recorded", "recorded"]
    assert send(browser, one)[0]["result"] == "recorded"
    assert moves_of(cast.acme, site.pallet.id) == ["Dock 1"]


def test_a_second_scan_at_the_same_location_is_marked(sign_in_as: SignIn, site: Site) -> None:
    browser, now = sign_in_as(Role.OPERATOR), clock.now()
    results = send(
        browser,
        item("1", BARCODE, site.dock.id, now - 30_000_000),
        item("2", BARCODE, site.dock.id, now - 20_000_000),
        item("3", BARCODE, site.rack.id, now - 10_000_000),
        item("4", BARCODE, site.dock.id, now - 5_000_000),
        item("5", BARCODE, site.dock.id, now),
    )
    assert [row["result"] for row in results] == ["recorded", "again", "recorded", "recorded", "again"]


@pytest.mark.parametrize(("hours", "result"), [(11, "again"), (13, "recorded")])
def test_a_scan_is_repeated_only_within_a_shift(sign_in_as: SignIn, site: Site, hours: int, result: str) -> None:
    browser, now = sign_in_as(Role.OPERATOR), clock.now()
    send(browser, item("1", BARCODE, site.dock.id, now - hours * clock.HOUR))
    assert send(browser, item("2", BARCODE, site.dock.id, now))[0]["result"] == result


def test_an_unknown_code_is_parked_with_place_and_time(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    at = clock.now() - clock.HOUR
    assert send(sign_in_as(Role.OPERATOR), item("1", "NOBODY-KNOWS", site.dock.id, at))[0]["result"] == "unknown"
    row = execute("SELECT value, location_id, last_seen_at / 1000, reader_id FROM unknown_tag").fetchone()
    assert row == ("NOBODY-KNOWS", site.dock.id, at // 1000, 0)


@pytest.mark.parametrize("what", ["asset", "name"])
def test_an_unknown_code_can_be_attached_and_the_scan_is_recorded(
    sign_in_as: SignIn, cast: Cast, site: Site, what: str
) -> None:
    browser, at = sign_in_as(Role.EDITOR), clock.now() - clock.HOUR
    send(browser, item("1", "NOBODY-KNOWS", site.dock.id, at))
    answer = browser.send("/scan/attach", {"id": "scan-no-1", what: site.cage.id if what == "asset" else "Brand new"})
    assert answer.json["result"]["result"] == "recorded"  # type: ignore[index]
    asset_id = answer.json["result"]["asset"]["id"]  # type: ignore[index]
    assert "NOBODY-KNOWS" in [tag.value for tag in assets.get(cast.acme, asset_id).tags]
    assert [move.observed_at // 1000 for move in report.moves(cast.acme, asset_id)] == [at // 1000]
    assert execute("SELECT count(*) FROM unknown_tag").fetchone() == (0,)
    assert browser.send("/scan/attach", {"id": "scan-no-1", "name": "Twice"}).status_code == 409


@pytest.mark.parametrize(
    ("name", "status"), [("", 400), ("A", 200), ("x" * 255, 200), ("x" * 256, 400), ("A\x07B", 400)]
)
def test_the_name_of_a_new_asset_has_a_maximum_length(sign_in_as: SignIn, site: Site, name: str, status: int) -> None:
    browser = sign_in_as(Role.EDITOR)
    send(browser, item("1", "NOBODY-KNOWS", site.dock.id))
    assert browser.send("/scan/attach", {"id": "scan-no-1", "name": name}).status_code == status


def test_attaching_a_tag_elsewhere_records_the_waiting_scans(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    now, gun = clock.now(), sign_in_as(Role.OPERATOR)
    send(gun, item("1", "NEW-1", site.dock.id, now - 60_000_000), item("2", "NEW-1", site.rack.id, now - 30_000_000))
    entered = {"tag_type": "barcode", "value": "NEW-1", "asset": site.cage.external_key}
    assert sign_in_as(Role.EDITOR).post("/readers/unknown-tags", entered).status_code == 303
    assert moves_of(cast.acme, site.cage.id) == ["Rack A", "Dock 1"]
    assert send(gun, item("1", "NEW-1", site.dock.id))[0]["result"] == "recorded"
    assert moves_of(cast.acme, site.cage.id) == ["Rack A", "Dock 1"]
    editor = sign_in_as(Role.EDITOR)
    assert editor.send("/scan/attach", {"id": "scan-no-1", "asset": site.cage.id}).status_code == 200
    assert editor.send("/scan/attach", {"id": "scan-no-1", "asset": site.pallet.id}).status_code == 409


def test_an_operator_may_not_attach(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, item("1", "NOBODY-KNOWS", site.dock.id))
    assert browser.send("/scan/attach", {"id": "scan-no-1", "name": "x"}).status_code == 403


def test_one_item_undoes_many_scans_of_a_sweep(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser, sweep = sign_in_as(Role.OPERATOR), "sweep-number-1"
    codes = [BARCODE, "NOBODY-KNOWS", "NOR-THIS"]
    made = [item("1", code, site.dock.id) | {"id": f"{sweep}-s{no}"} for no, code in enumerate(codes)]
    send(browser, *made)
    undo: dict[str, object] = {"id": f"{sweep}-u", "sweep": sweep, "undone": [0, 2, "x", -1, True]}
    for _ in range(2):  # a repeat changes nothing
        answers = [(one["id"], one["result"]) for one in send(browser, undo)]
        assert answers == [(f"{sweep}-u0", "undone"), (f"{sweep}-u2", "undone")]
    rows = execute("SELECT id FROM handheld_scan WHERE undone_at IS NULL").fetchall()
    assert rows == [(f"{sweep}-s1",)]
    stranger = sign_in_as(Role.OPERATOR)
    assert send(stranger, undo | {"undone": [1]})[0]["result"] == "refused"
    too_many = {"items": [undo | {"undone": list(range(1, 601))}]}
    assert browser.send("/scan/batch", too_many).status_code == 400


def test_an_undo_is_limited_before_its_scans_are_built(sign_in_as: SignIn, site: Site) -> None:
    """The id of a sweep is repeated for each of its scans: a long one must not be multiplied."""
    browser, numbers = sign_in_as(Role.OPERATOR), list(range(5000))
    for sweep, undone in (("s" * 400_000, [1] * 20), ("sweep-number-1", numbers), ("s" * 100_000, numbers)):
        body = {"items": [{"id": "undo-number-1", "sweep": sweep, "undone": undone}]}
        tracemalloc.start()
        answer = browser.send("/scan/batch", body)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert answer.status_code == 400 or [one["result"] for one in answer.json["results"]] == ["refused"]  # type: ignore[index]
        assert peak < 8_000_000


def test_undo_restores_position_and_history_and_keeps_both_in_the_audit(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    browser, now = sign_in_as(Role.OPERATOR), clock.now()
    send(browser, item("1", BARCODE, site.dock.id, now - 60_000_000), item("2", BARCODE, site.rack.id, now))
    assert send(browser, {"id": "undo-1-of-2", "undo": "scan-no-2"})[0]["result"] == "undone"
    assert place_of(cast.acme, site.pallet.id) == "Dock 1"
    assert moves_of(cast.acme, site.pallet.id) == ["Dock 1"]
    note = trail.recent(cast.acme)[0]
    assert (note.action, note.detail["scan"], note.detail["location"]) == ("scan.undone", "scan-no-2", "Rack A")
    assert execute("SELECT undone_at IS NOT NULL FROM handheld_scan WHERE id = 'scan-no-2'").fetchone() == (1,)
    assert send(browser, {"id": "undo-1-of-2", "undo": "scan-no-2"})[0]["result"] == "undone"
    assert send(browser, item("2", BARCODE, site.rack.id, now))[0]["result"] == "undone"
    assert moves_of(cast.acme, site.pallet.id) == ["Dock 1"]


def test_undoing_the_only_scan_leaves_the_asset_never_seen(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, item("1", BARCODE, site.dock.id), {"id": "undo-only-1", "undo": "scan-no-1"})
    assert place_of(cast.acme, site.pallet.id) is None
    assert moves_of(cast.acme, site.pallet.id) == []


def test_a_scan_that_arrives_after_its_undo_records_nothing(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    send(browser, {"id": "undo-early", "undo": "scan-no-late"})
    assert send(browser, item("late", BARCODE, site.dock.id))[0]["result"] == "undone"
    assert moves_of(cast.acme, site.pallet.id) == []


def test_nobody_can_undo_the_scan_of_another_person(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    send(sign_in_as(Role.OPERATOR), item("1", BARCODE, site.dock.id))
    results = send(sign_in_as(Role.OPERATOR), {"id": "undo-foreign", "undo": "scan-no-1"})
    assert results[0]["result"] == "refused"
    assert place_of(cast.acme, site.pallet.id) == "Dock 1"


def test_the_id_of_a_scan_of_another_organization_reveals_nothing(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    send(sign_in_as(Role.OPERATOR), item("1", BARCODE, site.dock.id))
    place = locations.create(shell(cast.rival), name="Theirs")
    stranger = sign_in_as(Role.OPERATOR, organization_id=cast.rival)
    answer = send(stranger, item("1", "ANY-CODE", place.id))[0]
    assert answer["result"] == "refused"
    assert "asset" not in answer
    assert send(stranger, item("2", BARCODE, site.dock.id))[0]["result"] == "refused"


def test_a_scan_at_a_retired_location_asks_for_another_one(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    execute("UPDATE location SET deleted_at = created_at WHERE id = ?", (site.dock.id,))
    assert send(browser, item("1", BARCODE, site.dock.id))[0]["result"] == "retired"
    assert scans_by_people() == 0
    assert send(browser, item("1", BARCODE, site.rack.id))[0]["result"] == "recorded"
    assert place_of(cast.acme, site.pallet.id) == "Rack A"


def test_a_misread_gs1_code_is_refused_in_a_sentence(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    browser.send("/language", {"language": "de"})
    answer = send(browser, item("1", "]C10180614141123459216789", site.dock.id))[0]
    assert (answer["result"], answer["reason"].split(":")[0]) == ("refused", "Falsche Prüfziffer")
    assert execute("SELECT count(*) FROM unknown_tag").fetchone() == (0,)


@pytest.mark.parametrize("count", [0, MAX_BATCH + 1])
def test_an_empty_or_too_large_batch_is_refused_and_records_nothing(
    sign_in_as: SignIn, cast: Cast, site: Site, count: int
) -> None:
    items = [item(f"of-many-{number}", BARCODE, site.dock.id) for number in range(count)]
    answer = sign_in_as(Role.OPERATOR).send("/scan/batch", {"sent_at": clock.now() // 1000, "items": items})
    assert answer.status_code == 400
    assert place_of(cast.acme, site.pallet.id) is None


def test_an_invalid_scan_does_not_block_the_others(sign_in_as: SignIn, site: Site) -> None:
    results = send(
        sign_in_as(Role.OPERATOR),
        {"id": "scan-bad-1"},
        {"id": "x"},
        {"id": "scan-bad-2", "code": 5, "location": "dock", "at": None},
        {"id": "scan-bad-3", "code": "C" * 300, "location": site.dock.id, "at": 1},
        item("gone", BARCODE, 12345),
        item("far", BARCODE, 10**30),
        {**item("half", "\ud800", site.dock.id), "person": 10**30},
        item("address", "http://[x/a/ASSET-0001", site.dock.id),
        item("good", BARCODE, site.dock.id),
    )
    assert [row["result"] for row in results] == ["refused"] * 7 + ["unknown", "recorded"]


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [(0, 0), (3600, 0), (-3600, 0), (30, 30), (-30, -30)],
)
def test_a_wrong_clock_of_the_device_is_corrected(
    sign_in_as: SignIn, cast: Cast, site: Site, ahead: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that do not compare clocks with the site are corrected, but not for a possible delay."""
    now = 1_800_000_000 * clock.SECOND
    monkeypatch.setattr(clock, "now", lambda: now)
    scanned = (now - 600 * clock.SECOND) // 1000 + ahead * 1000
    browser = sign_in_as(Role.OPERATOR)
    body = {
        "sent_at": now // 1000 + ahead * 1000,
        "items": [{"id": "scan-clock", "code": BARCODE, "location": site.dock.id, "at": scanned}],
    }
    assert browser.send("/scan/batch", body).status_code == 200
    seen = report.moves(cast.acme, site.pallet.id)[0].observed_at
    assert seen == now - (600 - expected) * clock.SECOND


class SharedDevice:
    """A device on which one person was signed in before another."""

    def __init__(self, sign_in_as: SignIn, cast: Cast, *, begun: int, expired: int | None = None) -> None:
        self.row, _ = devices.invite(shell(cast.acme), "Gun 1")
        before = sign_in_as(Role.OPERATOR, device_id=self.row.id)
        (self.person, self.ref) = execute("SELECT person_id, ref FROM web_session").fetchone()
        assert before.get("/scan/state").status_code == 200
        now = clock.now()
        execute("UPDATE web_session SET created_at = ?", (now - begun * clock.SECOND,))
        if expired is not None:
            execute("UPDATE web_session SET expires_at = ?", (now - expired * clock.SECOND,))
        self.browser = before
        self.sign_in_as = sign_in_as

    def made_by(self, scan: dict[str, object]) -> str:
        """Return the result in the next person's session, and the person to whom the scan is attributed."""
        next_one = self.sign_in_as(Role.OPERATOR, device_id=self.row.id)
        result = send(next_one, scan | {"session": self.ref})[0]["result"]
        results = execute("SELECT person_id FROM handheld_scan WHERE id = ?", (scan["id"],)).fetchone()
        return "first" if results == (self.person,) else "next" if results else str(result)


def ago(seconds: int) -> int:
    return clock.now() - seconds * clock.SECOND


@pytest.mark.parametrize(
    ("begun", "expired", "made", "whose"),
    [
        (7200, None, 3600, "first"),
        (7200, 1800, 3600, "first"),
        (7200, 1800, 1500, "first"),  # five minutes after it expired
        (40 * 3600, 28 * 3600, 17 * 3600, "first"),
        (40 * 3600, 28 * 3600, 15 * 3600, "whose"),  # more than a shift after it expired
        (7200, None, 10_800, "whose"),  # before it began
    ],
)
def test_a_scan_is_attributed_to_the_person_signed_in_at_its_time(
    sign_in_as: SignIn, cast: Cast, site: Site, begun: int, expired: int | None, made: int, whose: str
) -> None:
    device = SharedDevice(sign_in_as, cast, begun=begun, expired=expired)
    assert device.made_by(item("1", BARCODE, site.dock.id, ago(made))) == whose


def test_after_the_next_sign_in_on_the_device_the_previous_session_is_over(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    device = SharedDevice(sign_in_as, cast, begun=7200, expired=3600)
    between = sign_in_as(Role.OPERATOR, device_id=device.row.id)
    execute("UPDATE web_session SET created_at = ?", (ago(3000),))
    assert between.get("/scan/state").status_code == 200
    assert device.made_by(item("1", BARCODE, site.dock.id, ago(3300))) == "first"
    assert device.made_by(item("2", BARCODE, site.dock.id, ago(1800))) == "whose"


def test_after_a_sign_out_the_session_is_over(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    device = SharedDevice(sign_in_as, cast, begun=7200)
    device.browser.post("/sign-out")
    execute("UPDATE device_use SET ended_at = ?", (ago(3600),))
    assert device.made_by(item("1", BARCODE, site.dock.id, ago(3700))) == "first"
    assert device.made_by(item("2", BARCODE, site.dock.id, ago(1800))) == "whose"


def test_the_reference_of_a_session_is_valid_on_its_own_device_only(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    device = SharedDevice(sign_in_as, cast, begun=7200)
    other, _ = devices.invite(shell(cast.acme), "Gun 2")
    for number, device_id in enumerate((other.id, None)):
        browser = sign_in_as(Role.OPERATOR, device_id=device_id)
        for ref in (device.ref, "", "x" * 32, 5, str(device.person)):
            made = item(f"{number}-{ref}"[:20], BARCODE, site.dock.id, ago(60)) | {
                "session": ref,
                "person": device.person,
            }
            assert send(browser, made)[0]["result"] == "whose"
    own = item("own", BARCODE, site.dock.id, ago(60)) | {"person": device.person}
    assert send(browser, own)[0]["result"] == "recorded"
    assert execute("SELECT person_id = ? FROM handheld_scan", (device.person,)).fetchall() == [(0,)]


def test_a_delayed_undo_and_check_belong_to_the_previous_person(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    device = SharedDevice(sign_in_as, cast, begun=7200)
    send(device.browser, item("1", BARCODE, site.dock.id, ago(90)))
    next_one = sign_in_as(Role.OPERATOR, device_id=device.row.id)
    late = {"session": device.ref, "at": ago(60) // 1000}
    begin = {"id": "take-of-first", "act": "begin", "location": site.dock.id, "expected": [], **late}
    undo = {"id": "undo-late-1", "undo": "scan-no-1", **late}
    assert [one["result"] for one in send(next_one, undo, begin)] == ["undone", "done"]
    assert execute("SELECT started_by FROM stock_take").fetchone() == (device.person,)
    assert place_of(cast.acme, site.pallet.id) is None


def test_a_scan_of_a_retired_asset_waits_for_its_restoration(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    assets.delete(shell(cast.acme), site.pallet.id)
    for number, code in enumerate((BARCODE, f"]E0{BARCODE}", "ASSET-0001", "http://box/a/ASSET-0001")):
        answer = send(browser, item(f"{number}", code, site.dock.id), item(f"{number}", code, site.dock.id))
        for one in answer:
            assert (one["result"], one["reason"]) == ("unknown", "This asset is retired"), code
            assert one["asset"]["name"] == "Pallet 1"  # type: ignore[index]
    stranger = sign_in_as(Role.OPERATOR, organization_id=cast.rival)
    place = locations.create(shell(cast.rival), name="Theirs")
    assert "asset" not in send(stranger, item("foreign", BARCODE, place.id))[0]
    assets.restore(shell(cast.acme), site.pallet.id)
    assert place_of(cast.acme, site.pallet.id) == "Dock 1"
    assert send(browser, item("0", BARCODE, site.dock.id))[0]["result"] == "recorded"


def test_an_asset_is_scanned_by_its_id_regardless_of_its_key(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    other = assets.create(shell(cast.acme), name="Other", external_key=BARCODE)
    theirs = assets.create(shell(cast.rival), name="Theirs")
    by_id = [item(str(no), BARCODE, site.dock.id) | {"asset": no} for no in (other.id, theirs.id)]
    assert [one["result"] for one in send(browser, *by_id)] == ["recorded", "refused"]
    assert (place_of(cast.acme, other.id), place_of(cast.acme, site.pallet.id)) == ("Dock 1", None)


def test_an_undone_scan_that_waited_for_its_tag_is_not_recorded(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.EDITOR)
    send(browser, item("1", "NEW-1", site.dock.id), {"id": "undo-waiting", "undo": "scan-no-1"})
    assets.attach_tag(shell(cast.acme), site.cage.id, NewTag("barcode", "NEW-1"))
    assert moves_of(cast.acme, site.cage.id) == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40)), min_size=1, max_size=12, unique_by=lambda s: s[1]),
    undone=st.sets(st.integers(0, 11)),
    data=st.data(),
)
def test_undone_scans_leave_no_trace_in_any_order_of_arrival(
    cast: Cast, site: Site, steps: list[tuple[int, int]], undone: set[int], data: st.DataObject
) -> None:
    """Scans with repeats and undos in any order result in the position and history of the remaining scans."""
    for table in ("handheld_scan", "history", "track"):
        execute(f"DELETE FROM {table}")
    known = people.list_people(cast.acme) or [people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)]
    sender, start, places = actors.person(cast.acme, known[0].id, "Olga"), 1_700_000_000_000_000, (site.dock, site.rack)
    scans = [
        Submitted(f"scan-{no}", BARCODE, places[where].id, start + at * clock.SECOND)
        for no, (where, at) in enumerate(steps)
    ]
    acts: list[Submitted | str] = [*scans, *scans[:3], *(f"scan-{no}" for no in undone if no < len(scans))]
    for act in data.draw(st.permutations(acts)):
        if isinstance(act, str):
            assert handheld.undo(sender, act, 300 * clock.SECOND).result is Result.UNDONE
        else:
            handheld.submit(sender, [act], start + 100 * clock.SECOND)
    left = sorted((scan for no, scan in enumerate(scans) if no not in undone), key=lambda scan: -scan.observed_at)
    results = [(move.observed_at, move.location_id) for move in report.moves(cast.acme, site.pallet.id)]
    assert results == [(scan.observed_at, scan.location_id) for scan in left]
    where = board.whereabouts(cast.acme, site.pallet.id)
    assert where
    assert where.location_id == (left[0].location_id if left else None)
    assert where.last_seen_at == (left[0].observed_at if left else None)


def test_the_page_names_the_version_of_its_files(sign_in_as: SignIn) -> None:
    """The service worker caches a page only with files of the same version."""
    browser = sign_in_as(Role.OPERATOR)
    version = browser.get("/scan").headers["Edge-Version"]
    assert f"const VERSION = '{version}';" in browser.get("/sw.js").text


@pytest.mark.parametrize("body", [{"id": "scan-no-1"}, {"id": "?"}, {"asset": 1}, {"id": "scan-no-1", "asset": "1"}])
def test_attaching_needs_a_scan_and_an_asset(sign_in_as: SignIn, site: Site, body: dict[str, object]) -> None:
    browser = sign_in_as(Role.EDITOR)
    send(browser, item("1", "NOBODY-KNOWS", site.dock.id))
    asset = {"asset": site.cage.id} if body == {"id": "?"} else {}
    assert browser.send("/scan/attach", body | asset).status_code == 400
    assert execute("SELECT count(*) FROM unknown_tag").fetchone() == (1,)
