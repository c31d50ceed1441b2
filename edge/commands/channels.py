"""`edge channel`: channels that notify people of alerts."""

from __future__ import annotations

import time
from typing import Any

import click

from edge.audit.actors import Actor
from edge.commands.context import NETWORK, ask_password, named, print_table, quoted, reads, writes
from edge.errors import Unavailable
from edge.outbound import Network
from edge.people import secrets
from edge.rules.channels import channels, outbox
from edge.rules.channels.channels import Channel, NewChannel, Schedule
from edge.rules.channels.kinds import KINDS
from edge.rules.channels.kinds.email.mail_settings import Security
from edge.validation import values


@click.group("channel")
def channel() -> None:
    """Notify people of alerts, for example by email."""


@reads("list", channel)
def list_channels(organization_id: int) -> None:
    """List the channels with the state of delivery."""
    rows = channels.list_channels(organization_id)
    if not rows:
        click.echo(
            "There are no channels. Add one: edge channel add-email NAME --server HOST --sender ADDRESS --to ADDRESS"
        )
        return
    head = ["NAME", "KIND", "STATE", "SENT", "WAITING", "LOST"]
    print_table(
        head, [(row.name, row.kind, _state(row), row.sent, outbox.count_waiting(row.no), row.lost) for row in rows]
    )


@writes("add-email", channel)
@click.argument("name")
@click.option("--server", required=True, metavar="HOST[:PORT]", help="Mail server.")
@click.option(
    "--security",
    type=click.Choice([security.value for security in Security]),
    default=Security.STARTTLS.value,
    show_default=True,
    help="Encryption; none only in private networks.",
)
@click.option("--user", default="", help="User at the mail server; the command asks for the password.")
@click.option("--sender", required=True, metavar="ADDRESS", help="An address that the server accepts.")
@click.option("--to", "recipients", required=True, multiple=True, metavar="ADDRESS", help="Recipient; repeatable.")
@NETWORK
def add_email(actor: Actor, name: str, server: str, recipients: tuple[str, ...], network: str, **more: Any) -> None:
    """Send alerts by email.

    For example: edge channel add-email "Shift lead" --server mail.example.com --sender edge@example.com
    --to lead@example.com
    """
    host, _, port = server.rpartition(":") if server.count(":") == 1 else (server, "", "")
    password = ask_password() if more["user"] else ""
    entered = {**more, "host": host, "port": port, "recipients": " ".join(recipients)}
    checked = KINDS["email"].check(entered, password, Network(network))
    secret = secrets.seal(password) if password else None
    title = values.name("name", name)
    channels.add(actor, NewChannel("email", title, checked, secret, Schedule(), Network(network)))
    click.echo(f"Added {title}. Try it: edge channel test {quoted(title)}")


@writes("test", channel)
@click.argument("name")
@click.option("--wait", default=40, show_default=True, help="Seconds to wait for the result.")
def test(actor: Actor, name: str, wait: int) -> None:
    """Have the service send a test message at once, and print the result."""
    row = _find(actor.organization_id, name)
    channels.request_test(actor, row.no)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        tried = channels.get(actor.organization_id, row.no)
        if not tried.is_test_requested:
            if not tried.is_test_ok:
                raise Unavailable(f"{row.name} failed: {tried.test_result}")
            click.echo(f"{row.name} worked in {tried.test_ms} ms: {tried.test_result}")
            return
        time.sleep(0.1)
    raise Unavailable("No result yet. Check that the service is running. Later: edge channel list")


@writes("enable", channel)
@click.argument("name")
def enable(actor: Actor, name: str) -> None:
    """Resume a channel that was disabled."""
    channels.enable(actor, _find(actor.organization_id, name).no)
    click.echo("Enabled.")


@writes("disable", channel)
@click.argument("name")
def disable(actor: Actor, name: str) -> None:
    """Stop sending for now. Alerts in the meantime are not sent later."""
    channels.disable(actor, _find(actor.organization_id, name).no)
    click.echo("Disabled. To resume: edge channel enable NAME")


@writes("remove", channel)
@click.argument("name")
@click.confirmation_option(prompt="Waiting messages are discarded. Remove it")
def remove(actor: Actor, name: str) -> None:
    """Remove a channel."""
    channels.remove(actor, _find(actor.organization_id, name).no)
    click.echo("Removed.")


def _find(organization_id: int, name: str) -> Channel:
    return named(channels.list_channels(organization_id), name, "channel", "channel")


def _state(row: Channel) -> str:
    if row.disabled_at:
        return "disabled"
    return f"failing: {row.last_error}" if row.last_error else "ok"
