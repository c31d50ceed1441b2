"""When a message is due: pure functions of digest and quiet hours, in the time zone of the site, and their form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time, timedelta, tzinfo

from edge import clock
from edge.events.validation import invalid, whole_number
from edge.rules.channels.channels import Schedule
from edge.texts import N_, fill
from edge.validation import values

MOST_DIGEST_MINUTES = 24 * 60
LATE_AFTER = 2 * 60 * clock.SECOND  # more than a pause after a first failure


def checked(entered: Mapping[str, str]) -> Schedule:
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
