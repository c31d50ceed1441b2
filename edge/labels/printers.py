"""The label printer of an organization: its network address, and the paper in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, insert
from edge.errors import NotFound


class LabelPrinter(NamedTuple):
    """`address` is host:port; `paper` one of `edge.labels.papers`."""

    address: str
    paper: str
    dots_per_mm: int


class LocationPrinter(NamedTuple):
    """A label printer for the labels of a location and its sub-locations."""

    location_id: int
    location_name: str
    printer: LabelPrinter


def location_printers(organization_id: int) -> list[LocationPrinter]:
    """Return the printers at live locations, by name."""
    rows = execute(
        "SELECT location.id, location.name, one.address, one.paper, one.dots_per_mm FROM location_printer one "
        "JOIN location ON location.id = one.location_id AND location.deleted_at IS NULL "
        "WHERE one.organization_id = ? ORDER BY location.name, location.id",
        (organization_id,),
    )
    return [LocationPrinter(row[0], row[1], LabelPrinter(*row[2:])) for row in rows]


def nearest_printer(organization_id: int, places: Sequence[int]) -> LabelPrinter | None:
    """Return the printer of the first place with one, otherwise that of the organization.

    `places` are a location and its ancestors.
    """
    printers = {one.location_id: one.printer for one in location_printers(organization_id)}
    return next((printers[place] for place in places if place in printers), None) or find_printer(organization_id)


def find_printer(organization_id: int) -> LabelPrinter | None:
    sql = "SELECT address, paper, dots_per_mm FROM label_printer WHERE organization_id = ?"
    row = execute(sql, (organization_id,)).fetchone()
    return LabelPrinter(*row) if row else None


def set_printer(actor: Actor, printer: LabelPrinter, location_id: int | None = None) -> None:
    """Store the printer of a location, or without one that of the organization. Its values must be validated.

    Raises NotFound and Conflict.
    """
    columns = {"organization_id": actor.organization_id, **printer._asdict(), "updated_at": clock.now()}
    with acting(actor) as act:
        detail: dict[str, Any] = printer._asdict()
        if location_id is None:
            execute("DELETE FROM label_printer WHERE organization_id = ?", (actor.organization_id,))
            insert("label_printer", columns)
        else:
            live = "SELECT name FROM location WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
            location = execute(live, (location_id, actor.organization_id)).fetchone()
            if location is None:
                raise NotFound("no such location")
            execute("DELETE FROM location_printer WHERE location_id = ?", (location_id,))
            insert("location_printer", {"location_id": location_id, **columns})
            quotas.check_cap(actor, "location_printer")
            detail["location"] = location[0]
        act.note("label_printer.changed", _subject(printer), detail)


def remove_printer(actor: Actor, location_id: int | None = None) -> None:
    """Remove the printer of a location, or without one that of the organization, if there is one."""
    of_location = "location_printer WHERE location_id = :location_id AND"
    table = "label_printer WHERE" if location_id is None else of_location
    sql = f"DELETE FROM {table} organization_id = :organization_id RETURNING address, paper, dots_per_mm"
    with acting(actor) as act:
        row = execute(sql, {"location_id": location_id, "organization_id": actor.organization_id}).fetchone()
        if row:
            detail = None if location_id is None else {"location": location_id}
            act.note("label_printer.deleted", _subject(LabelPrinter(*row)), detail)


def _subject(printer: LabelPrinter) -> Subject:
    return Subject("label_printer", printer.address, printer.address)
