"""Event destinations: webhooks, brokers and the live stream of an organization, each with its position in the log.

Changes made by users are audited. Delivery progress is not; see `progress`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting, non_empty
from edge.audit.kinds import ALL, Kind
from edge.database.connection import execute
from edge.errors import Conflict, Invalid
from edge.events import log
from edge.events.log import EventKind, Filter
from edge.events.progress import MOST_ATTEMPTS, Attempt
from edge.outbound import Network, check_host
from edge.texts import N_, fill

MOST = 20  # per organization
TROUBLE_AFTER = clock.HOUR  # tolerates a restart of the receiver
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


class Destination(NamedTuple):
    """A row of the table `event_destination`."""

    no: int
    organization_id: int
    kind: DestinationKind
    name: str
    url: str
    topic: str
    event_kinds: Sequence[str]
    location_id: int | None
    network: Network
    secret: bytes
    created_at: int
    disabled_at: int | None
    disabled_reason: str | None
    seq: int
    failures: int
    failing_since: int | None
    next_try_at: int
    last_error: str | None
    last_success_at: int | None
    delivered: int
    lost: int
    body_format: BodyFormat
    is_test_requested: bool

    @property
    def event_filter(self) -> Filter:
        """Return the filter for the log. EPCIS events are logged apart, since those in the past can change, too."""
        if self.body_format is not BodyFormat.EPCIS:
            return Filter(frozenset(self.event_kinds), self.location_id)
        return Filter({EventKind.ASSET_HISTORY}, self.location_id)


def _row(row: Sequence[Any]) -> Destination:
    made = Destination._make(row)
    return made._replace(
        kind=DestinationKind(made.kind),
        event_kinds=tuple(str(made.event_kinds).split()),
        network=Network(made.network),
        body_format=BodyFormat(made.body_format),
        is_test_requested=bool(made.is_test_requested),
    )


def _audit_detail(row: Destination) -> dict[str, object]:
    """Return the audit entry. Omits the secret and the URL's query, which may contain one."""
    kinds, url = list(row.event_kinds), row.url.partition("?")[0]
    fields = {"kind": row.kind, "url": url, "topic": row.topic, "events": kinds, "location_id": row.location_id}
    body_format = row.body_format if row.body_format is BodyFormat.EPCIS else None
    return non_empty({**fields, "network": row.network, "body_format": body_format})


KIND = Kind(
    "event_destination",
    "event destination",
    f"SELECT {', '.join(Destination._fields[:-1])}, is_test_wanted FROM event_destination",
    _row,
    taken=N_("A destination %(name)s already exists; choose another name"),
    detail=_audit_detail,
)
get, list_destinations = KIND.get, KIND.list_of


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
        KIND.check_name(organization_id, new.name)
        if len(list_destinations(organization_id)) >= MOST:
            raise Conflict(fill(N_("The limit of %(number)s destinations is reached; remove one first"), number=MOST))
        columns = new._asdict()
        del columns["event_filter"]
        kinds = " ".join(sorted(new.event_filter.kinds))
        return KIND.add(actor, {**columns, "event_kinds": kinds, "location_id": location_id, "seq": log.newest()})


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


def remove(actor: Actor, no: int) -> None:
    """Remove a destination and discard its undelivered events. Raises NotFound."""
    KIND.remove(actor, no)


def enable(actor: Actor, no: int) -> None:
    """Resume deliveries with the events still in the log. Raises NotFound."""
    fresh = {"disabled_at": None, "disabled_reason": None, "failures": 0, "failing_since": None}
    with acting(actor):
        KIND.mark(actor, no, "enabled", fresh | {"next_try_at": 0, "last_error": None})
        execute("UPDATE event_retry SET since = ?, next_try_at = 0 WHERE destination_no = ?", (clock.now(), no))


def disable(actor: Actor, no: int) -> None:
    """Stop deliveries until `enable`. Raises NotFound."""
    KIND.mark(actor, no, "disabled", {"disabled_at": clock.now(), "disabled_reason": None})


def change_secret(actor: Actor, no: int, secret: bytes) -> None:
    """Replace the secret; the old one stops working immediately. Raises NotFound."""
    KIND.mark(actor, no, "secret_changed", {"secret": secret, "next_try_at": 0})


def request_test(actor: Actor, no: int) -> None:
    """Send a test event ahead of all others; the attempt shows its result. Raises NotFound or Conflict."""
    with acting(actor):
        KIND.check_enabled(actor.organization_id, no)
        KIND.mark(actor, no, "tested", {"is_test_wanted": 1})


def list_attempts(organization_id: int, no: int, limit: int = MOST_ATTEMPTS) -> list[Attempt]:
    """Return the latest attempts, newest first. Raises NotFound."""
    get(organization_id, no)
    rows = execute(
        "SELECT at, milliseconds, event_id, event_kind, is_delivered, told FROM event_attempt "
        "WHERE destination_no = ? ORDER BY no DESC LIMIT ?",
        (no, limit),
    )
    return [Attempt(*row)._replace(is_delivered=bool(row[4])) for row in rows]


def count_waiting(row: Destination) -> int:
    """Return an upper bound of undelivered events; the filter is not applied."""
    waiting = log.count_between(row.organization_id, row.seq, log.newest())
    retries: int = execute("SELECT count(*) FROM event_retry WHERE destination_no = ?", (row.no,)).fetchone()[0]
    return waiting + retries


def enabled() -> list[Destination]:
    """Return the enabled destinations of all organizations. For the delivery service only."""
    return KIND.where("disabled_at IS NULL", order="no")


def find_enabled(no: int) -> Destination | None:
    """Return one destination if it is enabled. For the delivery service only."""
    return next(iter(KIND.where("no = ? AND disabled_at IS NULL", no)), None)


def all_destinations() -> list[Destination]:
    """Return the destinations of all organizations, including disabled ones. For diagnosis only."""
    return KIND.where(ALL, order="organization_id, name")


def troubles() -> list[str]:
    """Return one sentence for each destination that was disabled or has failed for over an hour."""
    sentences = []
    for row in all_destinations():
        if row.disabled_reason:
            sentences.append(f"{row.name} was disabled: {row.disabled_reason}")
        elif row.failing_since and not row.disabled_at and row.failing_since < clock.now() - TROUBLE_AFTER:
            sentences.append(
                f"{row.name} has taken no events since {clock.rfc3339(row.failing_since)}: {row.last_error}"
            )
    return sentences


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
