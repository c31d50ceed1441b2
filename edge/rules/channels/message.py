"""A message about an alert, as rules write it."""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """A message about one alert. `is_late`: the rule decided long after `occurred_at` (µs), for example by late reads.

    `is_over` marks the second message, which says that the condition has ended. Subject and text may contain anything
    that users and readers entered; channels clean and escape them.
    """

    subject: str
    text: str
    rule_no: int
    alert_no: int | None
    asset_id: int | None
    occurred_at: int
    is_over: bool
    is_late: bool
