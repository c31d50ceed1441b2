"""Passages from ingest to the table: directions, late reads, restarts, and no cost without doors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge import clock
from edge.clock import HOUR
from edge.database import connection
from edge.database.connection import database, execute
from edge.doors import doors, passages
from edge.doors.doors import DoorAntenna
from edge.doors.passage_rule import Direction, Side
from edge.ingest.pipeline import Pipeline
from edge.readers.kept_messages import Window
from edge.records import assets
from edge.records.tags import NewTag
from edge.tracking import rssi_offsets
from tests.conftest import Cast
from tests.doors.site import GAP, Gate, GateRead, new_pipeline, passing, turning_back


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.PRAGMAS, "synchronous", "off")


@pytest.fixture
def gate(cast: Cast) -> Gate:
    return Gate(cast.acme)


def test_a_forklift_that_leaves_passes_out_and_one_that_arrives_passes_in(gate: Gate) -> None:
    gate.receive(passing(0, asset=0) + passing(60, asset=1, is_out=False))
    assert [(asset, direction) for asset, direction, _ in gate.passages()] == [(0, "OUT"), (1, "IN")]
    assert all(abs(at - crossed) < 0.6 for (_, _, at), crossed in zip(gate.passages(), (2, 62), strict=True))


def test_a_driver_who_turns_back_did_not_leave(gate: Gate) -> None:
    gate.receive(turning_back(0))
    assert [direction for _, direction, _ in gate.passages()] == ["TURNED_BACK"]


def test_a_revised_passage_keeps_its_number_and_counts_its_revision(gate: Gate) -> None:
    pipeline, reads = new_pipeline(), turning_back(0)
    gate.receive(reads[: len(reads) // 2], pipeline)
    assert [direction for _, direction, _ in gate.passages()] == ["OUT"]
    (before,) = execute("SELECT no FROM passage").fetchone()
    gate.receive(reads[len(reads) // 2 :], pipeline)
    assert execute("SELECT no, direction FROM passage").fetchall() == [(before, Direction.TURNED_BACK)]
    assert execute("SELECT revision FROM passage").fetchone()[0] >= 1


def test_a_pallet_in_front_of_the_door_passes_nothing(gate: Gate) -> None:
    reads = [GateRead(step * 0.2, 0, 1, -50) for step in range(600)]
    strays = [GateRead(at + 0.01, 0, 2, -72) for at in range(0, 120, 9)]
    gate.receive(sorted(reads + strays), size=40)
    assert gate.passages() == []


def test_few_reads_leave_the_direction_unknown(gate: Gate) -> None:
    gate.receive([GateRead(0, 0, 1, -50), GateRead(1, 0, 1, -48), GateRead(2, 0, 2, -47), GateRead(3, 0, 2, -52)])
    assert [direction for _, direction, _ in gate.passages()] == ["UNKNOWN"]


def test_readers_without_rssi_detect_passages(gate: Gate) -> None:
    gate.receive([read._replace(rssi=None) for read in passing(0)])
    assert [direction for _, direction, _ in gate.passages()] == ["OUT"]


def test_the_next_door_reads_along_but_is_not_passed(gate: Gate) -> None:
    gate.add_door("Ramp", 3, 4)
    strong, weak = passing(0), passing(0, ports=(3, 4))
    weak = [read._replace(rssi=(read.rssi or 0) - 12, at=read.at + 0.02) for read in weak]
    gate.receive(sorted(strong + weak))
    assert execute("SELECT DISTINCT door_id FROM passage WHERE direction < 4").fetchall() == [(gate.door,)]


def test_rssi_offsets_decide_between_two_doors(gate: Gate) -> None:
    ramp = gate.add_door("Ramp", 3, 4)
    for port in (3, 4):
        rssi_offsets.set_offset(gate.actor, gate.reader, "gate", 24, port)
    weak = [read._replace(rssi=(read.rssi or 0) - 12, at=read.at + 0.02) for read in passing(0, ports=(3, 4))]
    gate.receive(sorted(passing(0) + weak))
    assert execute("SELECT DISTINCT door_id FROM passage WHERE direction < 4").fetchall() == [(ramp,)]


def test_an_antenna_of_two_doors_counts_for_both(gate: Gate) -> None:
    """A hall antenna may stand behind two doors."""
    ramp = gate.add_door("Ramp", 1, 4)
    gate.receive(passing(0, ports=(1, 4)) + passing(60))
    assert execute("SELECT door_id, direction FROM passage ORDER BY at").fetchall() == [
        (ramp, Direction.OUT),
        (gate.door, Direction.OUT),
    ]


def test_a_replay_of_the_same_reads_changes_nothing(gate: Gate) -> None:
    gate.receive(passing(0))
    before = execute("SELECT * FROM passage").fetchall()
    gate.receive(passing(0), size=7)
    assert execute("SELECT * FROM passage").fetchall() == before


def test_reads_before_the_tag_was_attached_are_replayed(gate: Gate) -> None:
    gate.epcs[0] = "30BAD0"
    pipeline = Pipeline(GAP, 7, window=Window(1 << 20, HOUR))
    gate.receive(passing(0), pipeline)
    assert gate.passages() == []
    gate.assets[0] = assets.create(gate.actor, name="Late", tags=[NewTag("rfid", "30BAD0")]).id
    while pipeline.catch_up():
        pass
    assert [direction for _, direction, _ in gate.passages()] == ["OUT"]


def swap_sides(gate: Gate) -> None:
    sides = [DoorAntenna(Side.INNER, gate.reader, 2), DoorAntenna(Side.OUTER, gate.reader, 1)]
    doors.set_antennas(gate.actor, gate.door, sides)


def give_to_another_door(gate: Gate) -> None:
    doors.set_antennas(gate.actor, gate.door, [])
    gate.add_door("Ramp", 1, 2)


@pytest.mark.parametrize("change", [swap_sides, give_to_another_door])
def test_a_replay_uses_the_doors_of_the_time_of_the_reads(gate: Gate, change: Callable[[Gate], None]) -> None:
    """Neither reads that had counted nor those of a tag attached later pass doors that had other antennas then."""
    unknown = [NewTag("rfid", "30BAD0"), NewTag("rfid", "30BAD1")]
    gate.epcs += [tag.value for tag in unknown]
    pipeline = Pipeline(GAP, 7, window=Window(1 << 20, HOUR))
    reads = passing(0) + passing(0, asset=2) + passing(0, asset=3)
    gate.receive(sorted(reads), pipeline, size=12)
    before = execute("SELECT * FROM passage").fetchall()
    change(gate)
    for number, tag in enumerate(unknown):
        gate.assets.append(assets.create(gate.actor, name=f"Late {number}", tags=[tag]).id)
        while pipeline.catch_up():
            pass
        assert execute("SELECT * FROM passage WHERE asset_id = ?", (gate.assets[0],)).fetchall() == before
    assert {one for _, one in execute("SELECT DISTINCT asset_id, door_id FROM passage")} == {gate.door}
    assert sorted(one[:2] for one in gate.passages()) == [(0, "OUT"), (2, "OUT"), (3, "OUT")]


def test_without_doors_a_batch_runs_one_more_statement(cast: Cast) -> None:
    gate = Gate(cast.acme)
    doors.remove_door(gate.actor, gate.door)
    pipeline = new_pipeline()
    gate.receive(passing(0)[:6], pipeline)
    executed: list[str] = []
    database.connection().set_trace_callback(executed.append)
    gate.receive(passing(3)[:3], pipeline)
    assert [sql for sql in executed if "door" in sql or "passage" in sql] == ["SELECT doors FROM version"]


def test_old_reads_are_dropped_after_ten_minutes(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = new_pipeline()
    gate.receive(passing(0), pipeline)
    assert execute("SELECT count(*) FROM door_read").fetchone()[0]
    later = clock.now() + passages.KEPT_FOR + clock.SECOND
    monkeypatch.setattr(clock, "now", lambda: later)
    gate.receive(passing(1000, asset=1)[:3], pipeline)
    assert execute("SELECT DISTINCT asset_id FROM door_read").fetchall() == [(gate.assets[1],)]


@pytest.mark.parametrize(("at", "port"), [(1.0, 1), (9.0, 2), (5.0, 1)])
def test_a_read_of_a_passage_that_comes_after_its_other_reads_were_dropped_changes_nothing(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, at: float, port: int
) -> None:
    """Before, it withdrew the passage, since the reads that prove it are no longer known."""
    pipeline = new_pipeline()
    gate.receive(passing(0), pipeline)
    before = execute("SELECT * FROM passage").fetchall()
    assert [direction for _, direction, _ in gate.passages()] == ["OUT"]
    later = clock.now() + passages.KEPT_FOR + clock.SECOND
    monkeypatch.setattr(clock, "now", lambda: later)
    for line in (pipeline, new_pipeline()):
        gate.receive(passing(1000, asset=1)[:3], line)
        gate.receive([GateRead(at, 0, port, -50), GateRead(at + 0.2, 0, 3 - port, -71)], line)
        assert execute("SELECT * FROM passage WHERE asset_id = ?", (gate.assets[0],)).fetchall() == before


def test_reads_are_also_dropped_after_the_clock_was_set_back(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, ahead = new_pipeline(), clock.now() + clock.DAY
    with monkeypatch.context() as wrong:
        wrong.setattr(clock, "now", lambda: ahead)
        gate.receive(passing(0), pipeline)
        assert execute("SELECT count(*) FROM door_read").fetchone()[0]
    gate.receive(passing(1000, asset=1)[:3], pipeline)
    assert execute("SELECT DISTINCT asset_id FROM door_read").fetchall() == [(gate.assets[1],)]


def settled(gate: Gate) -> list[tuple[Any, ...]]:
    return execute(
        "SELECT asset_id, door_id, at, direction, confidence, inner_reads, outer_reads, since, until, reads "
        "FROM passage WHERE direction <> 4 ORDER BY asset_id, at, door_id"
    ).fetchall()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), size=st.integers(1, 30), stops=st.integers(0, 3))
def test_any_order_and_any_batches_settle_on_the_same_passages(gate: Gate, seed: int, size: int, stops: int) -> None:
    chance = random.Random(seed)
    reads = _busy_hours(chance)
    for table in ("passage", "door_read"):
        execute(f"DELETE FROM {table}")
    gate.receive(sorted(reads), size=1000)
    expected = settled(gate)
    for table in ("passage", "door_read"):
        execute(f"DELETE FROM {table}")
    chance.shuffle(reads)
    parts = [reads[number :: stops + 1] for number in range(stops + 1)]
    for part in parts:  # each with a new process
        gate.receive(part, new_pipeline(), size=size)
    assert settled(gate) == expected


def _busy_hours(chance: random.Random) -> list[GateRead]:
    """Return the reads of two pallets: passages, turns, strays, a pallet in the doorway, single reads."""
    reads: set[GateRead] = set()
    at = 0.0
    for _ in range(chance.randint(2, 5)):
        asset = chance.randrange(2)
        kind = chance.randrange(5)
        if kind < 2:
            reads.update(passing(at, asset=asset, is_out=kind == 0))
        elif kind == 2:
            reads.update(turning_back(at, asset=asset))
        elif kind == 3:
            for step in range(chance.choice((20, 200))):
                reads.add(GateRead(at + step * 0.4, asset, chance.choice((1, 2)), chance.randint(-70, -45)))
        else:
            reads.add(GateRead(at, asset, chance.choice((1, 2)), chance.randint(-70, -45)))
        at += chance.choice((3, 8, 20, 60, 300))
    return [read for read in reads if chance.random() < 0.9]
