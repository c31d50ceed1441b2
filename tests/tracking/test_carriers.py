"""Assets on a carrier move with it, by scans and reads, until they are unloaded."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor, shell
from edge.handhelds import scans
from edge.handhelds.scans import Answer, Result, Submitted
from edge.people import people
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.record import RecordFilter
from edge.tracking import board, carriers, positions, report, stays
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast

START = 1_700_000_000 * clock.SECOND
GAP = 300 * clock.SECOND


class Yard:
    """A pallet with two boxes at the dock, and a rack as destination."""

    def __init__(self, cast: Cast) -> None:
        somebody = shell(cast.acme)
        self.organization_id = cast.acme
        person = people.add_person(somebody, "Olga", Role.OPERATOR)
        self.olga: Actor = actors.person(cast.acme, person.id, "Olga")
        self.dock, self.rack, self.gate = (
            locations.create(somebody, name=name).id for name in ("Dock", "Rack", "Gate")
        )
        self.pallet, self.box, self.crate = (
            assets.create(somebody, name=name).id for name in ("Pallet", "Box", "Crate")
        )
        self.keys = {row.id: row.external_key for row in assets.list_page(cast.acme, RecordFilter(), limit=10).rows}
        self._number = 0
        self.answers: dict[str, Answer] = {}
        for number, asset_id in enumerate((self.pallet, self.box, self.crate)):
            self.scan(asset_id, self.dock, number)
        for asset_id in (self.box, self.crate):
            assert carriers.load(self.olga, self.pallet, asset_id, START + 5 * clock.SECOND)

    def scan(
        self, asset_id: int, location_id: int, second: int, *, onto: int | None = None, is_off: bool = False
    ) -> str:
        self._number += 1
        scan_id = f"scan-no-{self._number}"
        at = START + second * clock.SECOND
        scan = Submitted(scan_id, self.keys[asset_id], location_id, at, onto=onto, is_off=is_off)
        self.answers[scan_id] = scans.submit(self.olga, [scan], at)[0]
        return scan_id

    def undo(self, scan_id: str) -> None:
        assert scans.undo(self.olga, scan_id, GAP).result is Result.UNDONE

    def on(self, carrier_id: int) -> list[str]:
        return [name for _, name in carriers.on(self.organization_id, carrier_id)]

    def read(self, asset_id: int, location_id: int, second: int) -> None:
        """Record a read by a fixed reader."""
        at = START + second * clock.SECOND
        seen = [Scan(self.organization_id, asset_id, location_id, None, None, at, at, Quality.READER)]
        positions.record(seen, GAP)
        carriers.follow(seen, GAP)

    def at(self, asset_id: int) -> int | None:
        row = board.whereabouts(self.organization_id, asset_id)
        return row.location_id if row else None

    def qualities(self, asset_id: int) -> list[int]:
        return [move.quality for move in report.moves(self.organization_id, asset_id)]


def test_carried_assets_move_with_the_carrier_in_their_own_rows(cast: Cast) -> None:
    yard = Yard(cast)
    yard.scan(yard.pallet, yard.rack, 60)
    assert (yard.at(yard.box), yard.at(yard.crate)) == (yard.rack, yard.rack)
    assert yard.qualities(yard.box) == [Quality.CARRIED, Quality.HANDHELD]
    yard.read(yard.pallet, yard.gate, 120)
    assert (yard.at(yard.pallet), yard.at(yard.box)) == (yard.gate, yard.gate)
    assert yard.qualities(yard.box) == [Quality.CARRIED, Quality.CARRIED, Quality.HANDHELD]
    assert carriers.carrier_of(cast.acme, yard.box) == (yard.pallet, "Pallet")
    assert [name for _, name in carriers.on(cast.acme, yard.pallet)] == ["Box", "Crate"]


def test_unloaded_assets_stay(cast: Cast) -> None:
    yard = Yard(cast)
    carriers.unload(yard.box, START + 30 * clock.SECOND)
    yard.scan(yard.pallet, yard.rack, 60)
    assert (yard.at(yard.box), yard.at(yard.crate)) == (yard.dock, yard.rack)
    assert carriers.unload_all(cast.acme, yard.pallet, START + 70 * clock.SECOND)
    yard.scan(yard.pallet, yard.gate, 80)
    assert yard.at(yard.crate) == yard.rack
    assert not carriers.unload_all(cast.rival, yard.pallet, START)


def test_an_asset_seen_alone_elsewhere_counts_as_unloaded(cast: Cast) -> None:
    yard = Yard(cast)
    yard.read(yard.box, yard.gate, 40)
    yard.scan(yard.pallet, yard.rack, 60)
    assert (yard.at(yard.box), yard.at(yard.crate)) == (yard.gate, yard.rack)
    assert carriers.carrier_of(cast.acme, yard.box) is None


def test_an_asset_read_at_the_gate_before_its_pallet_is_still_on_it(cast: Cast) -> None:
    yard = Yard(cast)
    yard.read(yard.box, yard.gate, 59)
    yard.read(yard.pallet, yard.gate, 60)
    assert carriers.carrier_of(cast.acme, yard.box) == (yard.pallet, "Pallet")
    yard.read(yard.pallet, yard.rack, 120)
    assert yard.at(yard.box) == yard.rack


def test_an_asset_scanned_alone_where_its_carrier_comes_later_does_not_move_on_with_it(cast: Cast) -> None:
    yard = Yard(cast)
    yard.scan(yard.box, yard.rack, 60)
    yard.scan(yard.pallet, yard.rack, 60 + 301)
    assert yard.on(yard.pallet) == ["Crate"]
    yard.scan(yard.pallet, yard.gate, 500)
    assert (yard.at(yard.box), yard.at(yard.crate)) == (yard.rack, yard.gate)


def test_an_asset_scanned_alone_elsewhere_and_brought_back_does_not_move_with_its_old_carrier(cast: Cast) -> None:
    yard = Yard(cast)
    yard.scan(yard.box, yard.gate, 60)
    yard.scan(yard.box, yard.dock, 90)
    yard.scan(yard.pallet, yard.rack, 120)
    assert (yard.at(yard.box), yard.at(yard.crate), yard.on(yard.pallet)) == (yard.dock, yard.rack, ["Crate"])


@pytest.mark.parametrize("is_known", [True, False])
def test_an_asset_loaded_where_its_carrier_was_not_seen_moves_with_it(cast: Cast, is_known: bool) -> None:
    """The carrier was last seen elsewhere, or never."""
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley")
    yard.keys[trolley.id] = trolley.external_key
    if is_known:
        yard.scan(trolley.id, yard.gate, 10)
    yard.scan(yard.box, yard.dock, 20, onto=trolley.id)
    undone = yard.scan(yard.box, yard.dock, 30, is_off=True)
    yard.undo(undone)
    yard.scan(trolley.id, yard.rack, 60)
    assert (yard.at(yard.box), yard.on(trolley.id)) == (yard.rack, ["Box"])


def test_a_scan_of_the_carrier_before_the_newest_of_its_load_takes_the_load_there(cast: Cast) -> None:
    """Two devices; the one that scanned the pallet at the rack had no connection."""
    yard = Yard(cast)
    yard.scan(yard.box, yard.gate, 120)
    late = yard.scan(yard.pallet, yard.rack, 60)
    assert [move.location_id for move in report.moves(cast.acme, yard.box)] == [yard.gate, yard.rack, yard.dock]
    assert yard.on(yard.pallet) == ["Box", "Crate"]
    yard.undo(late)
    assert [move.location_id for move in report.moves(cast.acme, yard.box)] == [yard.gate, yard.dock]
    yard.scan(yard.pallet, yard.gate, 180)
    assert yard.on(yard.pallet) == ["Box", "Crate"]


def test_undoing_a_scan_of_the_carrier_moves_its_load_back(cast: Cast) -> None:
    yard = Yard(cast)
    scan_id = yard.scan(yard.pallet, yard.rack, 60)
    scans.undo(yard.olga, scan_id, GAP)
    assert [yard.at(one) for one in (yard.pallet, yard.box, yard.crate)] == [yard.dock] * 3
    assert yard.qualities(yard.box) == [Quality.HANDHELD]
    yard.scan(yard.pallet, yard.gate, 90)
    assert yard.at(yard.crate) == yard.gate


def test_a_late_scan_of_the_carrier_is_inserted_into_the_history_of_its_load(cast: Cast) -> None:
    yard = Yard(cast)
    yard.scan(yard.pallet, yard.gate, 120)
    late = yard.scan(yard.pallet, yard.rack, 60)
    assert [move.location_id for move in report.moves(cast.acme, yard.box)] == [yard.gate, yard.rack, yard.dock]
    scans.undo(yard.olga, late, GAP)
    assert [move.location_id for move in report.moves(cast.acme, yard.box)] == [yard.gate, yard.dock]


def test_a_late_scan_of_the_carrier_moves_only_its_load_of_that_time(cast: Cast) -> None:
    yard = Yard(cast)
    carriers.unload(yard.box, START + 30 * clock.SECOND)
    yard.read(yard.crate, yard.rack, 40)
    yard.scan(yard.pallet, yard.dock, 120)
    yard.scan(yard.pallet, yard.gate, 60)
    assert (yard.at(yard.box), yard.at(yard.crate)) == (yard.dock, yard.rack)
    assert Quality.CARRIED not in yard.qualities(yard.box) + yard.qualities(yard.crate)


def test_a_load_reported_late_follows_its_carrier(cast: Cast) -> None:
    """A device without a connection reports it after the pallet has moved on."""
    yard = Yard(cast)
    carriers.unload(yard.box, START + 10 * clock.SECOND)
    yard.scan(yard.pallet, yard.rack, 60)
    yard.read(yard.pallet, yard.gate, 120)
    assert yard.at(yard.box) == yard.dock
    assert carriers.load(yard.olga, yard.pallet, yard.box, START + 50 * clock.SECOND)
    assert [move.location_id for move in report.moves(cast.acme, yard.box)] == [yard.gate, yard.rack, yard.dock]
    assert carriers.load(yard.olga, yard.pallet, yard.box, START + 50 * clock.SECOND)
    assert len(report.moves(cast.acme, yard.box)) == 3
    yard.scan(yard.pallet, yard.rack, 180)
    assert yard.at(yard.box) == yard.rack


def test_carriers_on_carriers_without_cycles(cast: Cast) -> None:
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley")
    yard.keys[trolley.id] = trolley.external_key
    yard.scan(trolley.id, yard.dock, 10)
    assert carriers.load(yard.olga, trolley.id, yard.pallet, START + 11 * clock.SECOND)
    assert not carriers.load(yard.olga, yard.box, trolley.id, START + 12 * clock.SECOND)
    assert not carriers.load(yard.olga, yard.box, yard.box, START + 12 * clock.SECOND)
    yard.scan(trolley.id, yard.rack, 60)
    assert [yard.at(one) for one in (yard.pallet, yard.box, yard.crate)] == [yard.rack] * 3


def test_a_repeated_load_changes_nothing(cast: Cast) -> None:
    yard = Yard(cast)
    carriers.unload(yard.box, START + 30 * clock.SECOND)
    assert carriers.load(yard.olga, yard.pallet, yard.box, START + 5 * clock.SECOND)
    assert carriers.carrier_of(cast.acme, yard.box) is None
    theirs = assets.create(shell(cast.rival), name="Theirs")
    assert not carriers.load(yard.olga, theirs.id, yard.box, START)


def test_a_late_load_or_unload_does_not_change_a_newer_load(cast: Cast) -> None:
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley").id
    assert carriers.load(yard.olga, trolley, yard.box, START + 200 * clock.SECOND)
    carriers.unload(yard.box, START + 100 * clock.SECOND)
    assert carriers.load(yard.olga, yard.pallet, yard.box, START + 150 * clock.SECOND)
    assert carriers.unload_all(cast.acme, trolley, START + 120 * clock.SECOND)
    assert carriers.carrier_of(cast.acme, yard.box) == (trolley, "Trolley")


def test_a_late_load_ends_with_the_unload(cast: Cast) -> None:
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley").id
    carriers.unload(yard.box, START + 100 * clock.SECOND)
    assert carriers.load(yard.olga, trolley, yard.box, START + 50 * clock.SECOND)
    assert carriers.carrier_of(cast.acme, yard.box) is None


def test_a_late_scan_from_one_carrier_onto_another_ends_with_the_unload(cast: Cast) -> None:
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley").id
    carriers.unload(yard.box, START + 100 * clock.SECOND)
    yard.scan(yard.box, yard.dock, 50, onto=trolley, is_off=True)
    assert carriers.carrier_of(cast.acme, yard.box) is None


def test_undoing_a_load_unloads_the_asset_and_moves_it_back(cast: Cast) -> None:
    yard = Yard(cast)
    carriers.unload(yard.box, START + 10 * clock.SECOND)
    scan_id = yard.scan(yard.box, yard.dock, 20, onto=yard.pallet)
    assert yard.on(yard.pallet) == ["Box", "Crate"]
    yard.scan(yard.pallet, yard.rack, 60)
    yard.read(yard.pallet, yard.gate, 120)
    yard.read(yard.pallet, yard.gate, 130)
    assert yard.at(yard.box) == yard.gate
    yard.undo(scan_id)
    assert yard.on(yard.pallet) == ["Crate"]
    assert yard.qualities(yard.box) == [Quality.HANDHELD]
    assert (yard.at(yard.box), yard.at(yard.crate)) == (yard.dock, yard.gate)


def test_undoing_a_load_restores_the_load_on_the_previous_carrier(cast: Cast) -> None:
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley")
    scan_id = yard.scan(yard.box, yard.dock, 20, onto=trolley.id)
    yard.scan(yard.pallet, yard.rack, 60)
    assert yard.at(yard.box) == yard.dock
    yard.undo(scan_id)
    assert (yard.on(yard.pallet), yard.on(trolley.id)) == (["Box", "Crate"], [])
    assert yard.at(yard.box) == yard.rack


def test_undoing_an_unload_restores_the_load_and_follows_the_carrier(cast: Cast) -> None:
    yard = Yard(cast)
    scan_id = yard.scan(yard.box, yard.dock, 20, is_off=True)
    yard.scan(yard.pallet, yard.rack, 60)
    assert (yard.on(yard.pallet), yard.at(yard.box)) == (["Crate"], yard.dock)
    yard.undo(scan_id)
    assert (yard.on(yard.pallet), yard.at(yard.box)) == (["Box", "Crate"], yard.rack)
    yard.undo(scan_id)
    assert yard.on(yard.pallet) == ["Box", "Crate"]


def test_undoing_a_scan_elsewhere_puts_the_asset_back_on_its_carrier(cast: Cast) -> None:
    yard = Yard(cast)
    scan_id = yard.scan(yard.box, yard.gate, 40)
    yard.scan(yard.pallet, yard.rack, 60)
    assert (yard.at(yard.box), yard.on(yard.pallet)) == (yard.gate, ["Crate"])
    yard.undo(scan_id)
    assert (yard.at(yard.box), yard.on(yard.pallet)) == (yard.rack, ["Box", "Crate"])


def test_undoing_one_of_two_scans_elsewhere_leaves_the_asset_off_its_carrier(cast: Cast) -> None:
    yard = Yard(cast)
    yard.scan(yard.box, yard.gate, 30)
    scan_id = yard.scan(yard.box, yard.gate, 40)
    yard.scan(yard.pallet, yard.rack, 60)
    yard.undo(scan_id)
    assert (yard.at(yard.box), yard.on(yard.pallet)) == (yard.gate, ["Crate"])


def test_undoing_a_load_keeps_the_moves_with_the_previous_carrier(cast: Cast) -> None:
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley")
    yard.keys[trolley.id] = trolley.external_key
    yard.scan(yard.pallet, yard.gate, 30)
    scan_id = yard.scan(yard.box, yard.rack, 60, onto=trolley.id)
    yard.scan(trolley.id, yard.dock, 90)
    yard.undo(scan_id)
    places = [move.location_id for move in report.moves(yard.organization_id, yard.box)]
    assert places == [yard.gate, yard.dock]


def test_undoing_an_unload_from_before_the_carrier_was_emptied_puts_nothing_back(cast: Cast) -> None:
    yard = Yard(cast)
    scan_id = yard.scan(yard.box, yard.dock, 20, is_off=True)
    assert carriers.unload_all(cast.acme, yard.pallet, START + 40 * clock.SECOND)
    yard.undo(scan_id)
    assert (yard.on(yard.pallet), carriers.carrier_of(cast.acme, yard.box)) == ([], None)
    yard.scan(yard.pallet, yard.rack, 60)
    assert yard.at(yard.box) == yard.dock


@pytest.mark.parametrize("later", ["unload", "load"])
def test_a_restored_load_lasts_until_the_next_unload(cast: Cast, later: str) -> None:
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley")
    scan_id = yard.scan(yard.box, yard.dock, 20, is_off=True)
    yard.scan(yard.box, yard.dock, 40, is_off=later == "unload", onto=trolley.id if later == "load" else None)
    yard.scan(yard.pallet, yard.rack, 60)
    yard.undo(scan_id)
    assert yard.on(yard.pallet) == ["Crate"]
    assert yard.on(trolley.id) == (["Box"] if later == "load" else [])
    assert yard.at(yard.box) == yard.dock


def test_an_impossible_load_is_refused_and_records_nothing(cast: Cast) -> None:
    yard = Yard(cast)
    stranger = assets.create(shell(cast.rival), name="Theirs")
    retired = assets.create(shell(cast.acme), name="Old")
    assets.delete(shell(cast.acme), retired.id)
    tried = [
        yard.scan(yard.pallet, yard.rack, 20, onto=one) for one in (yard.box, stranger.id, retired.id, yard.pallet)
    ]
    answers = [yard.answers[one] for one in tried]
    assert {answer.result for answer in answers} == {Result.REFUSED}
    assert answers[0].reason == "The carrier is already on this asset"
    assert yard.at(yard.pallet) == yard.dock
    assert yard.on(yard.box) == []


def test_another_organization_sees_no_carrier_and_no_load(cast: Cast) -> None:
    yard = Yard(cast)
    assert carriers.carrier_of(cast.acme, yard.box) == (yard.pallet, "Pallet")
    assert carriers.on(cast.acme, yard.pallet) == [(yard.box, "Box"), (yard.crate, "Crate")]
    assert carriers.carrier_of(cast.rival, yard.box) is None
    assert carriers.on(cast.rival, yard.pallet) == []


def test_a_carrier_with_all_that_is_on_it_is_full_one_day(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it moves in one transaction: 100,000 assets kept all other writers waiting for seconds."""
    yard = Yard(cast)
    trolley, bag, parcel = (assets.create(shell(cast.acme), name=name) for name in ("Trolley", "Bag", "Parcel"))
    yard.keys |= {row.id: row.external_key for row in (trolley, bag, parcel)}
    monkeypatch.setattr(carriers, "MOST_CARRIED", 4)
    answers = [
        yard.answers[yard.scan(asset_id, yard.dock, second, onto=onto)]
        for second, asset_id, onto in (
            (10, bag.id, yard.pallet),  # the pallet has the box and the crate, too
            (20, yard.pallet, trolley.id),
            (30, parcel.id, yard.pallet),
            (31, parcel.id, trolley.id),
        )
    ]
    assert [one.result for one in answers] == [Result.RECORDED, Result.REFUSED, Result.REFUSED, Result.RECORDED]
    assert answers[1].reason == answers[2].reason == "This carrier is full"


def test_what_was_on_it_at_that_time_counts(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    yard = Yard(cast)
    parcel = assets.create(shell(cast.acme), name="Parcel")
    yard.keys[parcel.id] = parcel.external_key
    monkeypatch.setattr(carriers, "MOST_CARRIED", 3)
    yard.scan(yard.box, yard.dock, 50, is_off=True)
    assert yard.answers[yard.scan(parcel.id, yard.dock, 40, onto=yard.pallet)].result is Result.REFUSED
    assert yard.answers[yard.scan(parcel.id, yard.dock, 60, onto=yard.pallet)].result is Result.RECORDED


def test_a_load_reported_late_looks_at_its_own_asset_and_the_newest_places(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: each place of the carrier since then was looked at for each asset on it."""
    yard = Yard(cast)
    for second in range(60, 600, 60):
        yard.scan(yard.pallet, yard.rack if second % 120 else yard.gate, second)
    looked: list[int] = []
    is_recorded = stays.is_recorded
    monkeypatch.setattr(
        carriers.stays, "is_recorded", lambda asset_id, *rest: looked.append(asset_id) or is_recorded(asset_id, *rest)
    )
    monkeypatch.setattr(carriers, "MOST_VISITS", 4)
    parcel = assets.create(shell(cast.acme), name="Parcel")
    yard.keys[parcel.id] = parcel.external_key
    yard.scan(parcel.id, yard.dock, 10, onto=yard.pallet)
    assert looked == [parcel.id] * 4
    assert yard.at(parcel.id) == yard.at(yard.pallet)
    assert yard.qualities(parcel.id) == [Quality.CARRIED] * 4 + [Quality.HANDHELD]


def test_a_late_load_of_many_assets_changes_few_places(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a scan wrote visits times assets, for minutes with the write lock."""
    monkeypatch.setattr(carriers, "MOST_CHANGES", 6)
    yard = Yard(cast)
    trolley = assets.create(shell(cast.acme), name="Trolley")
    yard.keys[trolley.id] = trolley.external_key
    for number in range(10):
        yard.scan(trolley.id, yard.rack if number % 2 else yard.gate, 100 + 60 * number)
    yard.scan(yard.pallet, yard.gate, 50, onto=trolley.id)
    assert [yard.at(one) for one in (yard.pallet, yard.box, yard.crate)] == [yard.rack] * 3
    assert yard.qualities(yard.box).count(Quality.CARRIED) == 3  # two places, and its own of before
