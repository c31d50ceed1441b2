"""Time from the acknowledgement by the broker to the commit."""

from __future__ import annotations

import pytest

from edge.ingest import subscriber
from edge.ingest.writer import Pace


def window_at(rate: float, seconds: float = 5.0, begun: float = 1_000.0) -> float:
    """Return the longest time between two commits for evenly spaced messages, after the rate is known."""
    pace, now, gaps = Pace(), begun, []
    pace.committed(1, now)
    while now < begun + seconds:
        due = pace.commit_before(now)
        gaps.append(due - now)
        pace.committed(round((due - begun) * rate) - round((now - begun) * rate), due)
        now = due
    return max(gaps[len(gaps) // 2 :])


@pytest.mark.parametrize("rate", [1, 20, 100, 150])
def test_reads_wait_at_most_50_ms_at_up_to_150_messages_a_second(rate: float) -> None:
    assert window_at(rate) + subscriber.PAUSE_SECONDS <= 0.0501


@pytest.mark.parametrize("rate", [180, 500, 5_000])
def test_reads_wait_at_most_150_ms_at_higher_rates(rate: float) -> None:
    assert 0.1 < window_at(rate) + subscriber.PAUSE_SECONDS <= 0.1501


def test_the_first_message_after_a_pause_waits_for_others_like_any_other() -> None:
    pace = Pace()
    pace.committed(1_000, 500.0)
    assert pace.commit_before(600.0) + subscriber.PAUSE_SECONDS == pytest.approx(600.05)


def test_the_window_shortens_soon_after_a_burst() -> None:
    pace = Pace()
    pace.committed(1, 500.0)
    pace.committed(1_000, 501.0)
    assert pace.commit_before(501.0) - 501.0 > 0.05
    pace.committed(1, 502.0)
    assert pace.commit_before(502.0) - 502.0 < 0.05


def test_the_rate_is_measured_every_half_second() -> None:
    pace = Pace()
    pace.committed(1, 500.0)
    pace.committed(1_000, 500.5)
    assert pace.commit_before(500.5) - 500.5 > 0.05
