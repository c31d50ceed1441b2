"""The first ten minutes of a release at a site: is it as good as the one before? systemd/edge-upgrade goes back if not.

The decisions are here and have no clock of their own; `edge/operations/upgrade/probation_sources.py` asks the service
and the box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

LOOK_SECONDS = 5.0
MOST_RESTARTS = 2  # one can be the box's fault; a release that crashes regularly has two within a minute
UNANSWERED_SECONDS = 20.0
NOT_READY_SECONDS = 60.0
MEMORY_SECONDS = 30.0
MOST_MEMORY = 0.9  # of the unit's limit
MOST_ERRORS = 5  # answers of 500
EXPECTED_MESSAGES = 30.0  # before a reader that is missing is a fault of the release
LEAST_SHARE = 0.2  # of the messages expected, and of the share of reads that were recorded
SAMPLE_SECONDS = 5.0  # samples closer together say nothing of a rate
COUNTED_SECONDS = 7200.0  # for which the first sample counts, at most: the hour before, and the present one


class Tally(NamedTuple):
    """Totals of one reader since it was set up."""

    messages: int
    reads: int
    recorded: int  # of the reads; those of a stay that is known count too


class Sample(NamedTuple):
    """The totals of all readers, by name, at a time in seconds."""

    at: float
    readers: Mapping[str, Tally]


class Rate(NamedTuple):
    """How a reader did before the upgrade."""

    messages: float  # a second
    recorded_share: float  # of its reads


class Observation(NamedTuple):
    at: float
    restarts: int  # by systemd, since the release was started
    unanswered: str  # a path that is not answered, or nothing
    not_ready: str  # why, or nothing
    errors: int  # answers of 500 since the process began
    memory_share: float  # of the unit's limit; 0 where there is none
    readers: Mapping[str, Tally]


def rates(samples: Sequence[Sample]) -> dict[str, Rate]:
    """How each reader did between the first and the last sample; none if they are too close together.

    A gate sends much while something passes, and then nothing: no more is expected than in the last hours on average.
    """
    if not samples or samples[-1].at - samples[0].at < SAMPLE_SECONDS:
        return {}
    first, last = samples[0], samples[-1]
    found = {}
    for name, after in last.readers.items():
        before = first.readers.get(name, Tally(0, 0, 0))
        reads = after.reads - before.reads
        share = (after.recorded - before.recorded) / reads if reads > 0 else 0.0
        recent = (after.messages - before.messages) / (last.at - first.at)
        found[name] = Rate(min(recent, after.messages / COUNTED_SECONDS), share)
    return found


class Probation:
    """Judge a release by one observation after the other."""

    def __init__(self, before: Sequence[Sample], was_ready: bool) -> None:
        """`before`: samples of the release before, the last one from the moment of the switch."""
        self._rates = rates(before)
        self._at_switch = dict(before[-1].readers) if before else {}
        self._was_ready = was_ready
        self._began: float | None = None
        self._since: dict[str, float] = {}  # when each trouble began that may pass

    def fault(self, seen: Observation) -> str:
        """Return why the release is to be replaced by the one before, or nothing."""
        if self._began is None:
            self._began = seen.at
        if seen.restarts >= MOST_RESTARTS:
            return f"the service ended by itself {seen.restarts} times"
        if seen.errors >= MOST_ERRORS:
            return f"{seen.errors} requests were answered with an internal error"
        return (
            self._lasting(
                seen.at, "unanswered", UNANSWERED_SECONDS, seen.unanswered and f"{seen.unanswered} is not served"
            )
            or self._lasting(
                seen.at,
                "ready",
                NOT_READY_SECONDS,
                f"it is not ready: {seen.not_ready}" if seen.not_ready and self._was_ready else "",
            )
            or self._lasting(
                seen.at,
                "memory",
                MEMORY_SECONDS,
                f"it takes {seen.memory_share:.0%} of its memory" if seen.memory_share > MOST_MEMORY else "",
            )
            or self._reader_fault(seen, seen.at - self._began)
        )

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
            start, now = self._at_switch.get(name, Tally(0, 0, 0)), seen.readers.get(name, Tally(0, 0, 0))
            messages, reads = now.messages - start.messages, now.reads - start.reads
            if messages < LEAST_SHARE * expected:
                return f"reader {name} has {messages} messages in {seconds:.0f} s, before the upgrade {expected:.0f}"
            share = (now.recorded - start.recorded) / reads if reads > 0 else 0.0
            if share < LEAST_SHARE * rate.recorded_share:
                was = f"before the upgrade {rate.recorded_share:.0%}"
                return f"{share:.0%} of the reads of reader {name} are recorded, {was}"
        return ""
