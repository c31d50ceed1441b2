"""Changes to the load of a carrier by a scan, and their undo."""

from __future__ import annotations

from typing import NamedTuple

from edge.database.connection import execute
from edge.records import lookup
from edge.texts import N_
from edge.tracking import carriers, late_reads, positions, recent_reads, report, stays, tracked_people
from edge.tracking.stays import Quality, Scan


class EndedLoad(NamedTuple):
    """A load that an unload ended, with its previous end (microseconds, None if it was open)."""

    carrier_id: int
    ended_at: int | None


def load_error(organization_id: int, carrier_id: int, asset_id: int, at: int) -> str:
    """Return why the asset cannot be put on the carrier at that time, or "" if it can."""
    if lookup.asset_by_id(organization_id, carrier_id) is None:
        return N_("This carrier is unknown or retired")
    if tracked_people.among([carrier_id]):
        return N_("A person cannot be a carrier: what is on it would show where the person is")
    if carrier_id == asset_id:
        return N_("An asset cannot be put onto itself")
    above = carriers.carrier_of(organization_id, carrier_id)
    for _ in range(carriers.DEEPEST):
        if above and above[0] == asset_id:
            return N_("The carrier is already on this asset")
        above = carriers.carrier_of(organization_id, above[0]) if above else None
    if carriers.is_full(carrier_id, asset_id, at):
        return N_("This carrier is full")
    return ""


def unload(asset_id: int, at: int) -> EndedLoad | None:
    """Take an asset off its carrier at the time `at`. Returns the ended load, or None if it was on no carrier."""
    row = execute(_LOADED_AT, {"asset": asset_id, "at": at}).fetchone()
    carriers.unload(asset_id, at)
    return EndedLoad(*row) if row else None


def undo_load(organization_id: int, asset_id: int, loaded_at: int, gap: int) -> None:
    """Undo a load, including the newest moves of the asset with its carrier.

    If the load had ended an earlier one, that one continues. `gap` as in `positions.record`.
    """
    key = (asset_id, loaded_at)
    row = execute("SELECT unloaded_at FROM carrier_load WHERE asset_id = ? AND loaded_at = ?", key).fetchone()
    if row is None:
        return
    (unloaded_at,) = row
    execute("DELETE FROM carrier_load WHERE asset_id = ? AND loaded_at = ?", key)
    most = carriers.most_visits(asset_id, loaded_at)
    for observed_at, seq in stays.carried_during(*key, unloaded_at)[:most]:
        late_reads.take_back(asset_id, observed_at, seq, gap, keep_end=recent_reads.was_read(asset_id, observed_at))
        carriers.take_back(asset_id, observed_at, gap)
    before = execute(
        "UPDATE carrier_load SET unloaded_at = ? WHERE asset_id = ? AND unloaded_at = ? RETURNING carrier_id",
        (unloaded_at, *key),
    ).fetchone()
    if before:
        _follow_carrier(organization_id, asset_id, before[0], loaded_at, unloaded_at)


def undo_unload(organization_id: int, asset_id: int, unloaded_at: int, load: EndedLoad) -> None:
    """Undo an unload: put the asset back on its carrier until its next load, unload or read elsewhere."""
    later = execute(_NEXT_CHANGE, {"asset": asset_id, "at": unloaded_at}).fetchone()
    seen_alone_at = stays.seen_alone_after(asset_id, load.carrier_id, unloaded_at)
    ends_at = min((at for at in (load.ended_at, *later, seen_alone_at) if at is not None), default=None)
    restored = execute(
        "UPDATE carrier_load SET unloaded_at = ? WHERE asset_id = ? AND carrier_id = ? AND unloaded_at = ?",
        (ends_at, asset_id, load.carrier_id, unloaded_at),
    )
    if restored.rowcount:
        _follow_carrier(organization_id, asset_id, load.carrier_id, unloaded_at, ends_at)


def resume(organization_id: int, asset_id: int, seen_at: int) -> None:
    """Put an asset back on its carrier if it left only because of a sighting elsewhere at `seen_at`, now undone."""
    row = execute(_LEFT_AT, {"asset": asset_id, "at": seen_at}).fetchone()
    if row and stays.seen_alone_after(asset_id, *row) is None:
        undo_unload(organization_id, asset_id, seen_at, EndedLoad(row[0], None))


def _follow_carrier(organization_id: int, asset_id: int, carrier_id: int, since: int, until: int | None) -> None:
    """Record the locations of the carrier for the asset and everything loaded on it."""
    most = carriers.most_visits(asset_id, since)
    for location_id, observed_at in stays.visits(carrier_id, since, until)[-most:]:
        carried = Scan(organization_id, asset_id, location_id, None, None, observed_at, observed_at, Quality.CARRIED)
        positions.record([carried], gap=0)
        carriers.follow([carried], gap=0)
    execute(
        "UPDATE carrier_load SET location_id = ? WHERE asset_id = ? AND unloaded_at IS NULL",
        (report.current_location(asset_id), asset_id),
    )


_LOADED_AT = """
SELECT carrier_id, unloaded_at FROM carrier_load
WHERE asset_id = :asset AND loaded_at <= :at AND ifnull(unloaded_at, :at + 1) > :at
"""
_LEFT_AT = """
SELECT carrier_id, loaded_at FROM carrier_load WHERE asset_id = :asset AND unloaded_at = :at
AND NOT EXISTS (SELECT 1 FROM carrier_load later WHERE later.asset_id = :asset AND later.loaded_at = :at)
"""
_NEXT_CHANGE = """
SELECT
    (SELECT min(observed_at) FROM handheld_scan
     WHERE asset_id = :asset AND observed_at > :at AND undone_at IS NULL AND carrier_act = 'unload'),
    (SELECT min(loaded_at) FROM carrier_load WHERE asset_id = :asset AND loaded_at > :at)
"""
