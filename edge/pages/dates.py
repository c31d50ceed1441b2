"""Dates and times in URLs and forms, in the time zone of the site."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from flask import abort, request

from edge import clock
from edge.pages.translation import gettext
from edge.services import services

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
    """Return the days in `from` and `to` of the URL, or the last `usual` days. Aborts with 404 for invalid or too
    many days.
    """
    today = datetime.now(_zone()).date()
    try:
        last = _day("to") or max(today, _day("from") or today)
        first = _day("from") or last - timedelta(days=usual - 1)
        days = Days(first, last, begin_of(first), begin_of(last + timedelta(days=1)))
    except (ValueError, OverflowError):
        abort(404, gettext("Enter days like 2026-03-02."))
    if days.first.year < 1970:
        abort(404, gettext("This date is too far in the past."))
    if days.number < 1:
        abort(404, gettext("The first day is after the last day."))
    if most is not None and days.number > most:
        abort(404, gettext("Choose at most %(number)s days.") % {"number": most})
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
    """Return the time in `at` of the URL, in the time zone of the site. Aborts with 404 for invalid input."""
    if not request.args.get("at"):
        return usual
    try:
        moment = datetime.fromisoformat(request.args["at"])
        return clock.to_micros(moment if moment.tzinfo else moment.replace(tzinfo=_zone()))
    except (ValueError, OverflowError):
        abort(404, gettext("Enter a time like 2026-03-02T14:00."))


def local(moment: int) -> str:
    """Format a time for a form field: `2026-03-02T14:00`."""
    return f"{clock.to_datetime(moment).astimezone(_zone()):%Y-%m-%dT%H:%M}"


def exact(moment: int) -> str:
    """Format a time for `requested_moment`, unambiguous when clocks are set back."""
    return clock.to_datetime(moment).astimezone(_zone()).isoformat(timespec="minutes")


def _day(name: str) -> date | None:
    entered = request.args.get(name)
    return datetime.strptime(entered, "%Y-%m-%d").date() if entered else None


def _zone() -> ZoneInfo:
    return services().zone
