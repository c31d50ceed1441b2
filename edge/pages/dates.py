"""Dates and times in URLs and forms, in the time zone of the site."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from flask import request

from edge import clock
from edge.errors import Invalid
from edge.services import services
from edge.texts import N_, Count, fill

EARLIEST = date(1970, 1, 1)
_NO_DAY = N_("%(value)s is not a day since 1970. Enter days like 2026-03-02")
_NO_TIME = N_("%(value)s is not a time. Enter times like 2026-03-02T14:00")
BY_HOUR = 2  # up to this number of days is shown by the hour


class Days(NamedTuple):
    """Days from `first` to `last`, inclusive: from `since` until before `until`."""

    first: date
    last: date
    since: int
    until: int

    @property
    def number(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def query(self) -> str:
        return f"from={self.first}&to={self.last}"

    def midnights(self) -> list[int]:
        """Return the start of each day and the end of the last one. Days with clock changes have 23 or 25 hours."""
        return [begin_of(self.first + timedelta(days=number)) for number in range(self.number + 1)]

    def edges(self) -> list[int]:
        """Return the limits of hours for short ranges, otherwise of days. Excludes the future."""
        is_short = self.number <= BY_HOUR
        edges = [*range(self.since, self.until, clock.HOUR), self.until] if is_short else self.midnights()
        now = clock.now()
        return [edge for edge in edges if edge < now] + ([now] if edges[-1] >= now else [])


def requested_days(usual: int, most: int | None = None) -> Days:
    """Return the days in `from` and `to` of the URL, or the last `usual` days. Raises Invalid."""
    today = datetime.now(_zone()).date()
    begin, end = _day("from"), _day("to")
    last = end or max(today, begin or today)
    first = begin or max(EARLIEST, last - timedelta(days=usual - 1))
    days = Days(first, last, begin_of(first), begin_of(last + timedelta(days=1)))
    if days.number < 1:
        raise Invalid.one("from", "invalid_value", N_("The first day is after the last day"))
    if most is not None and days.number > most:
        raise Invalid.one("to", "too_large", fill(N_("Choose at most %(number)s days"), number=Count(most)))
    return days


def begin_of(day: date) -> int:
    return clock.to_micros(datetime(day.year, day.month, day.day, tzinfo=_zone()))


def begin_of_day(entered: str, days_later: int = 0) -> int | None:
    """Return the start of a day from a form, plus `days_later`. None for invalid input."""
    try:
        return begin_of(datetime.strptime(entered, "%Y-%m-%d").date() + timedelta(days=days_later))
    except (ValueError, OverflowError):
        return None


def shortcuts(lengths: Sequence[int]) -> dict[int, str]:
    """Return query strings for the last n days, including today."""
    today = datetime.now(_zone()).date()
    return {length: f"?from={today - timedelta(days=length - 1)}&to={today}" for length in lengths}


def requested_moment(usual: int) -> int:
    """Return the time in `at` of the URL, in the time zone of the site. Raises Invalid."""
    entered = request.args.get("at")
    if not entered:
        return usual
    try:
        moment = datetime.fromisoformat(entered)
        return clock.to_micros(moment if moment.tzinfo else moment.replace(tzinfo=_zone()))
    except (ValueError, OverflowError):
        raise Invalid.one("at", "invalid_value", fill(_NO_TIME, value=repr(entered[:30]))) from None


def local(moment: int) -> str:
    """Format a time for a form field: `2026-03-02T14:00`."""
    return f"{clock.to_datetime(moment).astimezone(_zone()):%Y-%m-%dT%H:%M}"


def exact(moment: int) -> str:
    """Format a time for `requested_moment`, unambiguous when clocks are set back."""
    return clock.to_datetime(moment).astimezone(_zone()).isoformat(timespec="minutes")


def _day(name: str) -> date | None:
    """Return a day of the URL, or None without one. Raises Invalid."""
    entered = request.args.get(name)
    if not entered:
        return None
    try:
        day = datetime.strptime(entered, "%Y-%m-%d").date()
        begin_of(day + timedelta(days=1))  # a range ends there
        if day >= EARLIEST:
            return day
    except (ValueError, OverflowError):
        pass
    raise Invalid.one(name, "invalid_value", fill(_NO_DAY, value=repr(entered[:30])))


def _zone() -> ZoneInfo:
    return services().zone
