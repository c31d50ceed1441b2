"""`edge output`: lamps, horns and gates that rules switch."""

from __future__ import annotations

import time

import click

from edge.audit.actors import Actor
from edge.commands.context import Setup, named, print_table, quoted, reads, writes
from edge.commands.readers.broker_accounts import print_account
from edge.errors import Unavailable
from edge.rules.outputs import forms, outputs
from edge.rules.outputs.forms import Form
from edge.rules.outputs.output_state import TEST_SECONDS
from edge.rules.outputs.outputs import Output
from edge.validation import values


@click.group("output")
def output() -> None:
    """Switch lamps, horns and gates over MQTT by alerts."""


@reads("list", output)
def list_outputs(organization_id: int) -> None:
    """List the outputs with their state."""
    rows = outputs.list_outputs(organization_id)
    if not rows:
        click.echo("There are no outputs. Add one: edge output add NAME --form shelly --device TOPIC_PREFIX")
        return
    print_table(["NAME", "DEVICE", "TOPIC", "STATE"], [(row.name, row.form, row.topic, _state(row)) for row in rows])


@writes("add", output)
@click.argument("name")
@click.option("--form", required=True, type=click.Choice([form.value for form in Form]), help="Kind of device.")
@click.option("--device", required=True, help="Name or topic prefix of the device; with --form topic its topic.")
@click.option("--relay", default=0, show_default=True, help="Relay of a Shelly or Tasmota device.")
@click.option("--on", "on_payload", default="", help="With --form topic: message that switches on.")
@click.option("--off", "off_payload", default="", help="With --form topic: message that switches off.")
@click.option("--seconds", default=10, show_default=True, help="Time on; 0 until the alert is acknowledged.")
def add(actor: Actor, name: str, **entered: str | int) -> None:
    """Add an output.

    For example: edge output add "Horn at dock 4" --form shelly --device shellyplus1-a8032ab
    """
    title = values.name("name", name)
    row = outputs.add(actor, title, forms.checked({field: str(value) for field, value in entered.items()}))
    click.echo(f"Added {row.name}; commands are published on {row.topic}. Try it: edge output test {quoted(title)}")


@writes("account", output)
@click.argument("name")
@click.pass_obj
def account(setup: Setup, actor: Actor, name: str) -> None:
    """Make the account of the device at the broker, or give it a new password; shown once."""
    row = _find(actor.organization_id, name)
    user, password = outputs.issue_account(actor, row.no, setup.config.mqtt_broker)
    print_account(setup.config, user, password)
    click.echo(f"may read {row.topic} only, and publish nothing")


@writes("test", output)
@click.argument("name")
@click.option("--wait", default=10, show_default=True, help="Seconds to wait for the broker.")
def test(actor: Actor, name: str, wait: int) -> None:
    """Have the service switch an output on for 3 seconds, and print whether the broker took the command."""
    row = _find(actor.organization_id, name)
    outputs.request_test(actor, row.no)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        tried = outputs.get(actor.organization_id, row.no)
        if tried.is_on and tried.switched_at and tried.switched_at >= (tried.tested_at or 0):
            click.echo(f"The broker took the command. {row.name} switches off after {TEST_SECONDS} s.")
            return
        if tried.last_error:
            raise Unavailable(f"{row.name} failed: {tried.last_error}")
        time.sleep(0.1)
    raise Unavailable("No result yet. Check that the service is running. Later: edge output list")


@writes("enable", output)
@click.argument("name")
def enable(actor: Actor, name: str) -> None:
    """Let new alerts switch an output."""
    outputs.enable(actor, _find(actor.organization_id, name).no)
    click.echo("Enabled.")


@writes("disable", output)
@click.argument("name")
def disable(actor: Actor, name: str) -> None:
    """Switch an output off until it is enabled."""
    outputs.disable(actor, _find(actor.organization_id, name).no)
    click.echo("Disabled. To resume: edge output enable NAME")


@writes("remove", output)
@click.argument("name")
@click.confirmation_option(prompt="Rules no longer switch it. Remove it")
def remove(actor: Actor, name: str) -> None:
    """Switch an output off and remove it."""
    outputs.remove(actor, _find(actor.organization_id, name).no)
    click.echo("Removed.")


def _find(organization_id: int, name: str) -> Output:
    return named(outputs.list_outputs(organization_id), name, "output", "output")


def _state(row: Output) -> str:
    if row.disabled_at:
        return "disabled"
    if row.last_error:
        return f"failing: {row.last_error}"
    return "on" if row.is_on else "off"
