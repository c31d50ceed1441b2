"""Business steps and dispositions of locations and doors, in the words of GS1's Core Business Vocabulary (CBV 2.0)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, changed
from edge.database.connection import execute
from edge.errors import Invalid, NotFound
from edge.texts import N_

_STEPS = """
    accepting arriving assembling collecting commissioning consigning creating_class_instance cycle_counting
    decommissioning departing destroying disassembling dispensing encoding entering_exiting holding inspecting
    installing killing loading other packing picking receiving removing repackaging repairing replacing reserving
    retail_selling sampling sensor_reporting shipping staging_outbound stock_taking stocking storing transporting
    unloading unpacking void_shipping
"""
STEPS = tuple(_STEPS.split())
_DISPOSITIONS = """
    active available completeness_inferred completeness_verified conformant container_closed container_open
    damaged destroyed dispensed disposed encoded expired in_progress in_transit inactive mismatch_class
    mismatch_instance mismatch_quantity needs_replacement no_pedigree_match non_conformant non_sellable_other
    partially_dispensed recalled reserved retail_sold returned sellable_accessible sellable_not_accessible stolen
    unavailable unknown
"""
DISPOSITIONS = tuple(_DISPOSITIONS.split())
Kind = Literal["location", "door"]


class Place(NamedTuple):
    """Words for events at a place; None leaves them out, and at a door uses arriving and departing."""

    biz_step: str | None = None
    disposition: str | None = None


def find(organization_id: int, kind: Kind, place_id: int) -> Place:
    sql = f"SELECT biz_step, disposition FROM epcis_place WHERE organization_id = ? AND {kind}_id = ?"
    row = execute(sql, (organization_id, place_id)).fetchone()
    return Place._make(row) if row else Place()


def all_of(organization_id: int) -> dict[tuple[Kind, int], Place]:
    """Return the words of all places that have some."""
    rows = execute(
        "SELECT location_id, door_id, biz_step, disposition FROM epcis_place WHERE organization_id = ?",
        (organization_id,),
    )
    return {
        ("door", door_id) if location_id is None else ("location", location_id): Place(step, disposition)
        for location_id, door_id, step, disposition in rows
    }


def save(actor: Actor, kind: Kind, place_id: int, entered: Place) -> None:
    """Save the words of a place. Raises Invalid or NotFound."""
    if entered.biz_step is not None and entered.biz_step not in STEPS:
        raise Invalid.one("biz_step", "invalid_value", N_("Choose one from the list"))
    if entered.disposition is not None and entered.disposition not in DISPOSITIONS:
        raise Invalid.one("disposition", "invalid_value", N_("Choose one from the list"))
    with acting(actor) as act:
        row = execute(
            f"SELECT name FROM {kind} WHERE id = ? AND organization_id = ? AND deleted_at IS NULL",
            (place_id, actor.organization_id),
        ).fetchone()
        if row is None:
            raise NotFound(f"no such {kind}")
        before = find(actor.organization_id, kind, place_id)
        execute(f"DELETE FROM epcis_place WHERE {kind}_id = ?", (place_id,))
        if any(entered):
            execute(
                f"INSERT INTO epcis_place (organization_id, {kind}_id, biz_step, disposition) VALUES (?, ?, ?, ?)",
                (actor.organization_id, place_id, *entered),
            )
        differences = changed(before._asdict(), entered._asdict())
        act.note_changes(f"{kind}.changed", Subject(kind, place_id, row[0]), differences)
