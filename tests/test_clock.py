"""Local days around clock changes."""

from __future__ import annotations

from datetime import date, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from edge import clock
from edge.clock import HOUR
from edge.pages.dates import Days


def test_a_day_with_two_midnights_begins_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the Azores clocks are set back from 1:00 to 0:00; it is 0:30 for the second time."""
    azores = ZoneInfo("Atlantic/Azores")

    class Now(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Now:
            return cls(2026, 10, 25, 0, 30, tzinfo=tz, fold=1)

    monkeypatch.setattr(clock, "datetime", Now)
    assert clock.midnight(azores) == clock.to_micros(datetime(2026, 10, 25, tzinfo=azores, fold=0))


def test_the_hours_of_a_day_reach_its_end() -> None:
    """On Lord Howe Island, clocks change by half an hour."""
    begin = clock.to_micros(datetime(2026, 4, 5, tzinfo=ZoneInfo("Australia/Lord_Howe")))
    end = clock.to_micros(datetime(2026, 4, 6, tzinfo=ZoneInfo("Australia/Lord_Howe")))
    edges = Days(date(2026, 4, 5), date(2026, 4, 5), begin, end).edges()
    assert edges == [*range(begin, end, HOUR), end]
    assert end - begin == 24 * HOUR + HOUR // 2
