"""Scans by hand: exactly once, in order, taken back without a trace in position and history.

Tests of edge/store/handheld.py and edge/store/scanned_codes.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge import clock
from edge.auth import devices
from edge.store import actors, assets, audit_trail, board, handheld, locations, people
from edge.store.actors import shell
from edge.store.database import execute
from edge.store.handheld import Result, Submitted
from edge.store.people import Role
from tests.conftest import Cast
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
    return [move.location_name for move in board.moves(organization_id, asset_id)]


def test_a_scan_says_what_it_is_and_where_it_was(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
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
    found = send(sign_in_as(Role.OPERATOR), item("1", code, site.dock.id))
    assert found[0]["asset"]["id"] == site.pallet.id  # type: ignore[index]


def test_an_epc_matches_as_it_does_for_readers(sign_in_as: SignIn, site: Site) -> None:
    found = send(sign_in_as(Role.OPERATOR), item("1", "00e28011700000020a7b2c3d4e", site.dock.id))
    assert found[0]["asset"]["id"] == site.cage.id  # type: ignore[index]


def test_a_repeat_is_recorded_once(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    one = item("1", BARCODE, site.dock.id)
    assert [row["result"] for row in send(browser, one, one)] == ["recorded", "recorded"]
    assert send(browser, one)[0]["result"] == "recorded"
    assert moves_of(cast.acme, site.pallet.id) == ["Dock 1"]


def test_scanned_again_at_the_same_place_is_said_so(sign_in_as: SignIn, site: Site) -> None:
    browser, now = sign_in_as(Role.OPERATOR), clock.now()
    results = send(
        browser,
        item("1", BARCODE, site.dock.id, now - 30_000_000),
        item("2", BARCODE, site.dock.id, now - 20_000_000),
        item("3", BARCODE, site.rack.id, now - 10_000_000),
        item("4", BARCODE, site.dock.id, now),
    )
    assert [row["result"] for row in results] == ["recorded", "again", "recorded", "recorded"]


def test_an_unknown_code_is_parked_with_place_and_time(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    at = clock.now() - clock.HOUR
    assert send(sign_in_as(Role.OPERATOR), item("1", "NOBODY-KNOWS", site.dock.id, at))[0]["result"] == "unknown"
    row = execute("SELECT value, location_id, last_seen_at / 1000, reader_id FROM unknown_tag").fetchone()
    assert row == ("NOBODY-KNOWS", site.dock.id, at // 1000, 0)


@pytest.mark.parametrize("what", ["asset", "name"])
def test_an_unknown_code_can_be_attached_and_the_scan_counts(
    sign_in_as: SignIn, cast: Cast, site: Site, what: str
) -> None:
    browser, at = sign_in_as(Role.EDITOR), clock.now() - clock.HOUR
    send(browser, item("1", "NOBODY-KNOWS", site.dock.id, at))
    answer = browser.send("/scan/attach", {"id": "scan-no-1", what: site.cage.id if what == "asset" else "Brand new"})
    assert answer.json["result"]["result"] == "recorded"  # type: ignore[index]
    asset_id = answer.json["result"]["asset"]["id"]  # type: ignore[index]
    assert "NOBODY-KNOWS" in [tag.value for tag in assets.get(cast.acme, asset_id).tags]
    assert [move.observed_at // 1000 for move in board.moves(cast.acme, asset_id)] == [at // 1000]
    assert execute("SELECT count(*) FROM unknown_tag").fetchone() == (0,)
    assert browser.send("/scan/attach", {"id": "scan-no-1", "name": "Twice"}).status_code == 409


def test_a_tag_attached_elsewhere_brings_the_parked_scans_with_it(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
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


def test_undo_restores_position_and_history_and_keeps_both_in_the_audit(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    browser, now = sign_in_as(Role.OPERATOR), clock.now()
    send(browser, item("1", BARCODE, site.dock.id, now - 60_000_000), item("2", BARCODE, site.rack.id, now))
    assert send(browser, {"id": "undo-1-of-2", "undo": "scan-no-2"})[0]["result"] == "undone"
    assert place_of(cast.acme, site.pallet.id) == "Dock 1"
    assert moves_of(cast.acme, site.pallet.id) == ["Dock 1"]
    note = audit_trail.recent(cast.acme)[0]
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


def test_nobody_undoes_the_scan_of_somebody_else(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    send(sign_in_as(Role.OPERATOR), item("1", BARCODE, site.dock.id))
    found = send(sign_in_as(Role.OPERATOR), {"id": "undo-foreign", "undo": "scan-no-1"})
    assert found[0]["result"] == "refused"
    assert place_of(cast.acme, site.pallet.id) == "Dock 1"


def test_the_id_of_another_organizations_scan_tells_nothing(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    send(sign_in_as(Role.OPERATOR), item("1", BARCODE, site.dock.id))
    place = locations.create(shell(cast.rival), name="Theirs")
    stranger = sign_in_as(Role.OPERATOR, organization_id=cast.rival)
    answer = send(stranger, item("1", "ANY-CODE", place.id))[0]
    assert answer["result"] == "refused"
    assert "asset" not in answer
    assert send(stranger, item("2", BARCODE, site.dock.id))[0]["result"] == "refused"


def test_a_scan_at_a_location_that_was_retired_is_asked_about_and_can_come_again(
    sign_in_as: SignIn, cast: Cast, site: Site
) -> None:
    browser = sign_in_as(Role.OPERATOR)
    execute("UPDATE location SET deleted_at = created_at WHERE id = ?", (site.dock.id,))
    assert send(browser, item("1", BARCODE, site.dock.id))[0]["result"] == "retired"
    assert execute("SELECT count(*) FROM handheld_scan").fetchone() == (0,)
    assert send(browser, item("1", BARCODE, site.rack.id))[0]["result"] == "recorded"
    assert place_of(cast.acme, site.pallet.id) == "Rack A"


def test_a_misread_gs1_code_is_refused_in_a_sentence(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    browser.send("/language", {"language": "de"})
    answer = send(browser, item("1", "]C10180614141123459216789", site.dock.id))[0]
    assert (answer["result"], answer["reason"].split(":")[0]) == ("refused", "Die Prüfziffer dieses Codes ist falsch")
    assert execute("SELECT count(*) FROM unknown_tag").fetchone() == (0,)


def test_one_that_makes_no_sense_does_not_hold_up_the_others(sign_in_as: SignIn, site: Site) -> None:
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
    [(0, 0), (3600, 0), (-3600, 0), (1, 1)],
)
def test_a_wrong_clock_of_the_device_is_corrected(
    sign_in_as: SignIn, cast: Cast, site: Site, ahead: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock right to within two seconds is believed; nothing is ever in the future."""
    now = 1_800_000_000 * clock.SECOND
    monkeypatch.setattr(clock, "now", lambda: now)
    scanned = (now - 600 * clock.SECOND) // 1000 + ahead * 1000
    browser = sign_in_as(Role.OPERATOR)
    body = {
        "sent_at": now // 1000 + ahead * 1000,
        "items": [{"id": "scan-clock", "code": BARCODE, "location": site.dock.id, "at": scanned}],
    }
    assert browser.send("/scan/batch", body).status_code == 200
    seen = board.moves(cast.acme, site.pallet.id)[0].observed_at
    assert seen == now - (600 - expected) * clock.SECOND


def test_a_shared_device_brings_the_scans_of_whoever_used_it_before(sign_in_as: SignIn, cast: Cast, site: Site) -> None:

    device, _ = devices.invite(shell(cast.acme), "Gun 1")
    before = sign_in_as(Role.OPERATOR, device_id=device.id).get("/scan/state").json["person"]  # type: ignore[index]
    after = sign_in_as(Role.OPERATOR, device_id=device.id)
    send(after, item("1", BARCODE, site.dock.id) | {"person": before})
    assert execute("SELECT person_id FROM handheld_scan").fetchone() == (before,)
    alone = sign_in_as(Role.OPERATOR)
    send(alone, item("2", BARCODE, site.dock.id) | {"person": before})
    assert execute("SELECT person_id FROM handheld_scan WHERE id = 'scan-no-2'").fetchone() != (before,)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40)), min_size=1, max_size=12, unique_by=lambda s: s[1]),
    undone=st.sets(st.integers(0, 11)),
    data=st.data(),
)
def test_whatever_the_order_of_arrival_undone_scans_leave_no_trace(
    cast: Cast, site: Site, steps: list[tuple[int, int]], undone: set[int], data: st.DataObject
) -> None:
    """Scans with repeats, in any order, some taken back: position and history are those of the others alone."""
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
    found = [(move.observed_at, move.location_id) for move in board.moves(cast.acme, site.pallet.id)]
    assert found == [(scan.observed_at, scan.location_id) for scan in left]
    where = board.whereabouts(cast.acme, site.pallet.id)
    assert where
    assert where.location_id == (left[0].location_id if left else None)
    assert where.last_seen_at == (left[0].observed_at if left else None)
