"""`edge events`: manage event destinations."""

from __future__ import annotations

import time

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import (
    NETWORK,
    ask_password,
    current_setup,
    location_id_of,
    named,
    print_table,
    quoted,
    reads,
    writes,
)
from edge.errors import Unavailable
from edge.events import destinations, detection, validation
from edge.events.destinations import EPCIS_KINDS, BodyFormat, Destination, DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.outbound import Network
from edge.people import secrets
from edge.people.secrets import new_webhook_secret
from edge.validation import values

_ON = click.option("--on", "kinds", multiple=True, metavar="KIND", help=f"{', '.join(KINDS)}; repeat; default: all.")
_LOCATION = click.option("--location", help="Key of a location: only events there or in its sub-locations.")


@click.group()
def events() -> None:
    """Notify other programs of events, by webhook or MQTT."""


@writes("add-webhook", events)
@click.argument("name")
@click.argument("url")
@_ON
@_LOCATION
@click.option("--epcis", "is_epcis", is_flag=True, help="Send EPCIS 2.0 documents: stays, carriers and passages.")
@NETWORK
def add_webhook(
    actor: Actor, name: str, url: str, kinds: tuple[str, ...], location: str | None, is_epcis: bool, network: str
) -> None:
    """Send events to URL by POST, signed as Standard Webhooks specifies. Prints the secret once."""
    checked = validation.webhook_url(url, is_on_internet=network == Network.INTERNET)
    secret = new_webhook_secret()
    body_format = BodyFormat.EPCIS if is_epcis else BodyFormat.EDGE
    row = _add(actor, DestinationKind.WEBHOOK, name, checked, secret, kinds, location, network, body_format=body_format)
    click.echo(f"Added {row.name}. The receiver verifies signatures with this secret, shown only once:\n")
    click.echo(secret)
    click.echo(f"\nTry it: edge events test {quoted(row.name)}")


@writes("add-mqtt", events)
@click.argument("name")
@click.argument("url")
@click.option(
    "--topic",
    default=validation.DEFAULT_TOPIC,
    show_default=True,
    help="Topic for events; {type}, {asset}, {location} and {reader} are replaced by the event's values.",
)
@click.option("--sign-in", "has_password", is_flag=True, help="Prompt for the password of the user in URL.")
@_ON
@_LOCATION
@NETWORK
def add_mqtt(
    actor: Actor,
    name: str,
    url: str,
    topic: str,
    has_password: bool,
    kinds: tuple[str, ...],
    location: str | None,
    network: str,
) -> None:
    """Publish events to the broker at URL, for example mqtts://edge@broker.example.com."""
    checked = validation.broker_url(url, is_on_internet=network == Network.INTERNET)
    template = validation.topic_template(topic)
    password = ask_password() if has_password else ""
    row = _add(actor, DestinationKind.MQTT, name, checked, password, kinds, location, network, template)
    click.echo(f"Added {row.name}. Try it: edge events test {quoted(row.name)}")


@reads("list", events)
def list_destinations(organization_id: int) -> None:
    """List the destinations with their event kinds and the state of delivery."""
    rows = destinations.list_destinations(organization_id)
    if not rows:
        click.echo("There are no destinations. Add one: edge events add-webhook NAME URL")
        return
    head = ["NAME", "KIND", "TO", "EVENTS", "STATE", "DELIVERED", "WAITING", "LOST"]
    table = [
        (
            row.name,
            row.kind,
            row.url,
            _chosen(row),
            _state(row),
            row.delivered,
            destinations.count_waiting(row),
            row.lost,
        )
        for row in rows
    ]
    print_table(head, table)


@reads("show", events)
@click.argument("name")
def show(organization_id: int, name: str) -> None:
    """Show the newest delivery attempts to a destination."""
    row = _find(organization_id, name)
    attempts = destinations.list_attempts(organization_id, row.no, 20)
    table = [
        (clock.rfc3339(one.at), one.event_kind, one.event_id, f"{one.milliseconds} ms", one.detail) for one in attempts
    ]
    print_table(["AT", "EVENT", "ID", "TOOK", "ANSWER"], table)


@writes("test", events)
@click.argument("name")
@click.option("--wait", default=30, show_default=True, help="Seconds to wait for the response.")
def test(actor: Actor, name: str, wait: int) -> None:
    """Have the service send a test event, before anything else that waits, and print the result."""
    row = _find(actor.organization_id, name)
    began = clock.now()
    destinations.request_test(actor, row.no)
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        tried = [
            one for one in destinations.list_attempts(actor.organization_id, row.no, 5) if one.event_kind == "test"
        ]
        if tried and tried[0].at >= began:
            if not tried[0].is_delivered:
                raise Unavailable(f"{row.name} did not accept it: {tried[0].detail}")
            click.echo(f"{row.name} accepted it in {tried[0].milliseconds} ms: {tried[0].detail}")
            return
        time.sleep(0.1)
    raise Unavailable("No response yet. Check that the service is running. Later: edge events show NAME")


@writes("enable", events)
@click.argument("name")
def enable(actor: Actor, name: str) -> None:
    """Resume a destination that was disabled."""
    destinations.enable(actor, _find(actor.organization_id, name).no)
    click.echo("Resumes within seconds with the events still in the log.")


@writes("disable", events)
@click.argument("name")
def disable(actor: Actor, name: str) -> None:
    """Stop sending to a destination for now."""
    destinations.disable(actor, _find(actor.organization_id, name).no)
    click.echo("Disabled. To resume: edge events enable NAME")


@writes("new-secret", events)
@click.argument("name")
def new_secret(actor: Actor, name: str) -> None:
    """Give a webhook another secret, or a broker another password. The old one stops working at once."""
    row = _find(actor.organization_id, name)
    secret = new_webhook_secret() if row.kind is DestinationKind.WEBHOOK else ask_password()
    destinations.change_secret(actor, row.no, secrets.seal(secret))
    if row.kind is DestinationKind.WEBHOOK:
        click.echo(secret)


@writes("remove", events)
@click.argument("name")
@click.confirmation_option(prompt="Undelivered events are discarded. Remove it")
def remove(actor: Actor, name: str) -> None:
    """Remove a destination."""
    destinations.remove(actor, _find(actor.organization_id, name).no)
    click.echo("Removed.")


def _add(
    actor: Actor,
    kind: DestinationKind,
    name: str,
    url: str,
    secret: str,
    kinds: tuple[str, ...],
    location: str | None,
    network: str,
    topic: str = "",
    body_format: BodyFormat = BodyFormat.EDGE,
) -> Destination:
    possible = sorted(EPCIS_KINDS) if body_format is BodyFormat.EPCIS else KINDS
    selection = Filter(
        validation.event_kinds(kinds or possible, possible), location_id_of(actor.organization_id, location)
    )
    title = values.name("name", name)
    new = NewDestination(kind, title, url, secrets.seal(secret), selection, Network(network), topic, body_format)
    row = destinations.add(actor, new)
    config = current_setup().config
    detection.start(detection.silence_of(config.events_unseen_hours, config.events_reader_offline_minutes))
    return row


def _find(organization_id: int, name: str) -> Destination:
    return named(destinations.list_destinations(organization_id), name, "destination", "events")


def _state(row: Destination) -> str:
    if row.disabled_at:
        return f"disabled: {row.disabled_reason}" if row.disabled_reason else "disabled"
    return f"failing: {row.last_error}" if row.last_error else "ok"


def _chosen(row: Destination) -> str:
    return "all" if set(row.event_kinds) == set(KINDS) else " ".join(row.event_kinds)
