"""What is written down in data/demo fits together."""

from __future__ import annotations

from collections import Counter

from edge.demo.makes import MAKES
from edge.demo.plan import Plan


def test_the_site_is_what_the_demo_promises(plan: Plan) -> None:
    assert len(plan.spots) == 25
    assert sum(thing.key is not None for thing in plan.things) == 200
    assert {reader.format for reader in plan.simulated} == set(MAKES)
    assert len(plan.simulated) == 4


def test_every_place_named_anywhere_exists(plan: Plan) -> None:
    keys = [spot.key for spot in plan.spots]
    assert len(set(keys)) == len(keys)
    for number, spot in enumerate(plan.spots):
        assert spot.parent is None or spot.parent in keys[:number]
    named = {place for thing in plan.things for stop in thing.route for place in stop.at}
    for reader in plan.readers:
        named |= set(reader.antennas.values()) | ({reader.location} if reader.location else set())
    assert named <= set(keys)


def test_no_two_things_share_a_key_a_name_or_a_tag(plan: Plan) -> None:
    for values in (
        [thing.key for thing in plan.things if thing.key],
        [thing.name for thing in plan.things],
        [value for thing in plan.things for value in (thing.epc, thing.mac, thing.barcode) if value],
    ):
        assert [value for value, count in Counter(values).items() if count > 1] == []


def test_every_registered_thing_can_be_found_by_reader_and_by_hand(plan: Plan) -> None:
    assert all(thing.barcode and (thing.epc or thing.mac) for thing in plan.things if thing.key)
