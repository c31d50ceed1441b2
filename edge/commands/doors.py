"""`edge door`: doors, their antennas and their passages."""

from __future__ import annotations

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import location_id_of, print_table, reader_of, reads, writes
from edge.doors import doors, passage_report
from edge.doors.doors import DoorAntenna
from edge.doors.passage_rule import Side
from edge.tracking.antenna_names import port_from

SHOWN = 20


@click.group("door")
def door() -> None:
    """Doors: which assets leave and arrive."""


@reads("list", door)
def list_doors(organization_id: int) -> None:
    """List the doors with their antennas."""
    rows = []
    for row in doors.list_doors(organization_id):
        antennas = doors.antennas_of(organization_id, row.id)
        sides = [", ".join(one.label for one in antennas if one.side == side) for side in Side]
        rows.append((row.name, *sides, row.location_name or "", row.site or ""))
    print_table(("DOOR", "INSIDE", "OUTSIDE", "LOCATION", "SITE"), rows)


@writes("add", door)
@click.argument("name")
@click.option("--location", help="External key of the location that events name.")
def add(actor: Actor, name: str, location: str | None) -> None:
    """Add a door, for example: edge door add "Dock 4" --location DOCK-4"""
    doors.add_door(actor, name, location_id_of(actor.organization_id, location) if location else None)
    click.echo(f"Added {name}. Set its antennas: edge door antennas NAME --inner READER:ANTENNA --outer READER:ANTENNA")


@writes("antennas", door)
@click.argument("name")
@click.option("--inner", multiple=True, metavar="READER[:ANTENNA]", help="Antenna of the inner side; repeatable.")
@click.option("--outer", multiple=True, metavar="READER[:ANTENNA]", help="Antenna of the outer side; repeatable.")
def antennas(actor: Actor, name: str, inner: tuple[str, ...], outer: tuple[str, ...]) -> None:
    """Replace the antennas of a door, for example: edge door antennas "Dock 4" --inner dock4:1 --outer dock4:2

    Without ANTENNA, all antennas of the reader belong to the side. Without options, the door has no antennas.
    """
    row = doors.door_named(actor.organization_id, name)
    entered = [(Side.INNER, text) for text in inner] + [(Side.OUTER, text) for text in outer]
    doors.set_antennas(actor, row.id, [_antenna(actor.organization_id, side, text) for side, text in entered])
    click.echo(f"{row.name}: {len(inner)} inside, {len(outer)} outside")


def _antenna(organization_id: int, side: Side, text: str) -> DoorAntenna:
    name, _, number = text.rpartition(":") if ":" in text else (text, "", "")
    reader = reader_of(organization_id, name)
    return DoorAntenna(side, reader.id, port_from(reader.id, number) if number else None)


@writes("remove", door)
@click.argument("name")
def remove(actor: Actor, name: str) -> None:
    """Remove a door. Its passages are kept."""
    row = doors.door_named(actor.organization_id, name)
    doors.remove_door(actor, row.id)
    click.echo(f"Removed {row.name}")


@reads("passages", door)
@click.argument("name")
def passages(organization_id: int, name: str) -> None:
    """List the last passages of a door."""
    row = doors.door_named(organization_id, name)
    rows = passage_report.passages_of_door(organization_id, row.id, SHOWN)
    print_table(
        ("TIME", "DIRECTION", "CONFIDENCE", "ASSET", "NAME"),
        [
            (
                *(clock.rfc3339(one.at), one.direction.name.lower().replace("_", " ")),
                *(f"{one.confidence:.0%}", one.asset_key, one.asset_name),
            )
            for one in rows
        ],
    )
