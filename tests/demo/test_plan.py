"""The files of data/demo are consistent."""

from __future__ import annotations

from collections import Counter

from edge.demo.makes import MAKES
from edge.demo.plan import Plan


def test_the_site_is_what_the_demo_promises(plan: Plan) -> None:
    assert len(plan.locations) == 25
    assert sum(item.key is not None for item in plan.items) == 200
    assert {reader.format for reader in plan.simulated} == set(MAKES)
    assert len(plan.simulated) == 4


def test_every_place_named_anywhere_exists(plan: Plan) -> None:
    keys = [location.key for location in plan.locations]
    assert len(set(keys)) == len(keys)
    for number, location in enumerate(plan.locations):
        assert location.parent is None or location.parent in keys[:number]
    named = {place for item in plan.items for stop in item.route for place in stop.at}
    for reader in plan.readers:
        named |= set(reader.antennas.values()) | ({reader.location} if reader.location else set())
    assert named <= set(keys)


def test_keys_names_and_tags_are_unique(plan: Plan) -> None:
    for values in (
        [item.key for item in plan.items if item.key],
        [item.name for item in plan.items],
        [value for item in plan.items for value in (item.epc, item.mac, item.barcode) if value],
    ):
        assert [value for value, count in Counter(values).items() if count > 1] == []


def test_every_asset_has_tags_for_readers_and_handhelds(plan: Plan) -> None:
    assert all(item.barcode and (item.epc or item.mac) for item in plan.items if item.key)
