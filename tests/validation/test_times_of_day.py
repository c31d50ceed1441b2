"""Times of day as people and browsers enter them."""

from __future__ import annotations

import pytest

from edge.errors import Invalid
from edge.validation.values import minute_of_day, time_of_day


@pytest.mark.parametrize(
    ("text", "minute"), [("", None), ("00:00", 0), (" 22:05 ", 1325), ("23:59", 1439), ("08:00:00", 480)]
)
def test_a_time_of_day(text: str, minute: int | None) -> None:
    assert minute_of_day("from", text) == minute
    assert time_of_day(minute) == text.strip()[:5]


@pytest.mark.parametrize("text", ["24:00", "8:00", "08:60", "noon", "٠٨:٠٠", "08:00\n1"])
def test_something_else(text: str) -> None:
    with pytest.raises(Invalid, match="Enter a time of day"):
        minute_of_day("from", text)


def test_the_end_of_a_day() -> None:
    assert time_of_day(24 * 60) == "00:00"
