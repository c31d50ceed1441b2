"""Destinations of events: webhooks, brokers and the live stream, each with its position in the log."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit

from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting, non_empty
from edge.database.connection import execute, scalar
from edge.errors import Conflict, Invalid
from edge.events import log
from edge.events.family import Destination, columns, declare
from edge.events.log import EventKind, Filter
from edge.outbound import Network, check_host
from edge.texts import N_, fill

STREAM_NAME = "Live stream"


class DestinationKind(StrEnum):
    WEBHOOK = "webhook"
    MQTT = "mqtt"
    STREAM = "stream"


class BodyFormat(StrEnum):
    """What a webhook sends: an event of edge, or a document of EPCIS 2.0."""

    EDGE = "edge"
    EPCIS = "epcis"


# Those with an EPCIS event. Moves and arrivals include all stays, and carriers.
EPCIS_MOVES = frozenset({EventKind.ASSET_ARRIVED, EventKind.ASSET_MOVED})
EPCIS_KINDS = EPCIS_MOVES | {EventKind.ASSET_PASSED}


class NewDestination(NamedTuple):
    """A destination to add. `secret` is sealed (see `edge.people.secrets`), `topic` is a template."""

    kind: DestinationKind
    name: str
    url: str
    secret: bytes
    event_filter: Filter
    network: Network = Network.INTERNET
    topic: str = ""
    body_format: BodyFormat = BodyFormat.EDGE


def event_filter(row: Destination) -> Filter:
    """Return the filter for the log. EPCIS events are logged apart, since those in the past can change, too."""
    if is_epcis(row):
        return Filter({EventKind.ASSET_HISTORY}, row.settings["location_id"])
    return Filter(frozenset(event_kinds(row)), row.settings["location_id"])


def event_kinds(row: Destination) -> Sequence[str]:
    """Return the chosen kinds of events."""
    return tuple(row.settings["event_kinds"].split())


def is_epcis(row: Destination) -> bool:
    """Return True for a webhook with EPCIS bodies."""
    return row.settings.get("body_format") == BodyFormat.EPCIS


def _audit_detail(row: Destination) -> dict[str, object]:
    """Return the audit entry. Omits the secret and the URL's query, which may contain one."""
    location_id, kinds, url = row.settings["location_id"], list(event_kinds(row)), row.url.partition("?")[0]
    fields = {"kind": row.kind, "url": url, "topic": row.topic, "events": kinds, "location_id": location_id}
    return non_empty({**fields, "network": row.network, "body_format": BodyFormat.EPCIS if is_epcis(row) else None})


KIND = declare(
    "event_destination",
    "event destination",
    N_("A destination %(name)s already exists; choose another name"),
    _audit_detail,
)
get, list_destinations, list_attempts, troubles = KIND.get, KIND.list_of, KIND.list_attempts, KIND.troubles
remove, enable, disable, request_test = KIND.remove, KIND.enable, KIND.disable, KIND.request_test


def add(actor: Actor, new: NewDestination) -> Destination:
    """Add a destination that receives events from now on.

    Raises Conflict if the name is taken or there are too many destinations, Invalid if the location does not exist,
    the address is not allowed, or the body cannot contain a kind of event.
    """
    organization_id, location_id = actor.organization_id, new.event_filter.location_id
    _check_body(new)
    if new.url:  # the live stream has none
        check_host("url", urlsplit(new.url).hostname or "", new.network)
    if new.name == STREAM_NAME and new.kind is not DestinationKind.STREAM:
        raise Conflict(fill(N_("%(name)s is reserved for GET /events; choose another name"), name=STREAM_NAME))
    with acting(actor):
        if location_id is not None and not _has_location(organization_id, location_id):
            raise Invalid.one("location_id", "fk_not_found", N_("Unknown location"))
        settings = {
            "url": new.url,
            "topic": new.topic,
            "event_kinds": " ".join(sorted(new.event_filter.kinds)),
            "location_id": location_id,
            "body_format": new.body_format,
        }
        row = columns(new.kind, new.name, settings, new.network, new.secret)
        added = KIND.add(actor, {**row, "position": log.newest()})
        quotas.check_number(organization_id, KIND.kind)  # also in the shell
        return added


def open_stream(actor: Actor) -> None:
    """Start logging events for live streams if needed. Raises Conflict if live streams were disabled."""
    row = _stream(actor.organization_id)
    if row is None:
        with acting(actor):
            row = _stream(actor.organization_id)
            if row is None:
                event_filter = Filter(frozenset(log.KINDS))
                add(actor, NewDestination(DestinationKind.STREAM, STREAM_NAME, "", b"", event_filter))
    if row and row.disabled_at:
        raise Conflict(f'Live streams are disabled. To enable them: edge events enable "{STREAM_NAME}"')


def change_secret(actor: Actor, no: int, secret: bytes) -> None:
    """Replace the secret; the old one stops working immediately. Raises NotFound."""
    KIND.mark(actor, no, "secret_changed", {"secret": secret, "next_try_at": 0})


def count_waiting(row: Destination) -> int:
    """Return an upper bound of undelivered events; the filter is not applied."""
    waiting = log.count_between(row.organization_id, row.position, log.newest())
    return waiting + scalar("SELECT count(*) FROM destination_retry WHERE destination_id = ?", (row.id,))


def _check_body(new: NewDestination) -> None:
    if new.body_format is not BodyFormat.EPCIS:
        return
    if new.kind is not DestinationKind.WEBHOOK:
        raise Invalid.one("body_format", "invalid_value", "Only webhooks can send EPCIS")
    if others := sorted(set(new.event_filter.kinds) - EPCIS_KINDS):
        names = ", ".join(sorted(EPCIS_KINDS))
        raise Invalid.one("events", "invalid_value", f"EPCIS has no event for {others[0]}. Choose among {names}")


def _has_location(organization_id: int, location_id: int) -> bool:
    sql = "SELECT 1 FROM location WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
    return execute(sql, (location_id, organization_id)).fetchone() is not None


def _stream(organization_id: int) -> Destination | None:
    return next(iter(KIND.where("organization_id = ? AND kind = 'stream'", organization_id)), None)
