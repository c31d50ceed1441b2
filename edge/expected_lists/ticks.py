"""Results of an expected list: ticked, missing, surplus or wrong.

Nothing is stored until sign-off: ticks follow from passages, scans and loads of carriers. Late reads, revised
passages and undone scans therefore correct them, in any order of arrival.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from edge import clock
from edge.database.connection import column, execute
from edge.records import location_tree
from edge.validation import json_text

RESULTS = ("missing", "wrong", "surplus", "ticked")
COUNTED_FOR = 7 * clock.DAY  # after the start; bounds the passages of a list that nobody signs off
MOST_SURPLUS = 5_000  # lines, and the same of wrong assets; others are only counted
_HOW = ("carrier", "door", "scan")


class Place(NamedTuple):
    """Where and since when a list is compared: at a door in one direction, or at a location."""

    list_id: int
    organization_id: int
    door_id: int | None
    direction: int | None
    location_id: int | None  # for a door: the location of the door
    since: int


class Line(NamedTuple):
    """One asset with its result. `how`: door, scan or carrier. `other`: the open list that expects a wrong asset."""

    result: str
    asset_id: int
    asset_key: str
    name: str
    how: str
    seen_at: int | None
    other: str


class Lines(NamedTuple):
    """The lines by result and name, and the number of surplus and wrong assets beyond `MOST_SURPLUS`."""

    lines: list[Line]
    more: int


class _Seen(NamedTuple):
    """The newest evidence of an asset. `is_right` is False if it passed in the other direction."""

    at: int
    is_right: bool
    how: str


# The rank of evidence orders it by time, then direction, then kind, so that rows in any order have the same maximum.
_SEEN = """
WITH item AS (SELECT asset_id FROM expected_item WHERE list_id = :list),
elsewhere AS (
    SELECT item.asset_id FROM expected_list other JOIN expected_item item ON item.list_id = other.id
    WHERE other.organization_id = :organization AND other.id <> :list AND other.signed_at IS NULL
),
passed AS MATERIALIZED (
    SELECT asset_id, at, (at * 2 + (direction = :direction)) * 4 AS rank FROM passage INDEXED BY passage_of_door
    WHERE door_id = :door AND at >= :since AND at < :until AND direction IN (1, 2)
      AND asset_id NOT IN (SELECT asset_id FROM tracked_person)
),
scanned AS MATERIALIZED (
    SELECT scan.asset_id, scan.observed_at AS at, (scan.observed_at * 2 + 1) * 4 AS rank
    FROM json_each(:scope) place CROSS JOIN handheld_scan scan INDEXED BY handheld_scan_location
    ON scan.location_id = place.value AND scan.asset_id IS NOT NULL
    WHERE scan.observed_at >= :since AND scan.observed_at < :until AND scan.undone_at IS NULL
      AND scan.asset_id NOT IN (SELECT asset_id FROM tracked_person)
),
carrying AS (SELECT asset_id, at, rank FROM passed UNION ALL SELECT asset_id, at, rank FROM scanned),
seen AS (
    SELECT asset_id, rank + 1 AS rank FROM passed
    UNION ALL
    SELECT asset_id, rank + 2 FROM scanned WHERE :door IS NULL OR asset_id IN (SELECT asset_id FROM item)
    UNION ALL
    SELECT load.asset_id, carrying.rank FROM carrying JOIN carrier_load load ON load.carrier_id = carrying.asset_id
        AND load.loaded_at <= carrying.at AND ifnull(load.unloaded_at, carrying.at + 1) > carrying.at
    WHERE load.asset_id IN (SELECT asset_id FROM item)
        AND load.asset_id NOT IN (SELECT asset_id FROM tracked_person)
)
SELECT asset_id, max(rank), asset_id IN (SELECT asset_id FROM elsewhere) FROM seen GROUP BY asset_id ORDER BY asset_id
"""
_CARRIERS = """
SELECT DISTINCT load.carrier_id
FROM json_each(:seen) pair CROSS JOIN carrier_load load ON load.carrier_id = pair.value ->> 0
    AND load.loaded_at <= pair.value ->> 1 AND ifnull(load.unloaded_at, (pair.value ->> 1) + 1) > pair.value ->> 1
JOIN expected_item item ON item.list_id = :list AND item.asset_id = load.asset_id
"""
_OTHERS = """
SELECT item.asset_id, min(other.name) FROM json_each(:assets) asset
CROSS JOIN expected_item item ON item.asset_id = asset.value
JOIN expected_list other ON other.id = item.list_id AND other.id <> :list AND other.signed_at IS NULL
    AND other.organization_id = :organization
GROUP BY item.asset_id
"""
_NAMES = """
SELECT asset.id, asset.external_key, asset.name FROM json_each(?) one CROSS JOIN asset ON asset.id = one.value
WHERE asset.organization_id = ? ORDER BY asset.name, asset.id
"""


def lines_of(place: Place | None, items: Sequence[int], organization_id: int) -> Lines:
    """Return the lines. Without a place, the list has not started and all items are missing."""
    expected = set(items)
    seen, more = _evidence(place, expected) if place else ({}, 0)
    others: Mapping[int, str] = {}
    if place:
        unexpected = {asset_id: one for asset_id, one in seen.items() if asset_id not in expected}
        strangers = unexpected.keys() - _carriers_of_items(place, unexpected)
        others = _other_lists(place, strangers)
        seen = {asset_id: one for asset_id, one in seen.items() if asset_id in expected or asset_id in strangers}
    rows = execute(_NAMES, (json_text.text(sorted(expected | seen.keys())), organization_id))
    lines = [
        _line(asset_id, key, name, asset_id in expected, seen.get(asset_id), others.get(asset_id))
        for asset_id, key, name in rows
    ]
    return Lines(sorted(lines, key=lambda line: RESULTS.index(line.result)), more)


def _line(asset_id: int, key: str, name: str, is_expected: bool, seen: _Seen | None, other: str | None) -> Line:
    if is_expected:
        result = "ticked" if seen and seen.is_right else "missing"
    else:
        result = "surplus" if other is None else "wrong"
    if seen is None or not seen.is_right:
        return Line(result, asset_id, key, name, "", None, "")
    return Line(result, asset_id, key, name, seen.how, seen.at, other or "")


def version_of(lines: Sequence[Line], more: int) -> str:
    """Return a digest of lines, with which a sign-off names the result that was on the screen."""
    return blake2b(repr((lines, more)).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _evidence(place: Place, expected: Collection[int]) -> tuple[dict[int, _Seen], int]:
    """Return the evidence of expected assets and of others that count as here, and the number of further others."""
    scope: list[int] = []
    if place.location_id is not None:
        scope = [place.location_id, *location_tree.visible_descendants(place.location_id, clock.now())]
    values = {
        "list": place.list_id,
        "organization": place.organization_id,
        "door": place.door_id,
        "direction": place.direction,
        "since": place.since,
        "until": place.since + COUNTED_FOR,
        "scope": json_text.text(scope),
    }
    evidence, numbers = {}, [0, 0]  # of surplus and of wrong assets
    for asset_id, rank, is_wrong in execute(_SEEN, values):
        moment, how = divmod(rank, 4)
        one = _Seen(moment // 2, bool(moment % 2), _HOW[how])
        if asset_id not in expected:
            numbers[is_wrong] += one.is_right
        if asset_id in expected or (one.is_right and numbers[is_wrong] <= MOST_SURPLUS):
            evidence[asset_id] = one
    return evidence, sum(max(0, number - MOST_SURPLUS) for number in numbers)


def _carriers_of_items(place: Place, seen: Mapping[int, _Seen]) -> set[int]:
    """Return the assets that carried items of the list when they were seen: they are not surplus."""
    pairs = json_text.text([[asset_id, one.at] for asset_id, one in seen.items()])
    return set(column(_CARRIERS, {"seen": pairs, "list": place.list_id}))


def _other_lists(place: Place, asset_ids: set[int]) -> dict[int, str]:
    values = {
        "assets": json_text.text(sorted(asset_ids)),
        "list": place.list_id,
        "organization": place.organization_id,
    }
    return dict(execute(_OTHERS, values).fetchall())
