"""The label printer of an organization: its network address, and the paper in it.

It accepts ZPL on a TCP port, usually 9100, and sends no answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from edge import clock, outbound
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, insert
from edge.errors import Invalid, NotFound, Unavailable
from edge.outbound import Network, NotAllowed
from edge.texts import N_, fill


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


PORT = 9100
SECONDS = 5
NETWORK = Network.PRIVATE  # never this box
WAIT_SECONDS = 1.0  # for the previous labels; a printer that is off takes up to 10 s until it fails

_busy: set[str] = set()
_changed = threading.Condition()


def check_port(port: int, ports: Sequence[str]) -> None:
    """Raise Invalid for a port that label printers do not have: others would show which services are in the network.

    `ports` are ports and ranges, as in the setting labels.printer_ports.
    """
    ranges = (one.partition("-") for one in ports)
    if not any(int(first) <= port <= int(last or first) for first, _, last in ranges):
        message = N_("Label printers use the ports %(ports)s. For another port, change labels.printer_ports")
        raise Invalid.one("address", "invalid_value", fill(message, ports=", ".join(ports)))


def send(address: str, data: bytes, ports: Sequence[str]) -> None:
    """Send ZPL to `address` (host:port).

    Raises Unavailable if the printer does not take all of it or is busy, and Invalid as `check_port`.
    """
    host, _, port = address.rpartition(":")
    check_port(int(port), ports)
    try:
        with _alone(address), outbound.connect(host, int(port), NETWORK, is_encrypted=False) as connection:
            connection.settimeout(SECONDS)
            connection.sendall(data)
    except NotAllowed as error:
        message = N_("Labels cannot be sent to %(address)s: %(error)s. Enter the printer's own address")
        raise Unavailable(fill(message, address=address, error=error)) from error
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that the DNS cannot hold
        message = N_("The label printer at %(address)s does not respond (%(error)s). Check that it is on and has paper")
        raise Unavailable(fill(message, address=address, error=error)) from error


@contextmanager
def _alone(address: str) -> Iterator[None]:
    """Let one request at a time use a printer: more would occupy all threads while it is off. Raises Unavailable."""
    with _changed:
        if not _changed.wait_for(lambda: address not in _busy, WAIT_SECONDS):
            message = N_("The label printer at %(address)s is busy or off. Try again in a few seconds")
            raise Unavailable(fill(message, address=address))
        _busy.add(address)
    try:
        yield
    finally:
        with _changed:
            _busy.discard(address)
            _changed.notify_all()
