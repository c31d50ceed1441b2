"""Short run of `fuzz.py`; the long run sends ten million messages."""

from __future__ import annotations

from tests.security.fuzz import run


def test_mutated_messages_break_nothing(store: object) -> None:
    result = run(3_000, seed=1)
    assert {"recorded", "malformed", "unknown_topic"} <= result.buckets.keys()
    assert result.slowest < 0.05
