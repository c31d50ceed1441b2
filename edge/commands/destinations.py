"""`edge events`, `edge channel` and `edge output`: where this box sends events, messages to people, and commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import (
    NETWORK,
    Setup,
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
from edge.events.destinations import EPCIS_KINDS, BodyFormat, DestinationKind, NewDestination, event_kinds
from edge.events.family import Destination, last_test
from edge.events.log import KINDS, Filter
from edge.outbound import Network
from edge.people import secrets
from edge.people.secrets import new_webhook_secret
from edge.rules.channels import channels, outbox
from edge.rules.channels.channels import NewChannel, Schedule
from edge.rules.channels.kinds import KINDS as CHANNEL_KINDS
from edge.rules.channels.kinds.email.mail_settings import Security
from edge.rules.outputs import forms, outputs
from edge.rules.outputs.forms import Form
from edge.rules.outputs.outputs import TEST_SECONDS
from edge.validation import values

_ON = click.option("--on", "kinds", multiple=True, metavar="KIND", help=f"{', '.join(KINDS)}; repeat; default: all.")
_ALL = Filter(frozenset(KINDS))
_LOCATION = click.option("--location", help="Key of a location: only events there or in its sub-locations.")


class Texts(NamedTuple):
    """Texts of the common commands: help of `list`, what it says without any, help of `test` and `disable`, the
    question of `remove`, the result of `enable`.
    """

    list: str
    none: str
    test: str
    disable: str
    remove: str
    enabled: str = "Enabled."


# Returns whether a test succeeded and the sentence that says so, or None while there is no result.
Tried = Callable[[Any, int], tuple[bool, str] | None]


def add_commands(
    group: click.Group,
    store: Any,
    tried: Tried,
    wait: int,
    texts: Texts,
    cells: Mapping[str, str | Callable[[Destination], object]],
) -> None:
    """Add the commands that all of them have: to list them, and to test, enable, disable and remove one by its name.

    `store`: the module of its rows; `wait`: seconds for a test; `cells`: columns of the list, by field or function.
    """
    noun = store.KIND.noun.removeprefix("event ")

    @reads("list", group, help=texts.list)
    def list_rows(organization_id: int) -> None:
        rows = store.KIND.list_of(organization_id)
        if not rows:
            click.echo(texts.none)
            return
        found = [[getattr(row, one) if isinstance(one, str) else one(row) for one in cells.values()] for row in rows]
        print_table(["NAME", *cells], [(row.name, *values) for row, values in zip(rows, found, strict=True)])

    def find(organization_id: int, name: str) -> Any:
        return named(store.KIND.list_of(organization_id), name, noun, str(group.name))

    @writes("test", group, help=texts.test)
    @click.argument("name")
    @click.option("--wait", default=wait, show_default=True, help="Seconds to wait for the result.")
    def test(actor: Actor, name: str, wait: int) -> None:
        row, began = find(actor.organization_id, name), clock.now()
        store.request_test(actor, row.no)
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline:
            result = tried(store.get(actor.organization_id, row.no), began)
            if result is not None:
                is_ok, sentence = result
                if not is_ok:
                    raise Unavailable(sentence)
                click.echo(sentence)
                return
            time.sleep(0.1)
        later = "show NAME" if "show" in group.commands else "list"
        raise Unavailable(f"No result yet. Check that the service is running. Later: edge {group.name} {later}")

    @writes("enable", group, help=f"Enable the {noun} again.")
    @click.argument("name")
    def enable(actor: Actor, name: str) -> None:
        store.enable(actor, find(actor.organization_id, name).no)
        click.echo(texts.enabled)

    @writes("disable", group, help=texts.disable)
    @click.argument("name")
    def disable(actor: Actor, name: str) -> None:
        store.disable(actor, find(actor.organization_id, name).no)
        click.echo(f"Disabled. To resume: edge {group.name} enable NAME")

    @writes("remove", group, help=f"Remove the {noun}.")
    @click.argument("name")
    @click.confirmation_option(prompt=f"{texts.remove} Remove it")
    def remove(actor: Actor, name: str) -> None:
        store.remove(actor, find(actor.organization_id, name).no)
        click.echo("Removed.")


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
def add_webhook(actor: Actor, name: str, url: str, is_epcis: bool, network: str, **chosen: Any) -> None:
    """Send events to URL by POST, signed as Standard Webhooks specifies. Prints the secret once."""
    checked = validation.webhook_url(url, is_on_internet=network == Network.INTERNET)
    secret = new_webhook_secret()
    body_format = BodyFormat.EPCIS if is_epcis else BodyFormat.EDGE
    sealed, allowed = secrets.seal(secret), Network(network)
    new = NewDestination(DestinationKind.WEBHOOK, name, checked, sealed, _ALL, allowed, body_format=body_format)
    row = _add(actor, new, **chosen)
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
def add_mqtt(actor: Actor, name: str, url: str, topic: str, has_password: bool, network: str, **chosen: Any) -> None:
    """Publish events to the broker at URL, for example mqtts://edge@broker.example.com."""
    checked = validation.broker_url(url, is_on_internet=network == Network.INTERNET)
    template = validation.topic_template(topic)
    sealed = secrets.seal(ask_password() if has_password else "")
    new = NewDestination(DestinationKind.MQTT, name, checked, sealed, _ALL, Network(network), template)
    row = _add(actor, new, **chosen)
    click.echo(f"Added {row.name}. Try it: edge events test {quoted(row.name)}")


@reads("show", events)
@click.argument("name")
def show(organization_id: int, name: str) -> None:
    """Show the newest delivery attempts to a destination."""
    row = _destination(organization_id, name)
    attempts = destinations.list_attempts(organization_id, row.no, 20)
    table = [
        (clock.rfc3339(one.at), one.event_kind, one.event_id, f"{one.milliseconds} ms", one.detail) for one in attempts
    ]
    print_table(["AT", "EVENT", "ID", "TOOK", "ANSWER"], table)


@writes("new-secret", events)
@click.argument("name")
def new_secret(actor: Actor, name: str) -> None:
    """Give a webhook another secret, or a broker another password. The old one stops working at once."""
    row = _destination(actor.organization_id, name)
    secret = new_webhook_secret() if row.kind == DestinationKind.WEBHOOK else ask_password()
    destinations.change_secret(actor, row.no, secrets.seal(secret))
    if row.kind == DestinationKind.WEBHOOK:
        click.echo(secret)


def _add(actor: Actor, new: NewDestination, kinds: tuple[str, ...], location: str | None) -> Destination:
    possible = sorted(EPCIS_KINDS) if new.body_format is BodyFormat.EPCIS else KINDS
    chosen = validation.event_kinds(kinds or possible, possible)
    selection = Filter(chosen, location_id_of(actor.organization_id, location))
    row = destinations.add(actor, new._replace(name=values.name("name", new.name), event_filter=selection))
    config = current_setup().config
    detection.start(detection.silence_of(config.events_unseen_hours, config.events_reader_offline_minutes))
    return row


def _destination(organization_id: int, name: str) -> Destination:
    return named(destinations.list_destinations(organization_id), name, "destination", "events")


def _state(row: Destination, working: str = "ok") -> str:
    if row.disabled_at:
        return f"disabled: {row.disabled_reason}" if row.disabled_reason else "disabled"
    return f"failing: {row.last_error}" if row.last_error else working


def _chosen(row: Destination) -> str:
    return "all" if set(event_kinds(row)) == set(KINDS) else " ".join(event_kinds(row))


def _tried(row: Destination, began: int) -> tuple[bool, str] | None:
    one = last_test(row)
    if one is None or one.at < began:
        return None
    said = f"accepted it in {one.milliseconds} ms" if one.is_delivered else "did not accept it"
    return one.is_delivered, f"{row.name} {said}: {one.detail}"


add_commands(
    events,
    destinations,
    _tried,
    30,
    Texts(
        "List the destinations with their event kinds and the state of delivery.",
        "There are no destinations. Add one: edge events add-webhook NAME URL",
        "Have the service send a test event, before anything else that waits, and print the result.",
        "Stop sending to a destination for now.",
        "Undelivered events are discarded.",
        "Resumes within seconds with the events still in the log.",
    ),
    {
        "KIND": "kind",
        "TO": "url",
        "EVENTS": _chosen,
        "STATE": _state,
        "DELIVERED": "delivered",
        "WAITING": destinations.count_waiting,
        "LOST": "lost",
    },
)


@click.group("channel")
def channel() -> None:
    """Notify people of alerts, for example by email."""


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
    checked = CHANNEL_KINDS["email"].check(entered, password, Network(network))
    secret = secrets.seal(password) if password else None
    title = values.name("name", name)
    channels.add(actor, NewChannel("email", title, checked, secret, Schedule(), Network(network)))
    click.echo(f"Added {title}. Try it: edge channel test {quoted(title)}")


add_commands(
    channel,
    channels,
    _tried,
    40,
    Texts(
        "List the channels with the state of delivery.",
        "There are no channels. Add one: edge channel add-email NAME --server HOST --sender ADDRESS --to ADDRESS",
        "Have the service send a test message at once, and print the result.",
        "Stop sending for now. Alerts in the meantime are not sent later.",
        "Waiting messages are discarded.",
    ),
    {"KIND": "kind", "STATE": _state, "SENT": "delivered", "WAITING": outbox.count_waiting, "LOST": "lost"},
)


@click.group("output")
def output() -> None:
    """Switch lamps, horns and gates over MQTT by alerts."""


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
    row = named(outputs.list_outputs(actor.organization_id), name, "output", "output")
    user, password = outputs.issue_account(actor, row.no, setup.config.mqtt_broker)
    from edge.commands.readers.broker_accounts import print_account  # loads the client of the broker

    print_account(setup.config, user, password)
    click.echo(f"may read {row.topic} only, and publish nothing")


def _tried_output(row: Destination, _began: int) -> tuple[bool, str] | None:
    if row.is_on and row.last_success_at and row.last_success_at >= (row.tested_at or 0):
        return True, f"The broker took the command. {row.name} switches off after {TEST_SECONDS} s."
    return (False, f"{row.name} failed: {row.last_error}") if row.last_error else None


add_commands(
    output,
    outputs,
    _tried_output,
    10,
    Texts(
        "List the outputs with their state.",
        "There are no outputs. Add one: edge output add NAME --form shelly --device TOPIC_PREFIX",
        "Have the service switch an output on for 3 seconds, and print whether the broker took the command.",
        "Switch an output off until it is enabled.",
        "It is switched off, and rules no longer switch it.",
    ),
    {"DEVICE": "kind", "TOPIC": "topic", "STATE": lambda row: _state(row, "on" if row.is_on else "off")},
)
