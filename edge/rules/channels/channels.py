"""Channels of an organization: kind, settings, schedule, and the progress of sending.

Changes made by users are audited. Progress is not; see `attempts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, changed
from edge.database.connection import execute
from edge.errors import Conflict, NotFound
from edge.outbound import Network, check_host
from edge.texts import N_, fill
from edge.validation import json_text

TROUBLE_AFTER = clock.HOUR  # tolerates a restart of the mail server


class ChannelKind(StrEnum):
    EMAIL = "email"
    NTFY = "ntfy"
    WEBHOOK = "webhook"


class Schedule(NamedTuple):
    """When a channel sends. `digest`: seconds from the first message to the mail with all of them, 0 to send at once.

    From `quiet_from` to `quiet_until` (minutes after local midnight) nothing is sent; None for no quiet hours.
    """

    digest: int = 0
    quiet_from: int | None = None
    quiet_until: int | None = None
    is_sent_when_over: bool = True


class NewChannel(NamedTuple):
    """A channel to add or to change to. `secret` is sealed (see `edge.people.secrets`); None keeps the present one."""

    kind: ChannelKind
    name: str
    settings: Mapping[str, Any]
    secret: bytes | None
    schedule: Schedule
    network: Network = Network.INTERNET


class Channel(NamedTuple):
    """A row of the table `channel`."""

    no: int
    organization_id: int
    kind: ChannelKind
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


_SELECT = f"SELECT {', '.join(Channel._fields)} FROM channel"


def add(actor: Actor, new: NewChannel) -> Channel:
    """Add a channel. Raises Invalid for an address that is not allowed, and Conflict if the name is taken or there are
    too many channels.
    """
    _check_host(new)
    with acting(actor) as act:
        _check_name(actor.organization_id, new.name, None)
        no = execute(
            "INSERT INTO channel (organization_id, kind, name, settings, secret, network, digest, quiet_from, "
            "quiet_until, is_sent_when_over, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING no",
            (
                *(actor.organization_id, new.kind, new.name, json_text.text(new.settings), new.secret or b""),
                *(new.network, *new.schedule, clock.now()),
            ),
        ).fetchone()[0]
        row = get(actor.organization_id, no)
        act.note("channel.created", _subject(row), _audit_detail(row))
    return row


def change(actor: Actor, no: int, new: NewChannel) -> Channel:
    """Change a channel; its kind stays. Waiting messages are tried again at once. Raises NotFound, and as `add`."""
    _check_host(new)
    with acting(actor) as act:
        before = get(actor.organization_id, no)
        _check_name(actor.organization_id, new.name, no)
        execute(
            "UPDATE channel SET name = ?, settings = ?, secret = ifnull(?, secret), network = ?, digest = ?, "
            "quiet_from = ?, quiet_until = ?, is_sent_when_over = ?, next_try_at = 0 WHERE no = ?",
            (new.name, json_text.text(new.settings), new.secret, new.network, *new.schedule, no),
        )
        execute("UPDATE channel_message SET next_try_at = 0 WHERE channel_no = ?", (no,))
        row = get(actor.organization_id, no)
        differences = changed(_audit_detail(before), _audit_detail(row))
        if new.secret is not None:
            differences["secret"] = {"is_changed": True}
        act.note_changes("channel.changed", _subject(row), differences)
    return row


def remove(actor: Actor, no: int) -> None:
    """Remove a channel with the messages that wait in it. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute("DELETE FROM channel WHERE no = ?", (no,))
        act.note("channel.deleted", _subject(row))


def enable(actor: Actor, no: int) -> None:
    """Send again, beginning with the messages that still wait. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute(
            "UPDATE channel SET disabled_at = NULL, failures = 0, failing_since = NULL, next_try_at = 0, "
            "last_error = NULL WHERE no = ?",
            (no,),
        )
        act.note("channel.enabled", _subject(row))


def disable(actor: Actor, no: int) -> None:
    """Stop sending until `enable`. Messages of alerts in the meantime are not kept. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute("UPDATE channel SET disabled_at = ? WHERE no = ?", (clock.now(), no))
        act.note("channel.disabled", _subject(row))


def request_test(actor: Actor, no: int) -> None:
    """Have the service send a test message, ahead of all others and in quiet hours, too. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id, no)
        execute("UPDATE channel SET is_test_requested = 1 WHERE no = ?", (no,))
        act.note("channel.tested", _subject(row))


def get(organization_id: int, no: int) -> Channel:
    """Return a channel. Raises NotFound."""
    row = execute(f"{_SELECT} WHERE organization_id = ? AND no = ?", (organization_id, no)).fetchone()
    if row is None:
        raise NotFound("no such channel")
    return _channel(row)


def list_channels(organization_id: int) -> list[Channel]:
    rows = execute(f"{_SELECT} WHERE organization_id = ? ORDER BY name COLLATE NOCASE", (organization_id,))
    return [_channel(row) for row in rows]


def all_channels() -> list[Channel]:
    """Return the channels of all organizations. For metrics and checks only."""
    return [_channel(row) for row in execute(f"{_SELECT} ORDER BY no")]


def has_channels() -> bool:
    """Return True if any organization has a channel."""
    return execute("SELECT 1 FROM channel LIMIT 1").fetchone() is not None


def at_work() -> list[Channel]:
    """Return the channels with a message or a test to send. For the worker only."""
    rows = execute(
        f"{_SELECT} WHERE is_test_requested OR (disabled_at IS NULL AND "
        "EXISTS (SELECT 1 FROM channel_message WHERE channel_no = channel.no)) ORDER BY no"
    )
    return [_channel(row) for row in rows]


def troubles() -> list[str]:
    """Return the channels that have failed for over an hour, each with the reason."""
    since = clock.now() - TROUBLE_AFTER
    failing = []
    for row in all_channels():
        if row.disabled_at is None and row.failing_since is not None and row.failing_since < since:
            failing.append(f"{row.name}: {row.last_error}")
    return failing


def _channel(row: tuple[Any, ...]) -> Channel:
    channel = Channel(*row)
    return channel._replace(
        kind=ChannelKind(channel.kind),
        settings=json_text.decode(str(channel.settings)),
        network=Network(channel.network),
        is_sent_when_over=bool(channel.is_sent_when_over),
        is_test_requested=bool(channel.is_test_requested),
        is_test_ok=None if channel.is_test_ok is None else bool(channel.is_test_ok),
    )


def _check_host(new: NewChannel) -> None:
    field = "host" if new.kind is ChannelKind.EMAIL else "url"
    host = new.settings.get("host") or urlsplit(new.settings["url"]).hostname
    check_host(field, host or "", new.network)


def _check_name(organization_id: int, name: str, no: int | None) -> None:
    taken = execute(
        "SELECT 1 FROM channel WHERE organization_id = ? AND name = ? COLLATE NOCASE AND no IS NOT ?",
        (organization_id, name, no),
    ).fetchone()
    if taken:
        raise Conflict(fill(N_("A channel %(name)s already exists; choose another name"), name=name))


def _subject(row: Channel) -> Subject:
    return Subject("channel", row.no, row.name)


def _audit_detail(row: Channel) -> dict[str, Any]:
    return {"kind": row.kind, "name": row.name, "network": row.network, **row.settings, **row.schedule._asdict()}
