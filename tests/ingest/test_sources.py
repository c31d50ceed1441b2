from __future__ import annotations

import pytest

from edge.ingest import reader_clock
from edge.ingest.reader_clock import BySource, Source


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_clock, "MOST", 6)
    monkeypatch.setattr(reader_clock, "MOST_OF_READER", 4)


def test_a_reader_with_a_wildcard_evicts_only_its_own_values() -> None:
    """Regression: the 10,000th topic of one reader evicted the clocks of all readers."""
    kept: BySource[int] = BySource()
    kept.put(Source(1), 100)
    for number in range(50):
        kept.put(Source(2, f"gw/{number}"), number)
    assert kept.get(Source(1)) == 100
    assert kept.get(Source(2, "gw/49")) == 49
    assert len(kept.values()) <= 5


def test_at_the_limit_the_reader_with_the_most_values_is_evicted() -> None:
    kept: BySource[int] = BySource()
    for reader_id, topics in ((1, 1), (2, 3), (3, 2), (4, 1)):
        for number in range(topics):
            kept.put(Source(reader_id, f"{number}"), number)
    assert {source.reader_id for source, _ in kept.items()} == {1, 3, 4}


def test_a_value_is_replaced() -> None:
    kept: BySource[int] = BySource()
    for value in range(20):
        kept.put(Source(1), value)
    assert list(kept.values()) == [19]
