"""Days of the site: as addresses and forms name them, and when they begin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from flask import abort, request

from edge import clock
from edge.services import services

BY_HOUR = 2  # days that are shown by the hour, not by the day


class Days(NamedTuple):
    """`first` to `last`, both included: from the instant `since` to before `until`."""

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
        """When each day began, and when the last one ends. Days are 23 or 25 hours long where clocks are changed."""
        return [begin_of(self.first + timedelta(days=number)) for number in range(self.number + 1)]

    def edges(self) -> list[int]:
        """Of the hours where it is a day or two, else of the days; nothing of the future."""
        is_short = self.number <= BY_HOUR
        edges = list(range(self.since, self.until + 1, clock.HOUR)) if is_short else self.midnights()
        now = clock.now()
        return [edge for edge in edges if edge < now] + ([now] if edges[-1] >= now else [])


def requested_days(usual: int, most: int | None = None) -> Days:
    """From `from` and `to` of the address, or the last `usual` days; 404 for what is not a day, or for too many."""
    today = datetime.now(_zone()).date()
    try:
        last = _day("to") or max(today, _day("from") or today)
        first = _day("from") or last - timedelta(days=usual - 1)
        days = Days(first, last, begin_of(first), begin_of(last + timedelta(days=1)))
    except (ValueError, OverflowError):
        abort(404, "Write days like 2026-03-02.")
    if days.first.year < 1970:
        abort(404, "Nothing is that old.")
    if days.number < 1:
        abort(404, "The first day is after the last one.")
    if most is not None and days.number > most:
        abort(404, f"Ask for at most {most} days.")
    return days


def begin_of(day: date) -> int:
    return clock.to_micros(datetime(day.year, day.month, day.day, tzinfo=_zone()))


def begin_of_day(entered: str, days_later: int = 0) -> int | None:
    """When a day from a form, or one after it, begins at the site; None for what is not a day."""
    try:
        return begin_of(datetime.strptime(entered, "%Y-%m-%d").date() + timedelta(days=days_later))
    except (ValueError, OverflowError):
        return None


def shortcuts(lengths: Sequence[int]) -> dict[int, str]:
    """Addresses of the last so many days, today included."""
    today = datetime.now(_zone()).date()
    return {length: f"?from={today - timedelta(days=length - 1)}&to={today}" for length in lengths}


def requested_moment(usual: int) -> int:
    """From `at` of the address, as a form writes it in the site's time; 404 for anything that is not a moment."""
    if not request.args.get("at"):
        return usual
    try:
        moment = datetime.fromisoformat(request.args["at"])
        return clock.to_micros(moment if moment.tzinfo else moment.replace(tzinfo=_zone()))
    except (ValueError, OverflowError):
        abort(404, "Write a moment like 2026-03-02T14:00.")


def local(moment: int) -> str:
    """As the field of a form shows it: `2026-03-02T14:00`."""
    return f"{clock.to_datetime(moment).astimezone(_zone()):%Y-%m-%dT%H:%M}"


def exact(moment: int) -> str:
    """As `requested_moment` reads it, also in the hour that comes twice when clocks are set back."""
    return clock.to_datetime(moment).astimezone(_zone()).isoformat(timespec="minutes")


def _day(name: str) -> date | None:
    entered = request.args.get(name)
    return datetime.strptime(entered, "%Y-%m-%d").date() if entered else None


def _zone() -> ZoneInfo:
    return services().zone
