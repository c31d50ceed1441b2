"""What a person's scan does to the load of a carrier, and how that is undone with the scan."""

from __future__ import annotations

from typing import NamedTuple

from edge.database.connection import execute
from edge.records import lookup
from edge.texts import N_
from edge.tracking import carriers, late_reads, positions, recent_reads, stays
from edge.tracking.stays import Quality, Scan


class Cut(NamedTuple):
    """The load that an unload ended, and when that had ended before."""

    carrier_id: int
    ended_at: int | None


def why_not(organization_id: int, carrier_id: int, asset_id: int) -> str:
    """Why an asset cannot be put on a carrier; empty if it can."""
    if lookup.asset_by_id(organization_id, carrier_id) is None:
        return N_("This carrier is not known here, or was retired")
    if carrier_id == asset_id:
        return N_("Nothing can be put on itself")
    above = carriers.carrier_of(organization_id, carrier_id)
    for _ in range(carriers.DEEPEST):
        if above and above[0] == asset_id:
            return N_("The carrier is itself on this")
        above = carriers.carrier_of(organization_id, above[0]) if above else None
    return ""


def unload(asset_id: int, at: int) -> Cut | None:
    """Take an asset off whatever it was on at the time; None if it was on nothing."""
    found = execute(_LOADED_AT, {"asset": asset_id, "at": at}).fetchone()
    carriers.unload(asset_id, at)
    return Cut(*found) if found else None


def undo_load(organization_id: int, asset_id: int, loaded_at: int, gap: int) -> None:
    """Make everything what it would be without a load: where the carrier took the asset, it never was."""
    one = (asset_id, loaded_at)
    found = execute("SELECT unloaded_at FROM carrier_load WHERE asset_id = ? AND loaded_at = ?", one).fetchone()
    if found is None:
        return
    execute("DELETE FROM carrier_load WHERE asset_id = ? AND loaded_at = ?", one)
    for observed_at, seq in stays.carried_during(*one, found[0]):
        late_reads.take_back(asset_id, observed_at, seq, gap, keep_end=recent_reads.was_heard(asset_id, observed_at))
        carriers.take_back(asset_id, observed_at, gap)
    before = execute(
        "UPDATE carrier_load SET unloaded_at = ? WHERE asset_id = ? AND unloaded_at = ? RETURNING carrier_id",
        (found[0], *one),
    ).fetchone()
    if before:
        _go_after(organization_id, asset_id, before[0], loaded_at, found[0])


def undo_unload(organization_id: int, asset_id: int, unloaded_at: int, cut: Cut) -> None:
    """Put an asset back on its carrier, until the next thing that was done with it."""
    later = execute(_DONE_NEXT, {"asset": asset_id, "at": unloaded_at}).fetchone()
    seen_alone_at = stays.seen_alone_after(asset_id, cut.carrier_id, unloaded_at)
    ends_at = min((at for at in (cut.ended_at, *later, seen_alone_at) if at is not None), default=None)
    restored = execute(
        "UPDATE carrier_load SET unloaded_at = ? WHERE asset_id = ? AND carrier_id = ? AND unloaded_at = ?",
        (ends_at, asset_id, cut.carrier_id, unloaded_at),
    )
    if restored.rowcount:
        _go_after(organization_id, asset_id, cut.carrier_id, unloaded_at, ends_at)


def _go_after(organization_id: int, asset_id: int, carrier_id: int, since: int, until: int | None) -> None:
    """The asset went wherever its carrier was seen, and so did what is on the asset."""
    for location_id, observed_at in stays.visits(carrier_id, since, until):
        carried = Scan(organization_id, asset_id, location_id, None, None, observed_at, observed_at, Quality.CARRIED)
        positions.record([carried], gap=0)
        carriers.follow([carried], gap=0)
    execute(
        "UPDATE carrier_load SET location_id = (SELECT location_id FROM position WHERE asset_id = ?) "
        "WHERE asset_id = ? AND unloaded_at IS NULL",
        (carrier_id, asset_id),
    )


_LOADED_AT = """
SELECT carrier_id, unloaded_at FROM carrier_load
WHERE asset_id = :asset AND loaded_at <= :at AND ifnull(unloaded_at, :at + 1) > :at
"""
_DONE_NEXT = """
SELECT
    (SELECT min(observed_at) FROM handheld_scan
     WHERE asset_id = :asset AND observed_at > :at AND undone_at IS NULL AND carrier_act = 'unload'),
    (SELECT min(loaded_at) FROM carrier_load WHERE asset_id = :asset AND loaded_at > :at)
"""
