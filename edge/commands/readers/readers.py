"""`edge reader`: add, list, change and try out readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import Setup, key_of, location_id_of, print_table, reader_of, reads, writes
from edge.commands.readers import antennas
from edge.commands.readers.broker_accounts import make_account
from edge.errors import Invalid
from edge.formats.examples import examples
from edge.formats.reads import Attempt, Guess
from edge.formats.registry import CUSTOM, FORMATS, check_format, recognize
from edge.ingest.try_out import try_out
from edge.readers import dead_letters, ignored_messages, ledger, mapped_fields, readers, status, unassigned_topics
from edge.readers.clocks import AUTO, describe_clock
from edge.readers.readers import ReaderRow
from edge.readers.status import AntennaState
from edge.validation import values

SHOWN_BYTES = 300
CLOCK_HELP = (
    "How its times are used: auto (corrected by the offset that is measured), reader (as they are), receipt (not at "
    "all: using the time of receipt), or the time zone of a clock that reports none, such as Europe/Berlin."
)


@click.group()
def reader() -> None:
    """Readers and gateways that publish over MQTT."""


reader.add_command(antennas.antenna)
reader.add_command(antennas.kind)
reader.add_command(antennas.offset)
reader.add_command(antennas.correct)
reader.add_command(antennas.list_offsets)


@reader.command("formats")
def list_formats() -> None:
    """List the formats that are understood."""
    rows = [(row.name, row.title, row.example_topic) for row in FORMATS.values()]
    print_table(
        ["FORMAT", "READERS", "TOPIC, FOR EXAMPLE"], [*rows, (CUSTOM, "any other format; edge reader mappings", "")]
    )


@writes("add", reader)
@click.argument("name")
@click.option("--topic", required=True, help="MQTT topic filter; may contain + and #.")
@click.option("--format", "format_name", required=True, help="Format; see edge reader formats.")
@click.option("--location", help="External key of its location; antennas can have their own.")
@click.option("--min-rssi", default="", help="Minimum signal strength (dBm).")
@click.option("--mapping", type=click.Path(path_type=Path), help="JSON file that describes the format `mapping`.")
@click.option("--status-topic", help="MQTT topic of status and last will, if different.")
@click.option("--clock", "clock_setting", default=AUTO, help=CLOCK_HELP)
@click.option("--account", is_flag=True, help="Also create its broker account.")
@click.pass_obj
def add_reader(
    setup: Setup,
    actor: Actor,
    name: str,
    topic: str,
    format_name: str,
    location: str | None,
    min_rssi: str,
    mapping: Path | None,
    status_topic: str | None,
    clock_setting: str,
    account: bool,
) -> None:
    """Connect a reader, for example: edge reader add dock1 --topic site/dock1/reads --format csl --location DOCK-1"""
    described = _mapping_text(mapping)
    check_format(format_name, described)
    row = readers.add_reader(
        actor,
        name=name,
        topic=topic,
        format=format_name,
        mapping=described,
        location_id=location_id_of(actor.organization_id, location),
        min_rssi=values.signal_strength("min_rssi", min_rssi),
        clock_setting=clock_setting,
        status_topic=status_topic,
    )
    click.echo(f"Added reader {row.name}. Show its messages: edge reader show '{row.name}'")
    if account:
        make_account(setup.config, actor, row.id)


@reads("list", reader)
def list_readers(organization_id: int) -> None:
    """List the readers and when each was last heard."""
    states = {state.id: state for state in status.list_states(organization_id)}
    print_table(
        ["NAME", "TOPIC", "FORMAT", "LAST HEARD"],
        [
            (row.name, row.topic, row.format, _last_message_text(states[row.id]))
            for row in readers.list_readers(organization_id)
        ],
    )


@reads("show", reader)
@click.argument("name")
def show_reader(organization_id: int, name: str) -> None:
    """Show one reader: settings, antennas, and outcome of its messages in the last 24 hours."""
    row = reader_of(organization_id, name)
    state = status.statuses(organization_id).get(row.id)
    where = f"at {key_of(organization_id, row.location_id)}" if row.location_id else "no own location"
    click.echo(f"{row.name}: {row.format} on {row.topic}, {where}{_limits(row)}")
    heard = next(one for one in status.list_states(organization_id) if one.id == row.id)
    click.echo(f"Last heard: {_last_message_text(heard)}")
    measured = (state.clock_offset, state.clock_stands_at) if state else (None, None)
    click.echo(f"Its clock: {describe_clock(row.clock_setting, *measured)}")
    if state and state.note:
        click.echo(f"It says: {state.note}")
    for remark in mapped_fields.remarks_of(organization_id, row.id):
        click.echo(f"Check the mapping: {remark}")
    if antennas := status.antennas(organization_id, row.id):
        print_table(
            ["ANTENNA", "LOCATION", "", "LAST READ"],
            [
                (one.label if one.port else "all", key_of(organization_id, one.location_id) or "none", _limits(one),
                 clock.rfc3339(one.last_read_at) if one.last_read_at else "never")
                for one in antennas
            ],
        )  # fmt: skip
    since = ledger.hour_of(clock.now()) - 24
    print_table(["LAST 24 HOURS", "MESSAGES", "READS"], ledger.totals(row.id, since))
    _print_ignored(organization_id, row)
    _print_unreadable(organization_id, row)


@writes("change", reader)
@click.argument("name")
@click.option("--name", "new_name", help="A new name.")
@click.option("--topic", help="A new topic.")
@click.option("--format", "format_name", help="A new format.")
@click.option("--mapping", type=click.Path(path_type=Path), help="JSON file that describes the format `mapping`.")
@click.option("--location", help="External key of its location; empty for none.")
@click.option("--min-rssi", help="Minimum signal strength (dBm); empty for none.")
@click.option("--status-topic", help="MQTT topic of status and last will; empty for none.")
@click.option("--clock", "clock_setting", help=CLOCK_HELP)
@click.option("--on/--off", "is_enabled", default=None, help="Record its reads.")
def change_reader(actor: Actor, name: str, new_name: str | None, **options: Any) -> None:
    """Change the given settings and leave the others."""
    row = reader_of(actor.organization_id, name)
    changes = {"name": new_name, **{field: options[field] for field in ("topic", "clock_setting", "is_enabled")}}
    changes = {field: value for field, value in changes.items() if value is not None}
    if options["format_name"] or options["mapping"]:
        changes["format"] = options["format_name"] or row.format
        changes["mapping"] = _mapping_text(options["mapping"]) or row.mapping
        check_format(changes["format"], changes["mapping"])
    if options["status_topic"] is not None:
        changes["status_topic"] = options["status_topic"] or None
    if options["location"] is not None:
        changes["location_id"] = location_id_of(actor.organization_id, options["location"])
    if options["min_rssi"] is not None:
        changes["min_rssi"] = values.signal_strength("min_rssi", options["min_rssi"])
    if not changes:
        raise click.UsageError("No changes given; see: edge reader change --help")
    after = readers.change_reader(actor, row.id, changes)
    click.echo(f"Changed reader {after.name}: {', '.join(changes)}")
    if "location_id" in changes:
        antennas.print_offers(actor.organization_id, row.id, None, row.location_id)


@reads("try", reader)
@click.argument("name", required=False)
@click.option("--file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A message.")
@click.option("--message", help="Message as text.")
@click.option(
    "--topic",
    help="Topic of the message. Without --file or --message, use the last message received on this unassigned topic.",
)
@click.option("--format", "format_name", help="Format to use instead of the reader's.")
@click.option("--mapping", type=click.Path(path_type=Path), help="JSON file that describes the format `mapping`.")
def try_reader(organization_id: int, name: str | None, **options: Any) -> None:
    """Show the outcome of a message without saving anything.

    Without --file or --message, use the reader's last message that its format did not recognize. For example:
    edge reader try dock1 --file message.json --format zebra
    """
    row = reader_of(organization_id, name) if name else None
    topic, payload = _message_to_try(organization_id, row, options)
    format_name = options["format_name"] or (CUSTOM if options["mapping"] else row.format if row else None)
    if format_name is None:
        guess = recognize(topic, payload)
        if guess.name is None:
            raise click.UsageError(f"Pass --format; possibly {', '.join(guess.candidates) or _mapping_of(guess)}")
        format_name = guess.name
        click.echo(f"This looks like {format_name}")
    mapping = _mapping_text(options["mapping"]) or (row.mapping if row else None)
    attempt = Attempt(topic, payload, format_name, mapping)
    if row:
        attempt = Attempt(*attempt[:4], row.location_id, row.min_rssi, row.clock_setting, row.id)
    trial = try_out(organization_id, attempt)
    click.echo(f"Result: {trial.bucket}" + (f": {trial.note}" if trial.note else ""))
    for remark in trial.remarks:
        click.echo(f"Check the mapping: {remark}")
    if not trial.reads:
        if other := _another_format(format_name, recognize(topic, payload)):
            click.echo(f"But {other}")
        return
    print_table(
        ["TAG", "ANTENNA", "LOCATION", "DBM", "TIME", "RESULT"],
        [
            (
                one.read.value,
                one.read.antenna_name or one.read.antenna or "",
                key_of(organization_id, one.location_id),
                "" if one.read.rssi is None else f"{one.read.rssi:g}",
                ("of receipt: no zone" if one.lacks_zone else "of receipt")
                if one.observed_at is None
                else clock.rfc3339(one.observed_at),
                one.bucket,
            )
            for one in trial.reads
        ],
    )


def _message_to_try(organization_id: int, row: ReaderRow | None, options: dict[str, Any]) -> tuple[str, bytes]:
    topic = options["topic"] or (row.topic if row else "")
    if options["file"]:
        return topic, options["file"].read_bytes()
    if options["message"] is not None:
        return topic, options["message"].encode()
    if row:
        for ignored in ignored_messages.list_messages(organization_id, row.id):
            return ignored.topic, ignored.payload
    unassigned = unassigned_topics.find_topic(organization_id, topic) if topic else None
    if unassigned is None:
        raise click.UsageError("Pass a message: --file FILE or --message TEXT")
    return unassigned.topic, unassigned.sample


@reader.command("mappings")
@click.argument("name", required=False)
def show_mappings(name: str | None) -> None:
    """List the mappings to begin with, or print one: edge reader mappings cassia > cassia.json"""
    if name is None:
        print_table(
            ["NAME", "FOR", "TOPIC, FOR EXAMPLE"], [(row.name, row.title, row.topic) for row in examples().values()]
        )
        return
    if name not in examples():
        raise click.UsageError(f"There is no mapping {name}; see: edge reader mappings")
    click.echo(json.dumps(examples()[name].mapping, indent=2))


@writes("remove", reader)
@click.argument("name")
def remove_reader(actor: Actor, name: str) -> None:
    """Remove a reader. Its recorded history is kept."""
    readers.remove_reader(actor, reader_of(actor.organization_id, name).id)
    click.echo(f"Removed reader {name}")


def _print_ignored(organization_id: int, row: ReaderRow) -> None:
    for message in ignored_messages.list_messages(organization_id, row.id)[:1]:
        guess = recognize(message.topic, message.payload)
        looks = f"; {other}" if (other := _another_format(row.format, guess)) else ""
        note = f" ({message.note})" if message.note else ""
        click.echo(
            f"Last message not in format {row.format}, {clock.rfc3339(message.received_at)} on "
            f"{message.topic}{note}{looks}:\n  {_preview(message.payload)}"
        )


def _print_unreadable(organization_id: int, row: ReaderRow) -> None:
    for letter in dead_letters.list_letters(organization_id, SHOWN_BYTES, 1, row.id):
        click.echo(
            f"Last unreadable message, {clock.rfc3339(letter.received_at)} on {letter.topic}: "
            f"{letter.reason}\n  {_preview(letter.payload)}"
        )


def _another_format(present: str, guess: Guess) -> str:
    """Suggest another format or mapping for a message without readable tags; empty if none is known."""
    if guess.name:
        return f"it looks like {guess.name}" if guess.name != present else ""
    return f"it can be read with {_mapping_of(guess)}" if guess.mapping else ""


def _mapping_of(guess: Guess) -> str:
    return f'the mapping "{guess.mapping}"; see: edge reader mappings' if guess.mapping else "a mapping"


def _preview(payload: bytes) -> str:
    start = payload[:SHOWN_BYTES].decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in start)


def _mapping_text(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid.one("mapping", "invalid_value", f"{file} cannot be read: {error}") from error


def _last_message_text(state: status.ReaderState) -> str:
    if state.last_received_at is None:
        return "never since setup"
    return clock.rfc3339(state.last_received_at) + (", reported offline" if state.is_offline else "")


def _limits(row: ReaderRow | AntennaState) -> str:
    weak = f" from {row.min_rssi:g} dBm" if row.min_rssi is not None else ""
    return weak + ("" if row.is_enabled else " (off)")
