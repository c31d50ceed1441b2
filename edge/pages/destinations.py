"""Destinations: of events, channels that notify people of alerts, and outputs that rules switch.

Each has its list, state, management, and a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import render_template, request

from edge.errors import Invalid, SetupError
from edge.events import destinations, detection, validation
from edge.events.destinations import EPCIS_KINDS, BodyFormat, DestinationKind, NewDestination
from edge.events.family import Destination, last_test
from edge.events.log import KINDS, EventKind, Filter
from edge.outbound import Network
from edge.pages.actions import add_actions, add_forms
from edge.pages.double_submit import once
from edge.pages.forms import Errors
from edge.pages.guard import Answer, actor, administrators, current_session
from edge.pages.notices import done
from edge.pages.translation import gettext
from edge.people import secrets
from edge.people.secrets import new_token, new_webhook_secret
from edge.rules.channels import channels, outbox
from edge.rules.channels.channels import NewChannel, schedule_of
from edge.rules.channels.kind import ChannelKind
from edge.rules.channels.kinds import KINDS as CHANNEL_KINDS
from edge.rules.outputs import forms, outputs
from edge.rules.outputs.forms import Entered, Form
from edge.services import services
from edge.texts import N_, fill
from edge.tracking import location_board
from edge.validation import values

EVENTS = "/event-destinations"
MAX_PASSWORD = 200
KIND_TITLES = {
    EventKind.ASSET_MOVED: N_("an asset moves to another location"),
    EventKind.ASSET_ARRIVED: N_("an asset is seen for the first time, seen again, or enters the location below"),
    EventKind.ASSET_PASSED: N_("an asset passes a door or turns back in it"),
    EventKind.ASSET_MEASURED: N_("an asset sends another battery or temperature, or its button is pressed"),
    EventKind.ASSET_UNSEEN: N_("an asset has not been seen for a while"),
    EventKind.ASSET_CREATED: N_("an asset is created"),
    EventKind.ASSET_CHANGED: N_("an asset or its tags are changed"),
    EventKind.ASSET_DELETED: N_("an asset is retired"),
    EventKind.READER_OFFLINE: N_("a reader goes offline"),
    EventKind.READER_ONLINE: N_("a reader comes back online"),
}


@administrators.get(EVENTS, manual="events#destinations")
def list_event_destinations() -> str:
    organization_id = current_session().organization_id
    rows = destinations.list_destinations(organization_id)
    places = [location_board.name_of(organization_id, row.settings["location_id"]) for row in rows]
    return render_template(
        "events/destinations.html",
        rows=[(row, destinations.count_waiting(row), place) for row, place in zip(rows, places, strict=True)],
        all_kinds=len(KINDS),
    )


@administrators.get(f"{EVENTS}/new", manual="events#destinations")
def new_event_destination_form() -> str:
    return _form({}, {"kind": request.args.get("kind", ""), "topic": validation.DEFAULT_TOPIC}, list(KINDS))


def _again(errors: Errors) -> str:
    return _form(errors, request.form, request.form.getlist("events"))


@administrators.post(f"{EVENTS}/new", again=_again)
@once
def new_event_destination() -> Answer:
    """Create a destination. The response is the only page that shows the secret of a webhook."""
    config, form, kind = services().config, request.form, _kind(request.form)
    secret = new_webhook_secret() if kind is DestinationKind.WEBHOOK else _password(form)
    row = destinations.add(actor(), _entered(kind, secret, form, form.getlist("events")))
    detection.start(detection.silence_of(config.events_unseen_hours, config.events_reader_offline_minutes))
    return _secret_page(row, secret) if kind is DestinationKind.WEBHOOK else done(f"{EVENTS}/{row.no}", "made")


@administrators.get(f"{EVENTS}/<int:no>", manual="events#delivery")
def event_destination(no: int) -> str:
    organization_id = current_session().organization_id
    row = destinations.get(organization_id, no)
    return render_template(
        "events/destination.html",
        row=row,
        waiting=destinations.count_waiting(row),
        location_name=location_board.name_of(organization_id, row.settings["location_id"]),
        attempts=destinations.list_attempts(organization_id, no),
        titles=KIND_TITLES,
    )


add_actions(EVENTS, "destination", destinations)


@administrators.post(f"{EVENTS}/<int:no>/secret")
def new_event_secret(no: int) -> Answer:
    """Generate a new secret for a webhook, or save the entered password for a broker."""
    row = destinations.get(current_session().organization_id, no)
    is_webhook = row.kind == DestinationKind.WEBHOOK
    secret = new_webhook_secret() if is_webhook else _password(request.form)
    destinations.change_secret(actor(), no, secrets.seal(secret))
    return _secret_page(row, secret) if is_webhook else done(f"{EVENTS}/{no}", "changed")


def _entered(kind: DestinationKind, secret: str, form: Mapping[str, str], kinds: list[str]) -> NewDestination:
    """Parse the form. Raises Invalid. The box itself can be allowed as a destination only in its shell."""
    network = Network.PRIVATE if form.get("private") else Network.INTERNET
    is_on_internet = network is Network.INTERNET
    name, url, topic = values.name("name", form.get("name", "").strip()), form.get("url", "").strip(), ""
    body_format, possible = BodyFormat.EDGE, set[EventKind](KINDS)
    if kind is DestinationKind.WEBHOOK and form.get("epcis"):
        body_format, possible = BodyFormat.EPCIS, {*EPCIS_KINDS}
    if kind is DestinationKind.WEBHOOK:
        url = validation.webhook_url(url, is_on_internet=is_on_internet)
    else:
        url = validation.broker_url(url, is_on_internet=is_on_internet)
        topic = validation.topic_template(form.get("topic", "").strip())
    chosen = [one for one in kinds if one in possible or one not in KINDS]
    event_filter = Filter(validation.event_kinds(chosen, KINDS), _location(form.get("location_id", "")))
    return NewDestination(kind, name, url, secrets.seal(secret), event_filter, network, topic, body_format)


def _password(form: Mapping[str, str]) -> str:
    password = form.get("password", "")
    if len(password) > MAX_PASSWORD:
        message = fill(N_("At most %(number)s characters"), number=MAX_PASSWORD)
        raise Invalid.one("password", "too_long", message, max_length=MAX_PASSWORD)
    return password


def _location(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise Invalid.one("location_id", "invalid_value", N_("Choose one from the list"))
    return int(text)


def _kind(entered: Mapping[str, str]) -> DestinationKind:
    return DestinationKind.MQTT if entered.get("kind") == DestinationKind.MQTT else DestinationKind.WEBHOOK


def _form(errors: Errors, entered: Mapping[str, str], kinds: list[str]) -> str:
    return render_template(
        "events/new-destination.html",
        kind=_kind(entered),
        errors=errors,
        values=entered,
        chosen=kinds,
        titles=KIND_TITLES,
        locations=location_board.choices(current_session().organization_id),
        once=new_token(),
    )


def _secret_page(row: Destination, secret: str) -> str:
    return render_template("events/secret.html", row=row, secret=secret)


CHANNELS = "/channels"
FIRST_KIND = next(iter(CHANNEL_KINDS))
EMPTY_CHANNEL = {"is_sent_when_over": "on", "digest": "0"}


@administrators.get(CHANNELS, manual="channels#add-a-channel")
def list_channels() -> str:
    rows = channels.list_channels(current_session().organization_id)
    found = [(row, outbox.count_waiting(row), CHANNEL_KINDS[row.kind].facts(row.settings)) for row in rows]
    return render_template("rules/channels.html", rows=found, kinds=CHANNEL_KINDS, first=FIRST_KIND)


@administrators.get(f"{CHANNELS}/<int:no>", manual="channels#delivery")
def channel(no: int) -> str:
    row = channels.get(current_session().organization_id, no)
    return render_template(
        "rules/channel.html",
        row=row,
        waiting=outbox.count_waiting(row),
        facts=CHANNEL_KINDS[row.kind].facts(row.settings),
        schedule=schedule_of(row),
        test=last_test(row),
        attempts=channels.KIND.list_attempts(row.organization_id, no),
    )


def _channel_kind(name: str) -> str:
    return name if name in CHANNEL_KINDS else FIRST_KIND


def _channel_entered(form: Mapping[str, str], row: Destination | None) -> tuple[NewChannel]:
    """Parse the form; `row` is the channel that it changes. Raises Invalid.

    A saved secret is kept for the same server and user only, so it cannot be sent elsewhere. This box itself can be
    allowed as a destination only in its shell; that stays allowed for the same address only.
    """
    name = row.kind if row else _channel_kind(form.get("kind", ""))
    kind = CHANNEL_KINDS[name]
    secret = _secret(form, kind)
    network = Network.PRIVATE if form.get("private") else Network.INTERNET
    is_kept = not secret and row is not None and bool(row.secret) and _is_same(form, row, kind.secret_for)
    checked = kind.check(form, _saved(row) if row and is_kept else secret, network)
    if row and row.network is Network.LOOPBACK and _has_same_address(row, checked, is_kept=is_kept):
        network = row.network
    sealed = secrets.seal(secret) if secret else None if is_kept else b""
    title = values.name("name", form.get("name", "").strip())
    return (NewChannel(name, title, checked, sealed, channels.checked_schedule(form), network),)


def _secret(form: Mapping[str, str], kind: ChannelKind) -> str:
    secret = form.get(kind.secret, "")
    secret = secret if kind.is_secret_typed else secret.strip()
    if len(secret) > kind.longest_secret:
        message = fill(N_("At most %(most)s characters"), most=kind.longest_secret)
        raise Invalid.one(kind.secret, "too_long", message)
    if not secret.isascii() and not kind.is_secret_typed:
        raise Invalid.one(kind.secret, "invalid_value", N_("only ASCII characters"))
    return secret


def _has_same_address(row: Destination, checked: Mapping[str, Any], *, is_kept: bool) -> bool:
    kind = CHANNEL_KINDS[row.kind]
    return all(is_kept if name == kind.secret else checked[name] == row.settings[name] for name in kind.address)


def _saved(row: Destination) -> str:
    """Return the saved secret, or an empty text if it was sealed on another box and must be entered."""
    try:
        return secrets.unseal(row.secret)
    except SetupError:
        return ""


def _is_same(form: Mapping[str, str], row: Destination, names: Sequence[str]) -> bool:
    return all(form.get(name, "").strip() == str(row.settings[name]) for name in names)


def _values(row: Destination) -> dict[str, str]:
    """Return the values of the form for a channel. The secret is never shown."""
    schedule = schedule_of(row)
    return {
        **{field: ", ".join(one) if isinstance(one, list) else str(one) for field, one in row.settings.items()},
        "name": row.name,
        "private": "on" if row.network is not Network.INTERNET else "",
        "digest": str(schedule.digest // 60),
        "quiet_from": values.time_of_day(schedule.quiet_from),
        "quiet_until": values.time_of_day(schedule.quiet_until),
        "is_sent_when_over": "on" if schedule.is_sent_when_over else "",
    }


def _channel_form(
    row: Destination | None, errors: Errors | None = None, entered: Mapping[str, str] | None = None
) -> str:
    if entered is None:
        entered = _values(row) if row else {**EMPTY_CHANNEL, "kind": request.args.get("kind", "")}
    name = row.kind if row else _channel_kind(entered.get("kind", ""))
    return render_template(
        "rules/channel-form.html",
        row=row,
        name=name,
        kind=CHANNEL_KINDS[name],
        errors=errors or {},
        values=entered,
        once=new_token(),
    )


add_forms(CHANNELS, "channel", "channels#add-a-channel", channels, _channel_form, _channel_entered)
add_actions(CHANNELS, "channel", channels)


OUTPUTS = "/outputs"
FORM_TITLES = {
    Form.SHELLY: N_("Shelly, generation 2 and later"),
    Form.SHELLY_1: N_("Shelly, generation 1"),
    Form.TASMOTA: "Tasmota",
    Form.ZIGBEE2MQTT: "Zigbee2MQTT",
    Form.TOPIC: N_("Another device: any topic and message"),
}

EMPTY_OUTPUT = {"form": Form.SHELLY, "relay": "0", "seconds": "10"}


@administrators.get(OUTPUTS, manual="outputs#add-an-output")
def list_outputs() -> str:
    return render_template("rules/outputs.html", rows=outputs.list_outputs(current_session().organization_id))


@administrators.get(f"{OUTPUTS}/<int:no>", manual="outputs#switching")
def output(no: int) -> str:
    return render_template(
        "rules/output.html", row=outputs.get(current_session().organization_id, no), forms=FORM_TITLES
    )


def _output_entered(form: Mapping[str, str], _row: Destination | None) -> tuple[str, Entered]:
    return values.name("name", form.get("name", "").strip()), forms.checked(form)


def _output_form(
    row: Destination | None, errors: Errors | None = None, entered: Mapping[str, str] | None = None
) -> str:
    if entered is None:
        of_row = {name: str(value) for name, value in row.settings.items()} if row else {}
        entered = {**of_row, "name": row.name, "form": row.kind} if row else EMPTY_OUTPUT
    options = [(form, gettext(name)) for form, name in FORM_TITLES.items()]
    return render_template(
        "rules/output-form.html", row=row, errors=errors or {}, values=entered, forms=options, once=new_token()
    )


add_forms(OUTPUTS, "output", "outputs#add-an-output", outputs, _output_form, _output_entered)
add_actions(OUTPUTS, "output", outputs)
