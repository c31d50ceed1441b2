"""Events of an asset form a chain: arrived, moved from the last reported location, unseen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge import clock
from edge.clock import SECOND
from edge.database.connection import execute, execute_many, writing
from edge.events import detection, log
from edge.events.log import Event, EventKind, Filter
from edge.readers import readers, status
from edge.readers.status import ReaderStatus
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import asset_values
from edge.tracking.asset_values import NewValues
from edge.tracking.late_reads import take_back
from edge.tracking.positions import record_by_person
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.doors.site import Gate, new_pipeline, turning_back
from tests.events.conftest import GAP, SILENCE, Warehouse, make_events, warehouse
from tests.observed import steps_of

__all__ = ["warehouse"]


def logged(warehouse: Warehouse, asset_id: int | None = None) -> list[Event]:
    events = log.after(warehouse.organization_id, 0, 10_000)
    return [event for event in events if asset_id in (None, event.subject_id)]


def kinds(warehouse: Warehouse, asset_id: int) -> list[str]:
    return [event.kind.removeprefix("asset.") for event in logged(warehouse, asset_id)]


def scan_by_person(warehouse: Warehouse, asset_id: int, place: str, second: int) -> int:
    at = warehouse.began + second * SECOND
    where = warehouse.places[place]
    return record_by_person(Scan(warehouse.organization_id, asset_id, where, None, None, at, at, Quality.HANDHELD))


def test_changes_of_an_asset_record(warehouse: Warehouse) -> None:
    pallet = warehouse.add_asset("P-1")
    make_events()
    assets.attach_tag(warehouse.actor, pallet, NewTag("rfid", "E280"))
    make_events()
    assets.delete(warehouse.actor, pallet)
    make_events()
    assets.restore(warehouse.actor, pallet)
    make_events()
    assert kinds(warehouse, pallet) == ["created", "changed", "deleted", "created"]


def test_a_very_deep_tree_is_not_read_whole_for_each_event(warehouse: Warehouse) -> None:
    """Others wait meanwhile: names of 100,000 levels would be read for each batch of events."""
    rows = [(10_000 + level, warehouse.organization_id, 9_999 + level if level else None) for level in range(1_000)]
    execute_many(
        "INSERT INTO location (id, organization_id, parent_id, external_key, name, valid_from, created_at, updated_at) "
        "VALUES (?1, ?2, ?3, ?1, ?1, 0, 0, 0)",
        rows,
    )
    within: set[int] = set()
    steps = steps_of(lambda: within.update(detection.Locations([10_999]).within(10_999)))
    assert within == set(range(10_900, 11_000))
    assert steps < 10_000


def test_a_visit_within_one_batch_is_logged(warehouse: Warehouse) -> None:
    pallet = warehouse.add_asset("P-1")
    warehouse.record([(pallet, "north dock", 1), (pallet, "south dock", 2), (pallet, "north dock", 3)])
    make_events()
    warehouse.record([(pallet, "south dock", 4), (pallet, "north dock", 5)])
    make_events()
    assert kinds(warehouse, pallet) == ["created", "arrived", "moved", "moved", "moved", "moved"]


def test_repeated_reads_at_one_location_log_nothing(warehouse: Warehouse) -> None:
    pallet = warehouse.add_asset("P-1")
    for second in (1, 2, 1000, 2000):
        warehouse.seen(pallet, "north dock", second)
        make_events()
    assert kinds(warehouse, pallet) == ["created", "arrived"]


def test_a_late_scan_logs_nothing_and_an_undo_logs_a_move(warehouse: Warehouse) -> None:
    pallet = warehouse.add_asset("P-1")
    warehouse.seen(pallet, "north dock", 1)
    seq = scan_by_person(warehouse, pallet, "south dock", 100)
    make_events()
    warehouse.seen(pallet, "south", 50)
    make_events()
    assert kinds(warehouse, pallet) == ["created", "arrived", "moved"]
    take_back(pallet, warehouse.began + 100 * SECOND, seq, GAP)
    make_events()
    assert logged(warehouse, pallet)[-1].data["location"]["external_key"] == "SOUTH"


def test_unseen_and_seen_again(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    pallet = warehouse.add_asset("P-1")
    warehouse.seen(pallet, "north dock", 1)
    make_events()
    assert detection.log_unseen(SILENCE) == 0
    tomorrow = clock.now() + clock.DAY
    monkeypatch.setattr(clock, "now", lambda: tomorrow)
    assert detection.log_unseen(SILENCE) == 1
    assert detection.log_unseen(SILENCE) == 0
    assert logged(warehouse, pallet)[-1].at == warehouse.began + SECOND + SILENCE.asset
    warehouse.seen(pallet, "north dock", (tomorrow - warehouse.began) // SECOND)
    make_events()
    detection.log_unseen(SILENCE)
    assert kinds(warehouse, pallet) == ["created", "arrived", "unseen", "arrived"]


def test_readers_go_offline_and_come_back(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def receive_status(*, is_offline: bool = False) -> None:
        status.record_readers([ReaderStatus(warehouse.reader, clock.now(), None, None, 1, None, is_offline)])
        detection.log_readers(SILENCE)

    receive_status()
    later = clock.now() + SILENCE.reader + 1
    monkeypatch.setattr(clock, "now", lambda: later)
    detection.log_readers(SILENCE)
    receive_status()
    receive_status(is_offline=True)
    receive_status(is_offline=True)
    assert [event.kind for event in logged(warehouse)] == ["reader.online", "reader.offline"] * 2
    assert logged(warehouse)[0].data["reader"] == {"id": warehouse.reader, "name": "Portal"}
    readers.remove_reader(warehouse.actor, warehouse.reader)
    assert detection.log_readers(SILENCE) == 0


@pytest.mark.parametrize(
    ("chosen", "place", "expected"),
    [
        (("asset.moved", "asset.arrived"), None, ["arrived", "moved", "moved", "moved"]),
        (("asset.moved", "asset.arrived"), "south", [None, "arrived", "moved", "moved"]),
        (("asset.arrived",), "south", [None, "arrived", None, None]),
        (("asset.moved",), "south", [None, "moved", "moved", "moved"]),
        (("asset.arrived",), "north dock", ["arrived", None, None, "arrived"]),
        (("asset.unseen",), None, [None] * 4),
    ],
)
def test_a_location_filter_includes_sub_locations(
    warehouse: Warehouse, chosen: tuple[str, ...], place: str | None, expected: list[str | None]
) -> None:
    pallet = warehouse.add_asset("P-1")
    for second, where in enumerate(("north dock", "south dock", "south", "north dock")):
        warehouse.seen(pallet, where, second * 10)
    make_events()
    event_filter = Filter(frozenset(chosen), warehouse.places[place] if place else None)
    matched = [event_filter.kind_of(event) for event in logged(warehouse, pallet)[1:]]
    assert matched == [name and f"asset.{name}" for name in expected]


def test_nothing_is_recorded_while_events_are_off(warehouse: Warehouse) -> None:
    detection.stop()
    pallet = warehouse.add_asset("P-1")
    warehouse.seen(pallet, "north dock", 1)
    assert execute("SELECT count(*) FROM change").fetchone() == (0,)
    for table in ("event", "event_asset", "event_reader"):
        assert execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_last_seen_updates_run_no_trigger(warehouse: Warehouse) -> None:
    """Nearly all writes of an ingest batch are of this kind."""
    plan = execute("EXPLAIN UPDATE track SET last_seen_at = 1, dwell_started_at = 1, row_at = 1 WHERE no = 1")
    assert not any(row[1] == "Program" for row in plan)
    moved = execute("EXPLAIN UPDATE track SET location_id = 1 WHERE no = 1").fetchall()
    assert any(row[1] == "Program" for row in moved)


PLACES = ("north dock", "south dock", "south")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["seen", "seen", "seen", "person", "undo", "batch", "look", "delete", "restore"]),
        st.integers(0, 1),
        st.integers(0, 3000),
        st.sampled_from(PLACES),
    ),
    max_size=25,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_the_chain_is_consistent_and_ends_at_the_current_location(
    warehouse: Warehouse, steps: Sequence[tuple[str, int, int, str]]
) -> None:
    pallets = [assets.create(warehouse.actor, name="pallet").id for _ in range(2)]
    by_person: list[tuple[int, int, int]] = []
    for action, which, second, place in steps:
        pallet, at = pallets[which], warehouse.began + second * SECOND
        is_live = execute("SELECT deleted_at IS NULL FROM asset WHERE id = ?", (pallet,)).fetchone()[0]
        if action == "seen" and is_live:
            warehouse.seen(pallet, place, second)
        elif action == "batch" and is_live:
            warehouse.record([(pallet, one, second + number) for number, one in enumerate(PLACES)])
        elif action == "person" and is_live:
            by_person.append((pallet, at, scan_by_person(warehouse, pallet, place, second)))
        elif action == "undo" and by_person:
            take_back(*by_person.pop(), GAP)
        elif action == "look":
            make_events()
        elif action == "delete" and is_live:
            assets.delete(warehouse.actor, pallet)
        elif action == "restore" and not is_live:
            assets.restore(warehouse.actor, pallet)
    make_events()
    for pallet in pallets:
        assert_chain(warehouse, pallet)


def assert_chain(warehouse: Warehouse, pallet: int) -> None:
    is_live, at = False, None
    for event in logged(warehouse, pallet):
        if event.kind is EventKind.ASSET_CREATED:
            assert not is_live
            is_live = True
        elif event.kind is EventKind.ASSET_DELETED:
            assert is_live
            is_live, at = False, None
        elif event.kind is EventKind.ASSET_ARRIVED:
            assert (is_live, at) == (True, None)
            at = event.data["location"]["id"]
        elif event.kind is EventKind.ASSET_MOVED:
            assert (is_live, at) == (True, event.data["previous_location"]["id"])
            assert at != event.data["location"]["id"]
            at = event.data["location"]["id"]
        elif event.kind is EventKind.ASSET_UNSEEN:
            assert at is not None
            at = None
    row = execute(
        "SELECT a.deleted_at IS NULL, p.location_id FROM asset a LEFT JOIN position p ON p.asset_id = a.id "
        "WHERE a.id = ?",
        (pallet,),
    ).fetchone()
    assert (is_live, at) == (bool(row[0]), row[1] if row[0] else None)


def test_organizations_have_separate_events(warehouse: Warehouse, cast: Cast) -> None:
    rival = Warehouse(cast.rival, "rival/")
    box = rival.add_asset("B-1")
    rival.seen(box, "north dock", 1)
    locations.create(warehouse.actor, name="Hall")
    make_events()
    assert logged(warehouse) == []
    (created, arrived) = log.after(cast.rival, 0, 10)
    assert (created.kind, arrived.kind) == ("asset.created", "asset.arrived")
    assert log.position_of(cast.acme, arrived.id) is None
    assert log.with_numbers(cast.acme, [created.seq, arrived.seq]) == {}


def test_a_passage_is_an_event_and_a_changed_direction_another(warehouse: Warehouse) -> None:
    gate = Gate(warehouse.organization_id)
    make_events()
    pipeline, reads = new_pipeline(), turning_back(0)
    gate.receive(reads[: len(reads) // 2], pipeline)
    make_events()
    gate.receive(reads[len(reads) // 2 :], pipeline)
    make_events()
    passed = [one for one in logged(warehouse, gate.assets[0]) if one.kind is EventKind.ASSET_PASSED]
    first, second = passed[0].data["passage"], passed[-1].data["passage"]
    assert (first["direction"], second["direction"]) == ("out", "turned_back")
    assert first["id"] == second["id"]
    assert second["revision"] > first["revision"]
    assert passed[0].data["door"]["name"] == "Gate"
    assert gate.hall in passed[0].within


def test_only_live_assets_with_values_report_values(warehouse: Warehouse) -> None:
    """The values of an asset may be gone, or the asset retired, before its candidate is evaluated."""
    kept, retired, empty = (warehouse.add_asset(key) for key in ("P-1", "P-2", "P-3"))
    with writing():
        for asset_id in (kept, retired):
            asset_values.record(
                [NewValues(warehouse.organization_id, asset_id, warehouse.began, 50, None, None, is_pressed=False)]
            )
    assets.delete(warehouse.actor, retired)
    with writing():
        detection._report_values([kept, retired, empty])
    measured = [event for event in logged(warehouse) if event.kind == EventKind.ASSET_MEASURED]
    assert [event.subject_id for event in measured] == [kept]
