"""The explanation of an asset's location."""

from __future__ import annotations

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.readers import readers
from edge.records import assets, locations
from edge.tracking.decision_rule import Rule
from edge.tracking.positions import record, settle
from edge.tracking.recent_reads import RecentReads
from edge.tracking.signal_strength import Weight
from edge.tracking.stays import Quality, Scan
from edge.tracking.why import why_here
from tests.conftest import Cast


def test_it_shows_the_rule_and_evidence_of_each_move_and_the_held_reads(cast: Cast) -> None:
    actor = shell(cast.acme)
    dock, aisle = (locations.create(actor, name=name).id for name in ("Dock", "Aisle"))
    reader = readers.add_reader(actor, name="dock", topic="site/dock", format="csl", location_id=dock)
    asset = assets.create(actor, name="pallet").id
    start = (clock.now() // SECOND - 60) * SECOND

    def read(second: float, location_id: int, rssi: float) -> Scan:
        at = start + round(second * SECOND)
        return Scan(cast.acme, asset, location_id, reader.id, None, at, at, Quality.READER, rssi)

    recent = RecentReads()
    recent.refresh()
    reads = [read(second, dock, -52) for second in range(10)]
    reads += [read(second + 0.5, aisle, -50) for second in range(10, 20)]
    reads += [read(20.1, dock, -40)]
    record(reads, 300 * SECOND, recent)

    assert why_here(cast.rival, asset) is None
    why = why_here(cast.acme, asset)
    assert why
    move, first = why.reasons
    assert (move.location_name, move.rule, first.location_name, first.rule) == (
        "Aisle", Rule.STRONGER, "Dock", Rule.FIRST,
    )  # fmt: skip
    assert [(one.name, one.is_here) for one in move.competitors] == [("Dock", True), ("Aisle", False)]
    assert move.text.endswith("for long enough (dock)")
    assert not move.is_winner(move.competitors[1]), "its lead tells"
    assert first.is_winner(first.competitors[0])
    assert (move.competitors[1].collected or 0) >= move.competitors[1].needed
    assert [one.name for one in why.held_back] == ["Dock"]
    assert 0 < (why.held_back[0].collected or 0) < why.held_back[0].needed
    assert why.waiting
    assert (why.waiting.name, why.waiting.text) == (
        "Dock", "it counts if the reader at the current location misses the asset for another 60 s",
    )  # fmt: skip
    assert [(one.name, one.strongest) for one in why.now] == [("Aisle", -50.0), ("Dock", -40.0)]


def test_it_shows_antenna_and_delay_and_that_a_portal_needs_no_lead(cast: Cast) -> None:
    actor = shell(cast.acme)
    dock, gate = (locations.create(actor, name=name).id for name in ("Dock", "Gate"))
    reader = readers.add_reader(actor, name="hall", topic="site/hall", format="csl", location_id=dock)
    asset = assets.create(actor, name="pallet").id
    at = clock.now() - 200 * SECOND
    passing = Scan(cast.acme, asset, gate, reader.id, 2, at, at + 90 * SECOND, Quality.READER, -60, Weight.RFID_PORTAL)
    staying = Scan(cast.acme, asset, dock, reader.id, 1, at - SECOND, at - SECOND, Quality.READER, -50)
    recent = RecentReads()
    recent.refresh()
    record([staying, passing], 300 * SECOND, recent)
    settle(recent, 300 * SECOND, clock.now() // SECOND)

    why = why_here(cast.acme, asset)
    assert why
    assert [one.text for one in why.reasons] == [
        "it passed a portal (hall, antenna 2, reported 90 s late)",
        "it was read there for the first time (hall, antenna 1)",
    ]
    move = why.reasons[0]
    assert not why.waiting
    assert [move.is_winner(one) for one in move.competitors] == [False, True]


def test_it_shows_rejected_reads_of_a_portal(cast: Cast) -> None:
    actor = shell(cast.acme)
    dock, gate = (locations.create(actor, name=name).id for name in ("Dock", "Gate"))
    reader = readers.add_reader(actor, name="hall", topic="site/hall", format="csl", location_id=dock)
    asset = assets.create(actor, name="pallet").id
    at = clock.now() - 200 * SECOND
    stray = Scan(cast.acme, asset, gate, reader.id, 2, at, at, Quality.READER, -72, Weight.RFID_PORTAL)
    staying = [
        Scan(cast.acme, asset, dock, reader.id, 1, moment, moment, Quality.READER, -45)
        for moment in range(at - 9 * SECOND, at + 10 * SECOND, 2 * SECOND)
    ]
    recent = RecentReads()
    recent.refresh()
    record([*staying, stray], 300 * SECOND, recent)
    why = why_here(cast.acme, asset)
    assert why
    assert [reason.location_name for reason in why.reasons] == ["Dock"]
    assert why.rejected == ["Gate"]
    assert not why.waiting
