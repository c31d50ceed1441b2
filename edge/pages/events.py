"""Event destinations: list, state of delivery, management."""

from __future__ import annotations

from collections.abc import Mapping

from flask import render_template, request

from edge.errors import Invalid
from edge.events import destinations, detection, validation
from edge.events.destinations import EPCIS_KINDS, BodyFormat, DestinationKind, NewDestination
from edge.events.family import Destination
from edge.events.log import KINDS, EventKind, Filter
from edge.outbound import Network
from edge.pages.actions import add_actions
from edge.pages.double_submit import once
from edge.pages.forms import Errors
from edge.pages.guard import Answer, actor, administrators, current_session
from edge.pages.notices import done
from edge.people import secrets
from edge.people.secrets import new_token, new_webhook_secret
from edge.services import services
from edge.texts import N_, fill
from edge.tracking import location_board
from edge.validation import values

PATH = "/event-destinations"
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


@administrators.get(PATH, manual="events#destinations")
def list_event_destinations() -> str:
    organization_id = current_session().organization_id
    rows = destinations.list_destinations(organization_id)
    names = location_board.names(organization_id)
    return render_template(
        "events/destinations.html",
        rows=[(row, destinations.count_waiting(row), names.get(row.settings["location_id"] or 0)) for row in rows],
        all_kinds=len(KINDS),
    )


@administrators.get(f"{PATH}/new", manual="events#destinations")
def new_event_destination_form() -> str:
    return _form({}, {"kind": request.args.get("kind", ""), "topic": validation.DEFAULT_TOPIC}, list(KINDS))


def _again(errors: Errors) -> str:
    return _form(errors, request.form, request.form.getlist("events"))


@administrators.post(f"{PATH}/new", again=_again)
@once
def new_event_destination() -> Answer:
    """Create a destination. The response is the only page that shows the secret of a webhook."""
    config, form, kind = services().config, request.form, _kind(request.form)
    secret = new_webhook_secret() if kind is DestinationKind.WEBHOOK else _password(form)
    row = destinations.add(actor(), _entered(kind, secret, form, form.getlist("events")))
    detection.start(detection.silence_of(config.events_unseen_hours, config.events_reader_offline_minutes))
    return _secret_page(row, secret) if kind is DestinationKind.WEBHOOK else done(f"{PATH}/{row.no}", "made")


@administrators.get(f"{PATH}/<int:no>", manual="events#delivery")
def event_destination(no: int) -> str:
    organization_id = current_session().organization_id
    row = destinations.get(organization_id, no)
    names = location_board.names(organization_id)
    return render_template(
        "events/destination.html",
        row=row,
        waiting=destinations.count_waiting(row),
        location_name=names.get(row.settings["location_id"] or 0),
        attempts=destinations.list_attempts(organization_id, no),
        titles=KIND_TITLES,
    )


add_actions(PATH, "destination", destinations)


@administrators.post(f"{PATH}/<int:no>/secret")
def new_event_secret(no: int) -> Answer:
    """Generate a new secret for a webhook, or save the entered password for a broker."""
    row = destinations.get(current_session().organization_id, no)
    is_webhook = row.kind == DestinationKind.WEBHOOK
    secret = new_webhook_secret() if is_webhook else _password(request.form)
    destinations.change_secret(actor(), no, secrets.seal(secret))
    return _secret_page(row, secret) if is_webhook else done(f"{PATH}/{no}", "changed")


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
