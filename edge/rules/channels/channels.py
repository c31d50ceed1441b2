"""Channels of an organization: how people are notified of alerts, with their schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute
from edge.events.family import Destination, columns, declare
from edge.outbound import Network, check_host
from edge.rules.channels.kinds import KINDS
from edge.texts import N_


class Schedule(NamedTuple):
    """When a channel sends. `digest`: seconds from the first message to the mail with all of them, 0 to send at once.

    From `quiet_from` to `quiet_until` (minutes after local midnight) nothing is sent; None for no quiet hours.
    """

    digest: int = 0
    quiet_from: int | None = None
    quiet_until: int | None = None
    is_sent_when_over: bool = True


class NewChannel(NamedTuple):
    """A channel to add or to change to. `kind`: see `kinds`.

    `secret` is sealed (see `edge.people.secrets`); None keeps the present one.
    """

    kind: str
    name: str
    settings: Mapping[str, Any]
    secret: bytes | None
    schedule: Schedule
    network: Network = Network.INTERNET


def schedule_of(row: Destination) -> Schedule:
    """Return the schedule of a channel."""
    made = Schedule(*(row.settings[name] for name in Schedule._fields))
    return made._replace(is_sent_when_over=bool(made.is_sent_when_over))


def _audit_detail(row: Destination) -> dict[str, Any]:
    schedule = schedule_of(row)._asdict()
    return {"kind": row.kind, "name": row.name, "network": row.network, **row.settings, **schedule}


KIND = declare(
    "channel",
    "channel",
    N_("A channel %(name)s already exists; choose another name"),
    _audit_detail,
    is_always_tested=True,
)
get, list_channels, troubles, remove = KIND.get, KIND.list_of, KIND.troubles, KIND.remove
enable, disable, request_test = KIND.enable, KIND.disable, KIND.request_test


def add(actor: Actor, new: NewChannel) -> Destination:
    """Add a channel. Raises Invalid for an address that is not allowed, and Conflict if the name is taken or there are
    too many channels.
    """
    return KIND.add(actor, _columns(new._replace(secret=new.secret or b"")))


def change(actor: Actor, no: int, new: NewChannel) -> Destination:
    """Change a channel; its kind stays. Waiting messages are tried again at once. Raises NotFound, and as `add`."""
    noted = {} if new.secret is None else {"secret": {"is_changed": True}}
    with acting(actor):
        row = KIND.change(actor, no, {**_columns(new), "next_try_at": 0}, **noted)
        execute("UPDATE destination_retry SET next_try_at = 0 WHERE destination_id = ?", (row.id,))
    return row


def _columns(new: NewChannel) -> dict[str, Any]:
    host = new.settings.get("host") or urlsplit(new.settings["url"]).hostname
    check_host(KINDS[new.kind].address[0], host or "", new.network)
    settings = {**new.settings, **new.schedule._asdict()}
    return columns(new.kind, new.name, settings, new.network, new.secret)


def at_work() -> list[Destination]:
    """Return the channels with a message or a test to send. For the worker only."""
    waits = "EXISTS (SELECT 1 FROM message WHERE destination_id = destination.id)"
    return KIND.where(f"tested_at IS NOT NULL OR (disabled_at IS NULL AND {waits})", order="no")
