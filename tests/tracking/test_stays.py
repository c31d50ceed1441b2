"""Rows of history keep what they mean: the numbers of reasons and qualities are in every database and backup."""

from __future__ import annotations

from edge.tracking.decision_rule import Rule
from edge.tracking.stays import Quality


def test_stored_numbers_keep_their_meaning() -> None:
    assert [rule.name for rule in sorted(Rule)] == [
        "EVERY_READ", "FIRST", "STRONGER", "SILENT", "PORTAL", "DIRECT", "AGAIN", "PERSON", "NEW", "SETTLED",
    ]  # fmt: skip
    assert [quality.name for quality in sorted(Quality)] == [
        "READER", "RECEIVED", "CORRECTED", "UNTRUSTED", "HANDHELD", "CARRIED",
    ]  # fmt: skip
    assert [*map(int, sorted(Rule))] == [*range(10)]
    assert [*map(int, sorted(Quality))] == [*range(6)]
