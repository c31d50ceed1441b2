"""Probation: judge the first ten minutes of a new release at a site. systemd/edge-upgrade rolls back on a fault.

This module holds the rules and reads no clock; `edge/operations/upgrade/probation_sources.py` collects the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

LOOK_SECONDS = 5.0
MOST_RESTARTS = 2  # one may have another cause; a release that crashes regularly has two within a minute
UNANSWERED_SECONDS = 20.0
NOT_READY_SECONDS = 60.0
MEMORY_SECONDS = 30.0
MOST_MEMORY = 0.9  # of the unit's limit
MOST_ERRORS = 5  # answers of 500
EXPECTED_MESSAGES = 30.0  # below this a missing reader is not a fault of the release
LEAST_SHARE = 0.2  # of the expected messages, and of the earlier number of recorded reads per message
SAMPLE_SECONDS = 5.0  # samples closer together give no usable rate
COUNTED_SECONDS = 7200.0  # longest span that the first sample covers: the previous hour and the present one


class Tally(NamedTuple):
    """Totals of one reader, or of all readers of one format."""

    messages: int
    recorded: int  # recorded reads, including repeats of a known stay


class Sample(NamedTuple):
    """Totals by "reader NAME" and "format NAME", at a time in seconds."""

    at: float
    readers: Mapping[str, Tally]


class Rate(NamedTuple):
    """Rate of a reader or a format before the upgrade."""

    messages: float  # per second
    recorded: float  # recorded reads per message, also of messages that are ignored or unreadable


class Observation(NamedTuple):
    at: float
    restarts: int  # by systemd, since the release was started
    unanswered: str  # first path without an answer, or empty
    not_ready: str  # reason, or empty
    errors: int  # answers with status 500 since the process began
    memory_share: float  # of the unit's limit, 0 to 1; 0 without a limit
    readers: Mapping[str, Tally]
    is_stopped: bool = False  # by an administrator or a shutdown


def rates(samples: Sequence[Sample]) -> dict[str, Rate]:
    """Return the rates between the first and the last sample; empty if they are too close together.

    Traffic of a gate comes in bursts, so a rate is at most the average of the last hours.
    """
    if not samples or samples[-1].at - samples[0].at < SAMPLE_SECONDS:
        return {}
    first, last = samples[0], samples[-1]
    by_name = {}
    for name, after in last.readers.items():
        recent = _since(first.readers.get(name, _NOTHING), after)
        recorded = min(recent.recorded / max(recent.messages, 1), after.recorded / max(after.messages, 1))
        per_second = min(recent.messages / (last.at - first.at), after.messages / COUNTED_SECONDS)
        by_name[name] = Rate(per_second, recorded)
    return by_name


_NOTHING = Tally(0, 0)


def _since(before: Tally, now: Tally) -> Tally:
    return Tally(now.messages - before.messages, now.recorded - before.recorded)


class Probation:
    """Judges a release by successive observations."""

    def __init__(self, before: Sequence[Sample], at_switch: Mapping[str, Tally], has_been_ready: bool) -> None:
        """`before`: samples of the previous release. `at_switch`: totals when it had stopped."""
        self._rates = rates(before)
        self._at_switch = at_switch
        self._was_ready = has_been_ready
        self._last: float | None = None
        self.watched_seconds = 0.0  # without the time in which an administrator had stopped the service
        self._since: dict[str, float] = {}  # start of each trouble that may pass

    def fault(self, seen: Observation) -> str:
        """Return why the release must be rolled back, or an empty string."""
        passed = 0.0 if self._last is None else seen.at - self._last
        self._last = seen.at
        if seen.is_stopped:
            self._since.clear()
            return ""
        self.watched_seconds += passed
        if seen.restarts >= MOST_RESTARTS:
            return f"the service stopped unexpectedly {seen.restarts} times"
        if seen.errors >= MOST_ERRORS:
            return f"{seen.errors} requests failed with an internal error"
        not_ready = f"it is not ready: {seen.not_ready}" if seen.not_ready and self._was_ready else ""
        memory = f"it uses {seen.memory_share:.0%} of its memory limit" if seen.memory_share > MOST_MEMORY else ""
        troubles = (
            ("unanswered", UNANSWERED_SECONDS, seen.unanswered and f"{seen.unanswered} is not served"),
            ("ready", NOT_READY_SECONDS, not_ready),
            ("memory", MEMORY_SECONDS, memory),
        )
        lasting = [self._lasting(seen.at, *one) for one in troubles]
        return next(filter(None, lasting), "") or self._reader_fault(seen, self.watched_seconds)

    def _lasting(self, at: float, name: str, seconds: float, trouble: str) -> str:
        if not trouble:
            self._since.pop(name, None)
            return ""
        return trouble if at - self._since.setdefault(name, at) >= seconds else ""

    def _reader_fault(self, seen: Observation, seconds: float) -> str:
        for name, rate in self._rates.items():
            expected = rate.messages * seconds
            if expected < EXPECTED_MESSAGES:
                continue
            start = self._at_switch.get(name, _NOTHING)
            messages, recorded = _since(start, seen.readers.get(name, start))
            if messages < LEAST_SHARE * expected:
                return f"{name} has {messages} messages in {seconds:.0f} s, before the upgrade {expected:.0f}"
            if recorded < LEAST_SHARE * rate.recorded * messages:
                was = f"before the upgrade {rate.recorded * messages:.0f}"
                return f"{name} has {recorded} recorded reads in {messages} messages, {was}"
        return ""
