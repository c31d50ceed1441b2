"""Channels of an organization: kind, settings, schedule, and the progress of sending.

Changes made by users are audited. Progress is not; see `worker`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.audit.kinds import ALL, Kind
from edge.database.connection import execute
from edge.outbound import Network, check_host
from edge.rules.channels.kinds import KINDS
from edge.texts import N_
from edge.validation import json_text

TROUBLE_AFTER = clock.HOUR  # tolerates a restart of the mail server


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


class Channel(NamedTuple):
    """A row of the table `channel`."""

    no: int
    organization_id: int
    kind: str
    name: str
    settings: Mapping[str, Any]
    secret: bytes
    network: Network
    digest: int
    quiet_from: int | None
    quiet_until: int | None
    is_sent_when_over: bool
    created_at: int
    disabled_at: int | None
    failures: int
    failing_since: int | None
    next_try_at: int
    last_error: str | None
    last_success_at: int | None
    sent: int
    lost: int
    is_test_requested: bool
    tested_at: int | None
    test_ms: int | None
    test_result: str | None
    is_test_ok: bool | None

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.digest, self.quiet_from, self.quiet_until, self.is_sent_when_over)


def _row(row: Sequence[Any]) -> Channel:
    channel = Channel(*row)
    return channel._replace(
        settings=json_text.decode(str(channel.settings)),
        network=Network(channel.network),
        is_sent_when_over=bool(channel.is_sent_when_over),
        is_test_requested=bool(channel.is_test_requested),
        is_test_ok=None if channel.is_test_ok is None else bool(channel.is_test_ok),
    )


def _audit_detail(row: Channel) -> dict[str, Any]:
    return {"kind": row.kind, "name": row.name, "network": row.network, **row.settings, **row.schedule._asdict()}


KIND = Kind(
    "channel",
    "channel",
    f"SELECT {', '.join(Channel._fields)} FROM channel",
    _row,
    taken=N_("A channel %(name)s already exists; choose another name"),
    detail=_audit_detail,
)
get, list_channels = KIND.get, KIND.list_of


def add(actor: Actor, new: NewChannel) -> Channel:
    """Add a channel. Raises Invalid for an address that is not allowed, and Conflict if the name is taken or there are
    too many channels.
    """
    _check_host(new)
    return KIND.add(actor, {"kind": new.kind, **_columns(new), "secret": new.secret or b""})


def change(actor: Actor, no: int, new: NewChannel) -> Channel:
    """Change a channel; its kind stays. Waiting messages are tried again at once. Raises NotFound, and as `add`."""
    _check_host(new)
    secret: dict[str, Any] = {} if new.secret is None else {"secret": new.secret}
    with acting(actor):
        row = KIND.change(
            actor, no, {**_columns(new), **secret, "next_try_at": 0}, **{name: {"is_changed": True} for name in secret}
        )
        execute("UPDATE channel_message SET next_try_at = 0 WHERE channel_no = ?", (no,))
    return row


def _columns(new: NewChannel) -> dict[str, object]:
    settings = json_text.text(new.settings)
    return {"name": new.name, "settings": settings, "network": new.network, **new.schedule._asdict()}


def remove(actor: Actor, no: int) -> None:
    """Remove a channel with the messages that wait in it. Raises NotFound."""
    KIND.remove(actor, no)


def enable(actor: Actor, no: int) -> None:
    """Send again, beginning with the messages that still wait. Raises NotFound."""
    fresh = {"disabled_at": None, "failures": 0, "failing_since": None, "next_try_at": 0, "last_error": None}
    KIND.mark(actor, no, "enabled", fresh)


def disable(actor: Actor, no: int) -> None:
    """Stop sending until `enable`. Messages of alerts in the meantime are not kept. Raises NotFound."""
    KIND.mark(actor, no, "disabled", {"disabled_at": clock.now()})


def request_test(actor: Actor, no: int) -> None:
    """Have the service send a test message, ahead of all others and in quiet hours, too. Raises NotFound."""
    KIND.mark(actor, no, "tested", {"is_test_requested": 1})


def all_channels() -> list[Channel]:
    """Return the channels of all organizations. For metrics and checks only."""
    return KIND.where(ALL, order="no")


def has_channels() -> bool:
    """Return True if any organization has a channel."""
    return execute("SELECT 1 FROM channel LIMIT 1").fetchone() is not None


def at_work() -> list[Channel]:
    """Return the channels with a message or a test to send. For the worker only."""
    waits = "EXISTS (SELECT 1 FROM channel_message WHERE channel_no = channel.no)"
    return KIND.where(f"is_test_requested OR (disabled_at IS NULL AND {waits})", order="no")


def troubles() -> list[str]:
    """Return the channels that have failed for over an hour, each with the reason."""
    failing = KIND.where("disabled_at IS NULL AND failing_since < ?", clock.now() - TROUBLE_AFTER, order="no")
    return [f"{row.name}: {row.last_error}" for row in failing]


def _check_host(new: NewChannel) -> None:
    host = new.settings.get("host") or urlsplit(new.settings["url"]).hostname
    check_host(KINDS[new.kind].address[0], host or "", new.network)
