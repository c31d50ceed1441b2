"""Ticks follow from passages and scans: directions, carriers, late and undone evidence, any order of arrival."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.database.connection import execute
from edge.doors.passage_rule import Direction
from edge.expected_lists import expected_lists
from edge.expected_lists.ticks import COUNTED_FOR
from edge.records import assets
from tests.conftest import Cast
from tests.doors.site import Gate, new_pipeline, passing, turning_back
from tests.expected_lists.yard import Yard


@pytest.fixture
def yard(cast: Cast) -> Yard:
    return Yard(cast.acme)


def test_a_passage_in_the_right_direction_ticks_an_item_off(yard: Yard) -> None:
    list_id = yard.add_list(0, 1, 2)
    yard.pass_door(0, 1)
    yard.pass_door(1, 1, Direction.IN)
    yard.pass_door(2, 1, Direction.UNKNOWN)
    yard.pass_door(2, 2, Direction.TURNED_BACK)
    assert yard.results(list_id) == {"missing": ["P-1", "P-2"], "ticked": ["P-0"]}


def test_what_comes_back_is_missing_again_and_no_longer_surplus(yard: Yard) -> None:
    list_id = yard.add_list(0)
    for number in (0, 1):
        yard.pass_door(number, 1)
    assert yard.results(list_id) == {"surplus": ["P-1"], "ticked": ["P-0"]}
    for number in (0, 1):
        yard.pass_door(number, 9, Direction.IN)
    assert yard.results(list_id) == {"missing": ["P-0"]}


def test_an_item_of_another_open_or_prepared_list_is_wrong(yard: Yard) -> None:
    list_id = yard.add_list(0)
    yard.add_list(1, name="Truck 13", is_started=False)
    yard.pass_door(1, 1)
    yard.pass_door(2, 1)
    lines = yard.state(list_id).lines
    assert [(line.result, line.asset_key, line.other) for line in lines] == [
        ("missing", "P-0", ""),
        ("wrong", "P-1", "Truck 13"),
        ("surplus", "P-2", ""),
    ]


def test_scans_at_the_location_of_the_door_tick_but_add_no_surplus(yard: Yard) -> None:
    list_id = yard.add_list(0, 1)
    yard.scan(0, 1)
    yard.scan(1, 1, yard.rack)
    yard.scan(2, 1)
    assert yard.results(list_id) == {"missing": ["P-1"], "ticked": ["P-0"]}


def test_at_a_location_scans_tick_off_and_show_surplus(yard: Yard) -> None:
    list_id = yard.add_list(0, 1, at_dock=True)
    scan_id = yard.scan(0, 1)
    yard.scan(2, 1)
    yard.scan(0, 5, yard.rack)
    assert yard.results(list_id) == {"missing": ["P-1"], "surplus": ["P-2"], "ticked": ["P-0"]}
    yard.undo(scan_id)
    assert yard.results(list_id) == {"missing": ["P-0", "P-1"], "surplus": ["P-2"]}


def test_contents_pass_with_their_carrier_which_is_not_surplus(yard: Yard) -> None:
    list_id = yard.add_list(0, 1)
    yard.load(3, 0, 1)
    yard.load(3, 2, 1)
    yard.pass_door(3, 5)
    yard.load(3, 1, 9)
    assert yard.results(list_id) == {"missing": ["P-1"], "ticked": ["P-0"]}
    assert [line.how for line in yard.state(list_id).of("ticked")] == ["carrier"]


def test_a_late_decision_and_a_withdrawn_passage_correct_the_ticks(yard: Yard) -> None:
    list_id = yard.add_list(0, 1)
    first, second = yard.pass_door(0, 1), yard.pass_door(1, 1)
    execute("UPDATE passage SET direction = ? WHERE no = ?", (Direction.WITHDRAWN, first))
    execute("UPDATE passage SET direction = ? WHERE no = ?", (Direction.IN, second))
    assert yard.results(list_id) == {"missing": ["P-0", "P-1"]}


def test_only_the_time_from_the_start_for_seven_days_counts(yard: Yard) -> None:
    list_id = yard.add_list(0, 1)
    yard.pass_door(0, -1)
    yard.pass_door(1, COUNTED_FOR // 1_000_000)
    assert yard.results(list_id) == {"missing": ["P-0", "P-1"]}


def test_a_prepared_list_ticks_nothing_off(yard: Yard) -> None:
    list_id = yard.add_list(0, is_started=False)
    yard.pass_door(0, 1)
    assert yard.results(list_id) == {"missing": ["P-0"]}


def test_another_organization_adds_nothing(cast: Cast, yard: Yard) -> None:
    rival = Yard(cast.rival)
    theirs = rival.add_list(1, name="Theirs", is_started=False)
    list_id = yard.add_list(0)
    rival.pass_door(0, 1)
    assert yard.results(list_id) == {"missing": ["P-0"]}
    assert rival.results(theirs) == {"missing": ["P-1"]}


def test_passages_of_real_reads_tick_off_in_any_order_of_the_reads(cast: Cast) -> None:
    """A driver who turns back has not loaded the pallet, even if the reads of the way back arrive late."""
    gate = Gate(cast.acme, count=3)
    keys = [assets.get(cast.acme, one).external_key for one in gate.assets[:2]]
    list_id = expected_lists.create(gate.actor, "Truck", keys, door_id=gate.door, direction=Direction.OUT)
    expected_lists.start(gate.actor, list_id)
    execute("UPDATE expected_list SET started_at = ?", (gate.began - 1,))
    back = turning_back(0, asset=1)
    pipeline = new_pipeline()
    gate.receive(passing(0, asset=0) + back[: len(back) // 2] + passing(60, asset=2), pipeline)
    state = expected_lists.find_state(cast.acme, list_id)
    assert [(line.result, line.name) for line in state.lines] == [
        ("surplus", "Pallet 2"),
        ("ticked", "Pallet 0"),
        ("ticked", "Pallet 1"),
    ]
    gate.receive(back[len(back) // 2 :], pipeline)
    state = expected_lists.find_state(cast.acme, list_id)
    assert [line.name for line in state.of("missing")] == ["Pallet 1"]


Event = tuple[str, int, int]  # kind, pallet, second
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["out", "in", "unknown", "scan", "elsewhere", "undone"]), st.integers(0, 4), st.integers(1, 5)
    ),
    max_size=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, seed=st.integers(0, 9999), at_dock=st.booleans())
def test_passages_and_scans_in_any_order_match_a_simple_model(
    yard: Yard, events: list[Event], seed: int, at_dock: bool
) -> None:
    for table in ("passage", "handheld_scan", "expected_item", "expected_list"):
        execute(f"DELETE FROM {table}")
    list_id = yard.add_list(0, 1, 2, at_dock=at_dock)
    yard.add_list(3, name="Truck 13", is_started=False)
    shuffled = list(events)
    random.Random(seed).shuffle(shuffled)
    for kind, number, second in shuffled:
        if kind in ("scan", "undone", "elsewhere"):
            scan_id = yard.scan(number, second, yard.rack if kind == "elsewhere" else None)
            if kind == "undone":
                yard.undo(scan_id)
        else:
            direction = {"out": Direction.OUT, "in": Direction.IN, "unknown": Direction.UNKNOWN}[kind]
            yard.pass_door(number, second, direction)
    assert yard.results(list_id) == model(events, at_dock=at_dock)


def model(events: list[Event], *, at_dock: bool) -> dict[str, list[str]]:
    """Return the expected results: the newest evidence of each pallet decides, at the same time the right one."""
    by_result: dict[str, list[str]] = {}
    for number in range(5):
        counted = {"scan"} if at_dock else {"out", "in", "scan"} if number < 3 else {"out", "in"}
        own = [(second, kind != "in") for kind, pallet, second in events if pallet == number and kind in counted]
        is_right = bool(own) and max(own)[1]
        if number < 3:
            by_result.setdefault("ticked" if is_right else "missing", []).append(f"P-{number}")
        elif is_right:
            by_result.setdefault("wrong" if number == 3 else "surplus", []).append(f"P-{number}")
    return by_result
