"""`edge reader antenna`, `kind`, `offset`, `correct`: locations, kinds and RSSI offsets of antennas."""

from __future__ import annotations

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import Setup, key_of, location_id_of, location_of, print_table, reader_of, reads, writes
from edge.errors import Invalid
from edge.readers import correction_offers, location_corrections, readers
from edge.readers.antenna_kinds import set_reader_kind
from edge.readers.location_corrections import Correction
from edge.readers.offset_proposals import proposals
from edge.readers.readers import AntennaRow, Placement
from edge.tracking.antenna_names import names_of, port_from
from edge.tracking.rssi_offsets import offsets_of, set_offset
from edge.tracking.signal_strength import AntennaKind
from edge.validation import times, values


@writes("antenna")
@click.argument("name")
@click.argument("number", metavar="ANTENNA")
@click.option("--location", help="External key of its location; empty: same as reader.")
@click.option("--min-rssi", help="Minimum signal strength (dBm); empty: same as reader.")
@click.option("--on/--off", "is_enabled", default=None, help="Record its reads.")
@click.option("--forget", is_flag=True, help="Remove the settings of this antenna.")
def antenna(
    actor: Actor,
    name: str,
    number: str,
    location: str | None,
    min_rssi: str | None,
    is_enabled: bool | None,
    forget: bool,
) -> None:
    """Set which location one antenna reads, for example: edge reader antenna dock1 2 --location STAGING

    ANTENNA is its number, or its name where it has one.
    """
    row = reader_of(actor.organization_id, name)
    port = port_from(row.id, number)
    was_id = correction_offers.location_of(actor.organization_id, row.id, port)
    if forget:
        readers.remove_antenna(actor, row.id, port)
        click.echo(f"Antenna {number} of {row.name} uses the settings of its reader again")
        print_offers(actor.organization_id, row.id, port, was_id)
        return
    known = {one.port: one for one in readers.list_antennas(actor.organization_id, row.id)}
    before = known.get(port, AntennaRow(row.id, port, None, None, True))
    placement = Placement(
        before.location_id if location is None else location_id_of(actor.organization_id, location),
        before.min_rssi if min_rssi is None else values.signal_strength("min_rssi", min_rssi),
        before.is_enabled if is_enabled is None else is_enabled,
    )
    readers.set_antenna(actor, row.id, port, placement)
    click.echo(
        f"Antenna {number} of {row.name}: {key_of(actor.organization_id, placement.location_id) or 'as its reader'}"
    )
    print_offers(actor.organization_id, row.id, port, was_id)


def print_offers(organization_id: int, reader_id: int, port: int | None, was_id: int | None) -> None:
    """Print the commands that correct history recorded at the previous location `was_id`."""
    for offer in correction_offers.offers(organization_id, reader_id, port, was_id):
        click.echo(f"Earlier reads are recorded at {offer.was.name}. If that was wrong, preview a correction:")
        correction = Correction(reader_id, offer.port, offer.was.id, offer.right.id, offer.since, clock.now())
        click.echo(f"  {correction_offers.command(organization_id, correction)}")


@writes("kind")
@click.argument("name")
@click.argument("meaning", metavar="KIND", type=click.Choice([*(kind.value for kind in AntennaKind), "inherit"]))
@click.option("--antenna", "number", help="This antenna only.")
def kind(actor: Actor, name: str, meaning: str, number: str | None) -> None:
    """Set how reads of a reader, or of one antenna, are used, for example: edge reader kind dock1 portal

    zone: the asset is there if the evidence says so. portal: it passes, the first read counts unless it is a stray.
    direct: every read counts. inherit: as the reader, or its location, says; if nobody does, a zone.
    """
    row = reader_of(actor.organization_id, name)
    port = None if number is None else port_from(row.id, number)
    set_reader_kind(actor, row.id, row.name, None if meaning == "inherit" else AntennaKind(meaning), port)
    click.echo(f"{row.name}{'' if number is None else f', antenna {number}'}: {meaning}")


@writes("offset", context_settings={"ignore_unknown_options": True})  # accepts -10 as an argument
@click.argument("name")
@click.argument("decibels", metavar="DB")
@click.option("--antenna", "number", help="This antenna only.")
def offset(actor: Actor, name: str, decibels: str, number: str | None) -> None:
    """Add decibels to the strengths of a reader, or of one antenna, for example: edge reader offset dock1 -10

    So readers of different makes compare. DB is between -30 and 30; an empty text removes the offset. Strengths are
    shown as they were read.
    """
    row = reader_of(actor.organization_id, name)
    port = None if number is None else port_from(row.id, number)
    value = values.decibels("rssi_offset", decibels)
    set_offset(actor, row.id, row.name, value, port)
    shown = "no offset" if value is None else f"{value:+g} dB"
    click.echo(f"{row.name}{'' if number is None else f', antenna {number}'}: {shown}")


@writes("correct")
@click.argument("name")
@click.option("--was", required=True, help="External key of the wrong location.")
@click.option("--is", "right", required=True, help="External key of the right location.")
@click.option("--since", required=True, help="For example 2026-11-01T06:00:00Z.")
@click.option("--until", help="Same format as --since. Default: now.")
@click.option("--antenna", "number", help="This antenna only.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Apply the changes. Without it, only show them.")
@click.pass_obj
def correct(
    setup: Setup,
    actor: Actor,
    name: str,
    was: str,
    right: str,
    since: str,
    until: str | None,
    number: str | None,
    is_confirmed: bool,
) -> None:
    """Correct history after a wrong location.

    For example: edge reader correct dock1 --was DOCK-1 --is DOCK-2 --since 2026-11-01T06:00:00Z

    Without --yes it only shows how much would change. Reads from now on follow the settings of the reader.
    """
    organization_id = actor.organization_id
    row = reader_of(organization_id, name)
    correction = Correction(
        row.id,
        None if number is None else port_from(row.id, number),
        location_of(organization_id, was).id,
        location_of(organization_id, right).id,
        _parse_time("since", since),
        clock.now() if until is None else _parse_time("until", until),
    )
    preview = location_corrections.preview(organization_id, correction)
    extent = f"{preview.rows} rows of history of {preview.assets} assets, {preview.current} of them current locations"
    if not is_confirmed:
        click.echo(f"Would change {extent}. To apply: the same command with --yes")
        return
    location_corrections.correct(actor, correction, setup.config.ingest_sighting_gap_seconds * clock.SECOND)
    click.echo(f"Changed {extent}")


def _parse_time(field: str, text: str) -> int:
    moment = times.parse(text)
    if moment is None:
        raise Invalid.one(field, "invalid_value", f"--{field} must be a time such as 2026-11-01T06:00:00Z")
    return moment


@reads("offsets")
@click.argument("name", required=False)
def list_offsets(organization_id: int, name: str | None) -> None:
    """List RSSI offsets, and propose them from tags that two readers read while standing still."""
    offsets = offsets_of(organization_id)
    rows, advice = [], []
    for row in [reader_of(organization_id, name)] if name else readers.list_readers(organization_id):
        names = names_of(row.id)
        if row.id in offsets.readers:
            rows.append((row.name, "all", f"{offsets.readers[row.id]:+g} dB"))
        own = sorted((port, value) for (reader_id, port), value in offsets.antennas.items() if reader_id == row.id)
        rows += [(row.name, names.get(port, str(port)), f"{value:+g} dB") for port, value in own]
        for one in proposals(organization_id, row.id):
            antenna = "" if one.port is None else f" --antenna {names.get(one.port, str(one.port))}"
            stronger = f"{abs(one.difference):g} dB {'stronger' if one.difference > 0 else 'weaker'} than {one.other}"
            advice.append(f"{row.name}, {one.label}: {stronger} ({one.tags} tags that both read)")
            advice.append(f"  edge reader offset '{row.name}'{antenna} {one.decibels:g}")
    print_table(["READER", "ANTENNA", "OFFSET"], rows)
    click.echo("\n".join(advice) or "No offset is proposed")
