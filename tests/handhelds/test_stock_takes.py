"""Scans of a stock-take are never lost, even if records change before sign-off."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor, shell
from edge.database.connection import execute, execute_many
from edge.handhelds import accepted_scans, scans, stock_takes
from edge.handhelds.scans import Result, Submitted
from edge.people import people
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import lost_assets, positions, report
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.observed import steps_of

AT = 1_700_000_000 * clock.SECOND
TAKE = "stock-take-1"
EPC = "E28011700000020A7B2C3D4E"


@pytest.fixture
def olga(cast: Cast) -> Actor:
    row = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    return actors.person(cast.acme, row.id, row.name)


@pytest.fixture
def dock(cast: Cast, olga: Actor) -> int:
    dock_id = locations.create(shell(cast.acme), name="Dock").id
    assert begin(olga, dock_id)
    return dock_id


def begin(olga: Actor, dock: int, *expected: int) -> bool:
    return stock_takes.begin(olga, TAKE, dock, with_sublocations=False, expected=expected, started_at=AT)


def count(olga: Actor, code: str, location_id: int, number: int = 1) -> Result:
    scan = Submitted(f"scan-{number}", code, location_id, AT + number)
    return stock_takes.scan(olga, TAKE, scan, AT + number).result


def test_a_location_that_was_retired_before_the_sign_off_loses_no_scan(cast: Cast, olga: Actor, dock: int) -> None:
    pallet = assets.create(shell(cast.acme), name="Pallet", tags=[NewTag("rfid", EPC)])
    assert count(olga, EPC, dock) is Result.COUNTED
    locations.delete(shell(cast.acme), dock)
    assert stock_takes.finish(olga, TAKE, AT + 9)
    assert [move.location_id for move in report.moves(cast.acme, pallet.id)] == [dock]


@pytest.mark.parametrize(("code", "location_id"), [(EPC, 999), ("x" * 300, None), ("(01)04006381333932(21)7", None)])
def test_a_scan_that_can_never_be_recorded_is_refused_at_once(
    olga: Actor, dock: int, code: str, location_id: int | None
) -> None:
    assert count(olga, code, location_id or dock) is Result.REFUSED


def test_beyond_the_bound_a_scan_is_recorded_at_once(
    cast: Cast, olga: Actor, dock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock_takes, "MAX_SCANS", 1)
    pallet = assets.create(shell(cast.acme), name="Pallet", tags=[NewTag("rfid", EPC)])
    results = [count(olga, code, dock, number) for number, code in ((1, "BOX"), (2, EPC), (1, "BOX"))]
    assert results == [Result.COUNTED, Result.RECORDED, Result.COUNTED]
    assert len(report.moves(cast.acme, pallet.id)) == 1


def test_a_code_that_was_attached_since_is_no_longer_unknown(cast: Cast, olga: Actor) -> None:
    dock = locations.create(shell(cast.acme), name="Dock").id
    pallet = assets.create(shell(cast.acme), name="Pallet")
    begin(olga, dock, pallet.id)
    assert count(olga, EPC, dock) is Result.COUNTED
    assets.attach_tag(shell(cast.acme), pallet.id, NewTag("rfid", EPC))
    assert stock_takes.finish(olga, TAKE, AT + 9)
    assert [(line.result, line.how) for line in stock_takes.sheet(cast.acme, TAKE)] == [("here", "scan")]
    assert scans.stored("scan-1") is not None


def test_a_sign_off_looks_at_each_code_that_was_attached_since_once(
    cast: Cast, olga: Actor, dock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepted_scans, "MOST_SECONDS", -1.0)  # the scans are recorded later
    for number in range(400):
        count(olga, f"BOX-{number}", dock, number)
    assets.create(shell(cast.acme), name="Boxes", tags=[NewTag("barcode", f"BOX-{number}") for number in range(400)])
    assert steps_of(lambda: stock_takes.finish(olga, TAKE, AT + 999)) < 250_000  # a look at all for each takes millions
    assert len(stock_takes.sheet(cast.acme, TAKE)) == 1


def test_a_lost_mark_has_the_time_of_the_action_not_of_its_arrival(cast: Cast, olga: Actor) -> None:
    dock = locations.create(shell(cast.acme), name="Dock").id
    pallet = assets.create(shell(cast.acme), name="Pallet")
    seen_at = AT + 10
    positions.record([Scan(cast.acme, pallet.id, dock, None, None, seen_at, seen_at, Quality.HANDHELD)], 0)
    assert lost_assets.mark_lost(olga, pallet.id, seen_at - 1, is_lost=True)
    assert lost_assets.lost_since(cast.acme, pallet.id) is None
    assert lost_assets.mark_lost(olga, pallet.id, seen_at + 1, is_lost=True)
    assert lost_assets.lost_since(cast.acme, pallet.id) == seen_at + 1


def test_each_missing_asset_on_the_sheet_has_its_own_mark(cast: Cast, olga: Actor) -> None:
    dock = locations.create(shell(cast.acme), name="Dock").id
    pallets = [assets.create(shell(cast.acme), name=f"Pallet {number}").id for number in range(3)]
    begin(olga, dock, *pallets)
    assert stock_takes.finish(olga, TAKE, AT + 9)
    for number in (0, 1):
        lost_assets.mark_lost(olga, pallets[number], AT + 10 + number, is_lost=True)
    marks = [(line.asset_id, line.lost_at) for line in stock_takes.sheet(cast.acme, TAKE)]
    assert sorted(marks, key=str) == sorted([(pallets[0], AT + 10), (pallets[1], AT + 11), (pallets[2], None)], key=str)


def test_every_query_has_the_organization_also_where_a_check_comes_first(cast: Cast, olga: Actor, dock: int) -> None:
    """Functions without a preceding check return and change nothing of another organization."""
    theirs = assets.create(shell(cast.rival), name="Theirs")
    execute("INSERT INTO stock_take_expected (stock_take_id, asset_id) VALUES (?, ?)", (TAKE, theirs.id))
    count(olga, EPC, dock)
    stock_takes.undo_scan(olga._replace(organization_id=cast.rival), "scan-1")
    assert stock_takes.finish(olga, TAKE, AT + 9)
    assert [(line.result, line.code) for line in stock_takes.sheet(cast.acme, TAKE)] == [("unknown", EPC)]
    assert stock_takes.sheet(cast.rival, TAKE) == []


def test_a_cancelled_stock_take_counts_no_scan_and_is_cancelled_once(cast: Cast, olga: Actor, dock: int) -> None:
    assert stock_takes.cancel(olga, TAKE, AT + 1)
    assert count(olga, EPC, dock) is Result.REFUSED, (
        "Regression: scans that arrived after it were recorded, earlier ones not"
    )
    assert [execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("stock_take_scan", "handheld_scan")] == [
        (0,)
    ] * 2
    assert not stock_takes.cancel(olga, TAKE, AT + 2)


def test_each_stock_take_has_its_own_numbers(cast: Cast, olga: Actor, dock: int) -> None:
    pallets = [assets.create(shell(cast.acme), name=f"Pallet {number}").id for number in range(3)]
    other = locations.create(shell(cast.acme), name="Yard").id
    stock_takes.begin(olga, "stock-take-2", other, with_sublocations=False, expected=pallets, started_at=AT + 1)
    count(olga, EPC, dock)
    numbers = {take.id: (take.expected, take.scanned) for take in stock_takes.list_stock_takes(cast.acme)}
    assert numbers == {TAKE: (0, 1), "stock-take-2": (3, 0)}


def test_a_large_site_is_not_read_for_each_expected_asset(cast: Cast, olga: Actor, dock: int) -> None:
    """With the write lock: 2,000 expected assets among 200,000 took 17 s."""
    ids = range(10_000, 11_000)
    execute_many(
        "INSERT INTO asset (id, organization_id, external_key, name, valid_from, created_at, updated_at) "
        "VALUES (?1, ?2, ?1, ?1, 0, 0, 0)",
        [(one, cast.acme) for one in ids],
    )
    signed = stock_takes.SignedResult({"missing": [(one, "") for one in ids]}, [], [])
    take = {"with_sublocations": False, "expected": ids, "started_at": AT}
    assert steps_of(lambda: stock_takes.begin(olga, "large-take", dock, **take)) < 100_000  # type: ignore[arg-type]
    assert steps_of(lambda: stock_takes.finish(olga, "large-take", AT + 9, signed)) < 300_000
    sheet = stock_takes.sheet(cast.acme, "large-take")
    assert [line.result for line in sheet] == ["missing"] * len(ids)
