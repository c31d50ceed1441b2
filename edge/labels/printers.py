"""The label printer of an organization: its network address, and the paper in it."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute


class LabelPrinter(NamedTuple):
    """`address` is host:port; `paper` one of `edge.labels.papers`."""

    address: str
    paper: str
    dots_per_mm: int


def find_printer(organization_id: int) -> LabelPrinter | None:
    sql = "SELECT address, paper, dots_per_mm FROM label_printer WHERE organization_id = ?"
    row = execute(sql, (organization_id,)).fetchone()
    return LabelPrinter(*row) if row else None


def set_printer(actor: Actor, printer: LabelPrinter) -> None:
    """Store the label printer. Its values must be validated."""
    with acting(actor) as act:
        execute(
            "INSERT INTO label_printer (organization_id, address, paper, dots_per_mm, updated_at) "
            "VALUES (?, ?, ?, ?, ?) ON CONFLICT (organization_id) DO UPDATE SET address = excluded.address, "
            "paper = excluded.paper, dots_per_mm = excluded.dots_per_mm, updated_at = excluded.updated_at",
            (actor.organization_id, *printer, clock.now()),
        )
        act.note("label_printer.changed", _subject(printer), printer._asdict())


def remove_printer(actor: Actor) -> None:
    printer = find_printer(actor.organization_id)
    if printer is None:
        return
    with acting(actor) as act:
        execute("DELETE FROM label_printer WHERE organization_id = ?", (actor.organization_id,))
        act.note("label_printer.deleted", _subject(printer))


def _subject(printer: LabelPrinter) -> Subject:
    return Subject("label_printer", printer.address, printer.address)
