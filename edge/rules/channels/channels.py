"""Channels of an organization: how people are notified of alerts, with their schedule."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute
from edge.events.family import Destination, columns, declare
from edge.events.validation import invalid, whole_number
from edge.outbound import Network, check_host
from edge.rules.channels.kinds import KINDS
from edge.texts import N_, fill
from edge.validation import values

MOST_DIGEST_MINUTES = 24 * 60
LATE_AFTER = 2 * 60 * clock.SECOND  # more than a pause after a first failure


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


def checked_schedule(entered: Mapping[str, str]) -> Schedule:
    """Return the schedule of a form. Raises Invalid, by field."""
    begin = values.minute_of_day("quiet_from", entered.get("quiet_from", ""))
    end = values.minute_of_day("quiet_until", entered.get("quiet_until", ""))
    if (begin is None) != (end is None) or (begin is not None and begin == end):
        raise invalid("quiet_until", N_("enter two different times, or leave both empty"))
    advice = fill(N_("enter 0 to %(most)s minutes"), most=MOST_DIGEST_MINUTES)
    minutes = whole_number("digest", entered.get("digest", "").strip() or "0", 0, MOST_DIGEST_MINUTES, advice)
    return Schedule(minutes * 60, begin, end, bool(entered.get("is_sent_when_over")))


def due_at(enqueued_at: int, schedule: Schedule, zone: tzinfo) -> int:
    """Return the time at which a message should be sent: the end of its digest, moved out of the quiet hours."""
    due = enqueued_at + schedule.digest * clock.SECOND
    quiet_until = _quiet_until(due, schedule, zone)
    return due if quiet_until is None else quiet_until


def is_quiet(now: int, schedule: Schedule, zone: tzinfo) -> bool:
    return _quiet_until(now, schedule, zone) is not None


def is_late(enqueued_at: int, schedule: Schedule, zone: tzinfo, now: int) -> bool:
    """Return True if a message that is sent now was due long ago."""
    return now > due_at(enqueued_at, schedule, zone) + LATE_AFTER


def _quiet_until(moment: int, schedule: Schedule, zone: tzinfo) -> int | None:
    """Return the end of the quiet hours that contain the moment, or None."""
    begin, end = schedule.quiet_from, schedule.quiet_until
    if begin is None or end is None or begin == end:
        return None
    local = clock.to_datetime(moment).astimezone(zone)
    minute = local.hour * 60 + local.minute
    is_overnight = begin > end
    is_inside = (minute >= begin or minute < end) if is_overnight else begin <= minute < end
    if not is_inside:
        return None
    day = local.date() + timedelta(days=1 if is_overnight and minute >= begin else 0)
    return max(moment + 1, clock.to_micros(datetime.combine(day, time(end // 60, end % 60), zone)))
