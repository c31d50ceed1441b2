"""Expected lists from preparation to sign-off: refusals, bounds, retention, and a signed result that stays."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit import quotas
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.doors import doors
from edge.doors.passage_rule import Direction
from edge.errors import Conflict, Invalid, NotFound
from edge.expected_lists import expected_lists, ticks
from edge.records import assets
from edge.records.tags import NewTag
from edge.tracking import deletion
from tests.conftest import Cast
from tests.expected_lists.yard import Yard


@pytest.fixture
def yard(cast: Cast) -> Yard:
    return Yard(cast.acme)


def test_sign_off_keeps_what_was_signed(yard: Yard) -> None:
    list_id = yard.add_list(0, 1)
    passage_no = yard.pass_door(0, 1)
    yard.pass_door(2, 1)
    before = yard.state(list_id).lines
    yard.sign_off(list_id)
    yard.pass_door(1, 2)
    execute("UPDATE passage SET direction = ? WHERE no = ?", (Direction.WITHDRAWN, passage_no))
    assets.delete(shell(yard.organization_id), yard.pallets[0])
    execute("UPDATE asset SET name = 'Renamed'")
    state = yard.state(list_id)
    assert state.lines == before
    assert (state.one.signed_by, state.one.items) == (yard.olga.name, 2)


def test_a_result_that_changed_on_the_way_is_not_signed(yard: Yard) -> None:
    list_id = yard.add_list(0)
    version = yard.state(list_id).version
    yard.pass_door(0, 1)
    with pytest.raises(Conflict, match="changed while you looked"):
        expected_lists.sign_off(yard.olga, list_id, version)
    yard.sign_off(list_id)
    with pytest.raises(Conflict, match="signed off already"):
        yard.sign_off(list_id)


def test_a_list_that_was_not_started_cannot_be_signed_off(yard: Yard) -> None:
    with pytest.raises(Conflict, match="not been started"):
        yard.sign_off(yard.add_list(0, is_started=False))


def test_one_list_is_open_at_a_time_for_each_direction(yard: Yard) -> None:
    first = yard.add_list(0)
    second = yard.add_list(1, name="Truck 13", is_started=False)
    with pytest.raises(Conflict, match="Truck 12 is open at Gate"):
        expected_lists.start(yard.olga, second)
    inward = expected_lists.create(yard.olga, "Returns", ["P-1"], door_id=yard.door, direction=Direction.IN)
    expected_lists.start(yard.olga, inward)
    at_dock = yard.add_list(1, name="Staging", at_dock=True)
    with pytest.raises(Conflict, match="Staging is open at Dock"):
        yard.add_list(1, at_dock=True)
    yard.sign_off(first)
    expected_lists.start(yard.olga, second)
    assert [one.one.id for one in expected_lists.states_at_door(yard.organization_id, yard.door)] == [inward, second]
    assert {one.id for one in expected_lists.open_lists(yard.organization_id) if one.is_open} == {
        inward,
        second,
        at_dock,
    }


def test_codes_are_keys_or_tags_and_unknown_ones_are_named(yard: Yard) -> None:
    assets.create(shell(yard.organization_id), name="Cage", tags=[NewTag("rfid", "E28011700000020A7B2C3D4E")])
    codes = ["p-0", "P-0", " E28011700000020A7B2C3D4E ", ""]
    list_id = expected_lists.create(yard.olga, "Truck", codes, location_id=yard.dock)
    assert [line.name for line in yard.state(list_id).lines] == ["Cage", "Pallet 0"]
    with pytest.raises(Invalid, match="No asset has the key or tag NOPE, P-99"):
        expected_lists.create(yard.olga, "Truck", ["NOPE", "P-1", "P-99"], location_id=yard.dock)
    with pytest.raises(Invalid, match="at least one"):
        expected_lists.create(yard.olga, "Truck", [" "], location_id=yard.dock)


def test_contents_are_included_on_request(yard: Yard) -> None:
    yard.load(3, 0, 1)
    list_id = expected_lists.create(yard.olga, "Truck", ["P-3"], location_id=yard.dock, with_contents=True)
    assert yard.results(list_id) == {"missing": ["P-0", "P-3"]}


def test_a_list_needs_one_place_of_its_own_organization(cast: Cast, yard: Yard) -> None:
    rival = Yard(cast.rival)
    with pytest.raises(Invalid):
        expected_lists.create(yard.olga, "Truck", ["P-0"])
    with pytest.raises(Invalid):
        expected_lists.create(yard.olga, "Truck", ["P-0"], location_id=rival.dock)
    with pytest.raises(Invalid):
        expected_lists.create(yard.olga, "Truck", ["P-0"], door_id=yard.door)
    with pytest.raises(Invalid):
        expected_lists.create(yard.olga, "Truck", ["P-0"], door_id=rival.door, direction=Direction.OUT)
    with pytest.raises(NotFound):
        expected_lists.find_state(cast.acme, rival.add_list(0))


def test_a_removed_door_keeps_its_lists(yard: Yard) -> None:
    list_id = yard.add_list(0)
    doors.remove_door(shell(yard.organization_id), yard.door)
    yard.sign_off(list_id)
    assert yard.state(list_id).one.place == "Gate"


def test_lists_and_items_are_bounded(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_lists, "MOST_ITEMS", 2)
    with pytest.raises(Invalid, match="at most 2 items"):
        yard.add_list(0, 1, 2)
    yard.load(4, 0, 1)
    yard.load(4, 1, 1)
    with pytest.raises(Invalid, match="at most 2 items"):
        expected_lists.create(yard.olga, "Truck", ["P-4"], location_id=yard.dock, with_contents=True)
    monkeypatch.setitem(quotas.CAPS, "open expected_list", quotas.CAPS["open expected_list"]._replace(limit=1))
    yard.add_list(0, is_started=False)
    with pytest.raises(Conflict, match="sign off or delete one first"):
        yard.add_list(0, is_started=False)


def test_a_list_with_much_surplus_keeps_all_other_lines(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: each look made a line for every asset that was seen there in seven days."""
    monkeypatch.setattr(ticks, "MOST_SURPLUS", 1)
    list_id, _ = yard.add_list(0), yard.add_list(4, is_started=False)
    for number in range(5):
        yard.pass_door(number, 1)
    state = yard.state(list_id)
    assert [(result, len(state.of(result)), state.count(result)) for result in ("wrong", "surplus")] == [
        ("wrong", 1, 1),
        ("surplus", 1, 3),
    ]
    before = state.version
    yard.pass_door(3, 2, Direction.IN)
    assert yard.state(list_id).version != before
    yard.sign_off(list_id)
    assert {result: len(keys) for result, keys in yard.results(list_id).items()} == {
        "wrong": 1,
        "surplus": 1,
        "ticked": 1,
    }


def test_only_lists_that_are_not_signed_can_be_removed(yard: Yard) -> None:
    first = yard.add_list(0)
    expected_lists.remove(yard.olga, first)
    with pytest.raises(NotFound):
        yard.state(first)
    second = yard.add_list(0)
    yard.sign_off(second)
    with pytest.raises(Conflict):
        expected_lists.remove(yard.olga, second)


def test_retention_deletes_old_lists_with_their_rows(yard: Yard) -> None:
    signed = yard.add_list(0, 1, 2)
    yard.sign_off(signed)
    yard.add_list(1)
    assert deletion.drop_whole("expected_list_rows", clock.now() - clock.DAY) == 0
    while deletion.drop_whole("expected_list_rows", clock.now() + 1, limit=2):
        pass
    for table in ("expected_list", "expected_item", "expected_line"):
        assert execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
