"""Tens of thousands of scans that are released at once do not keep other writers waiting, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edge import clock, listeners
from edge.audit import actors
from edge.audit.actors import Actor, shell
from edge.database import sliced_writing
from edge.database.connection import execute
from edge.handhelds import accepted_scans, scans, stock_takes
from edge.handhelds.scans import Result, Submitted
from edge.people import people
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import deletion, report
from tests.conftest import Cast

AT = 1_700_000_000 * clock.SECOND
TAKE = "stock-take-1"
EPC = "E28011700000020A7B2C3D4E"
NUMBER = 40


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    listeners.connect()
    accepted_scans._rest.clear()
    accepted_scans._walked = (0, "")
    yield
    accepted_scans._rest.clear()


@pytest.fixture
def olga(cast: Cast) -> Actor:
    row = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    return actors.person(cast.acme, row.id, row.name)


@pytest.fixture
def dock(cast: Cast) -> int:
    return locations.create(shell(cast.acme), name="Dock").id


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the transaction that releases scans record one of them."""
    monkeypatch.setattr(accepted_scans, "MOST_SECONDS", -1.0)


def go_on(_seconds: float) -> bool:
    return False


def count_scans(olga: Actor, dock: int) -> None:
    stock_takes.begin(olga, TAKE, dock, with_sublocations=False, expected=[], started_at=AT)
    for number in range(NUMBER):
        scan = Submitted(f"scan-{number:04}", EPC, dock, AT + number)
        assert stock_takes.scan(olga, TAKE, scan, AT + number).result is Result.COUNTED


def scan_unknown(olga: Actor, dock: int, code: str = EPC) -> None:
    batch = [Submitted(f"{code}-{number:04}", code, dock, AT + number) for number in range(NUMBER)]
    assert {answer.result for answer in scans.submit(olga, batch, AT)} == {Result.UNKNOWN}


def recorded(asset_id: int) -> int:
    number: int = execute(
        "SELECT count(*) FROM handheld_scan WHERE asset_id = ? AND outcome IN ('recorded', 'again')", (asset_id,)
    ).fetchone()[0]
    return number


@pytest.mark.usefixtures("no_time")
def test_the_sign_off_of_a_large_stock_take_records_its_scans_afterwards(cast: Cast, olga: Actor, dock: int) -> None:
    """Regression: the sign-off of 50,000 scans kept all writers waiting for more than a minute."""
    asset = assets.create(shell(cast.acme), name="Pallet", tags=[NewTag("rfid", EPC)])
    count_scans(olga, dock)
    assert stock_takes.finish(olga, TAKE, AT + NUMBER)
    assert (recorded(asset.id), accepted_scans.has_rest()) == (1, True)
    accepted_scans.record_rest(go_on)
    assert (recorded(asset.id), accepted_scans.has_rest()) == (NUMBER, False)
    assert {move.location_id for move in report.moves(cast.acme, asset.id)} == {dock}


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("page", [7, NUMBER, accepted_scans.PAGE])
def test_a_tag_for_which_many_scans_waited_is_attached_at_once(
    cast: Cast, olga: Actor, dock: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: whoever scanned an unknown code thousands of times stopped all writers when it was attached."""
    monkeypatch.setattr(accepted_scans, "PAGE", page)
    asset = assets.create(shell(cast.acme), name="Pallet")
    scan_unknown(olga, dock)
    scan_unknown(olga, dock, EPC[:-1] + "F")
    assets.attach_tag(shell(cast.acme), asset.id, NewTag("rfid", EPC))
    assert (recorded(asset.id), accepted_scans.has_rest()) == (1, True)
    accepted_scans.record_rest(go_on)
    assert (recorded(asset.id), accepted_scans.has_rest()) == (NUMBER, False)
    assert execute("SELECT count(*) FROM handheld_scan WHERE waits_for IS NOT NULL").fetchone() == (NUMBER,)


def test_usual_numbers_are_recorded_in_the_same_transaction(cast: Cast, olga: Actor, dock: int) -> None:
    asset = assets.create(shell(cast.acme), name="Pallet")
    scan_unknown(olga, dock)
    assets.attach_tag(shell(cast.acme), asset.id, NewTag("rfid", EPC))
    assert (recorded(asset.id), accepted_scans.has_rest()) == (NUMBER, False)


@pytest.mark.usefixtures("no_time")
def test_after_a_crash_the_rest_is_found(cast: Cast, olga: Actor, dock: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_scans, "MOST_KEYS", 1)
    monkeypatch.setattr(clock, "now", lambda: AT + clock.DAY)
    asset = assets.create(shell(cast.acme), name="Pallet")
    scan_unknown(olga, dock, "4006381333931")
    scan_unknown(olga, dock)
    count_scans(olga, dock)
    assets.attach_tag(shell(cast.acme), asset.id, NewTag("rfid", EPC))
    assert stock_takes.finish(olga, TAKE, AT + NUMBER)
    accepted_scans._rest.clear()
    for _ in range(3):
        accepted_scans.find_rest()
    assert len(accepted_scans._rest) == 2
    accepted_scans.record_rest(go_on)
    assert recorded(asset.id) == 2 * NUMBER
    for _ in range(3):
        accepted_scans.find_rest()
    assert not accepted_scans.has_rest()


@pytest.mark.usefixtures("no_time")
def test_scans_that_retention_has_deleted_are_not_recorded_again(cast: Cast, olga: Actor, dock: int) -> None:
    asset = assets.create(shell(cast.acme), name="Pallet", tags=[NewTag("rfid", EPC)])
    count_scans(olga, dock)
    assert stock_takes.finish(olga, TAKE, clock.now())
    accepted_scans.record_rest(go_on)
    while deletion.drop_old_records("records", AT + clock.DAY):
        pass
    accepted_scans.find_rest()
    accepted_scans.record_rest(go_on)
    assert recorded(asset.id) == 0


@pytest.mark.usefixtures("no_time")
def test_a_scan_that_was_undone_meanwhile_is_not_recorded(
    cast: Cast, olga: Actor, dock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = assets.create(shell(cast.acme), name="Pallet")
    scan_unknown(olga, dock)
    assets.attach_tag(shell(cast.acme), asset.id, NewTag("rfid", EPC))
    monkeypatch.setattr(sliced_writing, "SLICE_SECONDS", -1.0)  # one scan in each transaction

    def undo_last(_seconds: float) -> bool:
        scans.undo(olga, f"{EPC}-{NUMBER - 1:04}", 0)
        return False

    accepted_scans.record_rest(undo_last)
    assert recorded(asset.id) == NUMBER - 1
    assert scans.stored(f"{EPC}-{NUMBER - 1:04}").outcome == Result.UNKNOWN  # type: ignore[union-attr]


@pytest.mark.usefixtures("no_time")
def test_it_stops_with_the_service_and_goes_on_later(cast: Cast, olga: Actor, dock: int) -> None:
    asset = assets.create(shell(cast.acme), name="Pallet", tags=[NewTag("rfid", EPC)])
    count_scans(olga, dock)
    assert stock_takes.finish(olga, TAKE, clock.now())
    accepted_scans.record_rest(lambda seconds: seconds == 0)  # after the first scan
    assert recorded(asset.id) == 2
    accepted_scans.find_rest()
    accepted_scans.record_rest(go_on)
    assert recorded(asset.id) == NUMBER
