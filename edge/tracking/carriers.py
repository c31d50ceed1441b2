"""Carriers: assets on a pallet or a trolley move with it until they are unloaded.

A carried asset gets its own history rows, marked as carried, as if it had been scanned. An asset that is seen on its
own elsewhere counts as unloaded, even without a scan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from edge import clock
from edge.audit.actors import Actor
from edge.database.connection import column, execute, scalar, writing
from edge.tracking import late_reads, positions, report, stays, tracked_people
from edge.tracking.report import CurrentPosition
from edge.tracking.stays import Quality, Scan

DEEPEST = 8  # a box on a pallet on a trolley; more is a mistake
TOGETHER = (
    300 * clock.SECOND
)  # a carrier arrives at most so long after an asset on it that is scanned or read before it
MOST_CARRIED = 5_000  # a carrier and all that is on it, directly or not, since it moves in one transaction
MOST_VISITS = 1_000  # newest locations of a carrier that a late-reported load or an undo changes for an asset
MOST_CHANGES = 2_000  # of these, times the assets on it: about half a second with the write lock


class Carried(NamedTuple):
    """An asset on a carrier. `location_id` is the last location it was carried to."""

    carrier_id: int
    asset_id: int
    loaded_at: int
    location_id: int | None


def load(actor: Actor, carrier_id: int, asset_id: int, at: int) -> bool:
    """Put an asset on a carrier and take it off any other. Repeating this changes nothing.

    Returns False if the carrier does not exist or is itself on the asset.
    """
    with writing():
        if not _may_carry(actor.organization_id, carrier_id) or carrier_id in {asset_id, *all_on(asset_id)}:
            return False
        known = execute("SELECT 1 FROM carrier_load WHERE asset_id = ? AND loaded_at = ?", (asset_id, at)).fetchone()
        if known is None:
            ends_at = _end_of_load_at(asset_id, at)
            unload(asset_id, at)
            location_id = stays.location_at(asset_id, at) or report.current_location(carrier_id)
            execute(
                "INSERT INTO carrier_load (asset_id, loaded_at, carrier_id, loaded_by, location_id, unloaded_at) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (asset_id, at, carrier_id, actor.person_id, location_id, ends_at),
            )
            _catch_up(actor.organization_id, carrier_id, asset_id, at)
        return True


def _end_of_load_at(asset_id: int, at: int) -> int | None:
    """Return the end of a load that began at `at`: the unload or next load, if that was reported earlier."""
    before = execute(f"SELECT unloaded_at FROM carrier_load WHERE asset_id = ?2 AND {_LOADED}", (at, asset_id))
    next_load = "SELECT min(loaded_at) FROM carrier_load WHERE asset_id = ? AND loaded_at > ?"
    row = before.fetchone() or execute(next_load, (asset_id, at)).fetchone()
    ends_at: int | None = row[0]
    return ends_at


def unload(asset_id: int, at: int) -> None:
    """Take an asset off its carrier at that time. Later loads stay."""
    with writing():
        execute(f"UPDATE carrier_load SET unloaded_at = ?1 WHERE asset_id = ?2 AND {_LOADED}", (at, asset_id))


def unload_all(organization_id: int, carrier_id: int, at: int) -> bool:
    """Unload a carrier as of a time. Returns False if it does not exist."""
    with writing():
        if not _is_live(organization_id, carrier_id):
            return False
        execute(f"UPDATE carrier_load SET unloaded_at = ?1 WHERE carrier_id = ?2 AND {_LOADED}", (at, carrier_id))
        execute(_ALREADY_OFF, {"carrier": carrier_id, "at": at})
        return True


def follow(seen: Iterable[Scan], gap: int, depth: int = 0) -> set[int]:
    """Move the assets on these carriers to the carriers' locations, and return them. `gap` as in `positions.record`.

    Call in the transaction that recorded the scans. It uses the decided position, not a single read.
    """
    if depth > DEEPEST or execute(_ANY).fetchone() is None:
        return set()
    by_carrier = {scan.asset_id: scan for scan in seen}
    if not by_carrier:
        return set()
    load = _on(by_carrier)
    current = report.current_positions({*by_carrier, *(one.asset_id for one in load)})
    carried = _carried_late(by_carrier.values(), current)
    for one in load:
        if _is_later(current.get(one.asset_id), by_carrier[one.carrier_id]):
            continue
        scan = _carried_scan(by_carrier[one.carrier_id], one, current)
        if scan is not None:
            carried.append(scan)
            execute(
                "UPDATE carrier_load SET location_id = ? WHERE asset_id = ? AND unloaded_at IS NULL",
                (scan.location_id, one.asset_id),
            )
    positions.record(carried, gap)
    return {scan.asset_id for scan in carried} | follow(carried, gap, depth + 1)


def _catch_up(organization_id: int, carrier_id: int, asset_id: int, at: int) -> None:
    """Add the stays that a late-reported load missed: everywhere its carrier has been since."""
    for location_id, observed_at in stays.visits(carrier_id, at)[-most_visits(asset_id, at) :]:
        if not stays.carried_at(carrier_id, observed_at, location_id, asset_id):
            continue
        carried = Scan(organization_id, asset_id, location_id, None, None, observed_at, observed_at, Quality.CARRIED)
        if not stays.is_recorded(asset_id, observed_at, location_id):
            positions.record([carried], gap=0)
            follow([carried], gap=0)
        execute(
            "UPDATE carrier_load SET location_id = ? WHERE carrier_id = ? AND unloaded_at IS NULL AND asset_id = ?",
            (location_id, carrier_id, asset_id),
        )


def most_visits(asset_id: int, at: int) -> int:
    """Return how many locations of its carrier one scan may add to, or take from, an asset and all that is on it."""
    return max(1, min(MOST_VISITS, MOST_CHANGES // _count_below(asset_id, at)))


def is_full(carrier_id: int, asset_id: int, at: int) -> bool:
    """Return True if an asset, with what is on it, is too much for a carrier at that time or later."""
    return sum(_count_below(one, at) for one in (_top(carrier_id, at), asset_id)) > MOST_CARRIED


def _top(carrier_id: int, at: int) -> int:
    """Return the carrier below all others, such as the trolley with the pallet with the box."""
    for _ in range(DEEPEST):
        sql = (
            f"SELECT carrier_id FROM carrier_load WHERE asset_id = ?2 AND {_NOT_ENDED} ORDER BY loaded_at DESC LIMIT 1"
        )
        above = execute(sql, (at, carrier_id)).fetchone()
        if above is None:
            break
        (carrier_id,) = above
    return carrier_id


def _count_below(carrier_id: int, at: int) -> int:
    """Return the number of assets on a carrier at a time or later, itself included, up to one too many."""
    sql = f"""
    WITH RECURSIVE below (id) AS (
        SELECT ?2 UNION
        SELECT asset_id FROM below JOIN carrier_load ON carrier_load.carrier_id = below.id WHERE {_NOT_ENDED}
        LIMIT ?3
    ) SELECT count(*) FROM below
    """
    return scalar(sql, (at, carrier_id, MOST_CARRIED + 1))


def _carried_late(seen: Iterable[Scan], current: Mapping[int, CurrentPosition]) -> list[Scan]:
    """Return scans of the load for scans of carriers by people that are older than the newest of carrier or load.

    Late reads are weighed together with earlier ones.
    """
    carried: list[Scan] = []
    for scan in seen:
        then = _carried_then(scan) if _is_by_person(scan) else ()
        is_late = _is_later(current.get(scan.asset_id), scan)
        carried += [one for one in then if is_late or _is_later(current.get(one.asset_id), scan)]
    return carried


def _is_by_person(scan: Scan) -> bool:
    return scan.quality in (Quality.HANDHELD, Quality.CARRIED)


def _is_later(position: CurrentPosition | None, scan: Scan) -> bool:
    """Return True if an asset was last seen after a scan by a person."""
    return position is not None and _is_by_person(scan) and position.last_seen_at > scan.observed_at


def _carried_then(scan: Scan) -> list[Scan]:
    """Return scans of the assets on a carrier at the time of its scan."""
    return [
        replace(scan, asset_id=asset_id, quality=Quality.CARRIED, rssi=None)
        for asset_id in stays.carried_at(scan.asset_id, scan.observed_at, scan.location_id)
    ]


def take_back(carrier_id: int, observed_at: int, gap: int, depth: int = 0) -> None:
    """Undo the effect of a person's undone scan of a carrier on its load."""
    carried = stays.carried_with(carrier_id, observed_at)
    for asset_id, seq in carried if depth <= DEEPEST else []:
        late_reads.take_back(asset_id, observed_at, seq, gap)
        execute(
            "UPDATE carrier_load SET location_id = ifnull(?, location_id) WHERE asset_id = ? AND unloaded_at IS NULL",
            (report.current_location(asset_id), asset_id),
        )
        take_back(asset_id, observed_at, gap, depth + 1)


def carrier_of(organization_id: int, asset_id: int) -> tuple[int, str] | None:
    """Return id and name of an asset's carrier."""
    sql = (
        "SELECT carrier.id, carrier.name FROM carrier_load JOIN asset carrier ON carrier.id = carrier_load.carrier_id "
        "WHERE carrier_load.asset_id = ? AND carrier_load.unloaded_at IS NULL AND carrier.organization_id = ? "
        "AND carrier.deleted_at IS NULL"
    )
    row = execute(sql, (asset_id, organization_id)).fetchone()
    return (row[0], row[1]) if row else None


def on(organization_id: int, carrier_id: int) -> list[tuple[int, str]]:
    """Return id and name of the assets on a carrier, sorted by name."""
    sql = (
        "SELECT asset.id, asset.name FROM carrier_load JOIN asset ON asset.id = carrier_load.asset_id "
        "WHERE carrier_load.carrier_id = ? AND carrier_load.unloaded_at IS NULL AND asset.organization_id = ? "
        "AND asset.deleted_at IS NULL ORDER BY asset.name, asset.id"
    )
    return [(row[0], row[1]) for row in execute(sql, (carrier_id, organization_id))]


_NOT_ENDED = "ifnull(unloaded_at, ?1 + 1) > ?1"  # at the time in parameter 1
_LOADED = "loaded_at <= ?1 AND ifnull(unloaded_at, ?1 + 1) > ?1"  # at the time in parameter 1
# A scan that took an asset off before puts it back until now if it is undone.
_ALREADY_OFF = """
UPDATE handheld_scan SET load_ended_at = :at
WHERE carrier_act = 'unload' AND carrier_id = :carrier AND load_ended_at IS NULL AND observed_at <= :at
    AND asset_id IN (SELECT asset_id FROM carrier_load WHERE carrier_id = :carrier AND unloaded_at <= :at)
"""
_ANY = "SELECT 1 FROM carrier_load WHERE unloaded_at IS NULL LIMIT 1"
_ON = """
SELECT carried.carrier_id, carried.asset_id, carried.loaded_at, carried.location_id
FROM carrier_load carried JOIN asset ON asset.id = carried.asset_id AND asset.deleted_at IS NULL
WHERE carried.unloaded_at IS NULL AND carried.carrier_id IN (SELECT value FROM json_each(?))
AND carried.carrier_id NOT IN (SELECT asset_id FROM tracked_person)
"""


def _on(carriers: Iterable[int]) -> list[Carried]:
    return [Carried(*row) for row in execute(_ON, (json.dumps(list(carriers)),)).fetchall()]


def _carried_scan(scan: Scan, one: Carried, current: Mapping[int, CurrentPosition]) -> Scan | None:
    """Return a scan of an asset at its carrier's location; None if it is known there or was unloaded unreported."""
    carrier, own = current.get(one.carrier_id), current.get(one.asset_id)
    if carrier is None:
        return None
    left_at = _left_at(scan, one, carrier, own) if own else None
    if left_at is not None:
        unload(one.asset_id, max(left_at, one.loaded_at))
        return None
    if own and own.last_seen_at >= carrier.last_seen_at:
        return None
    return replace(
        scan,
        asset_id=one.asset_id,
        location_id=carrier.location_id,
        observed_at=carrier.last_seen_at,
        quality=Quality.CARRIED,
        rssi=None,
    )


def _left_at(scan: Scan, one: Carried, carrier: CurrentPosition, own: CurrentPosition) -> int | None:
    """Return when an asset was seen elsewhere than its carrier, or None if they came here together."""
    if own.location_id == one.location_id:
        is_checked = _is_by_person(scan) and own.dwell_started_at > one.loaded_at
        return stays.seen_alone_after(one.asset_id, one.carrier_id, one.loaded_at) if is_checked else None
    is_ahead = carrier.dwell_started_at - own.dwell_started_at > TOGETHER
    return own.last_seen_at if own.location_id != carrier.location_id or is_ahead else None


def all_on(asset_id: int) -> Sequence[int]:
    """Return all assets on an asset, directly or indirectly."""
    sql = """
    WITH RECURSIVE below (id) AS (
        SELECT asset_id FROM carrier_load WHERE carrier_id = ? AND unloaded_at IS NULL
        UNION
        SELECT carrier_load.asset_id FROM below JOIN carrier_load ON carrier_load.carrier_id = below.id
        WHERE carrier_load.unloaded_at IS NULL
    ) SELECT id FROM below
    """
    return column(sql, (asset_id,))


def _may_carry(organization_id: int, asset_id: int) -> bool:
    """False also for a person: the positions of the load would show where the person is."""
    return _is_live(organization_id, asset_id) and not tracked_people.among([asset_id])


def _is_live(organization_id: int, asset_id: int) -> bool:
    sql = "SELECT 1 FROM asset WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
    return execute(sql, (asset_id, organization_id)).fetchone() is not None
