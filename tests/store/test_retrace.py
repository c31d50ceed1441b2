"""The same reads, in any order and in any batches, make the same rows once all of them have settled.

Tests of edge/store/counted_reads.py.
"""

from __future__ import annotations

import pytest

from tests.conftest import Cast
from tests.store.orders import differing, make_world


@pytest.mark.parametrize("seed", range(4))
def test_any_order_makes_the_same_history(cast: Cast, seed: int) -> None:
    assert differing(make_world(cast.acme), 50, seed) == []


@pytest.mark.parametrize("seed", range(4))
def test_any_order_makes_the_same_history_where_every_read_counts(cast: Cast, seed: int) -> None:
    assert differing(make_world(cast.acme), 75, seed, is_smoothing=False) == []
