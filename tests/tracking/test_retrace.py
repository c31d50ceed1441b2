"""The same reads, in any order and in any batches, give the same rows once all of them are decided."""

from __future__ import annotations

import pytest

from tests.conftest import Cast
from tests.database.orders import differing, make_world

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 50), (1, 50), (2, 50), (3, 50), (1010, 100), (2043, 100), (3000, 130), (4000, 130)]
)
def test_any_order_makes_the_same_history(cast: Cast, seed: int, count: int) -> None:
    """Some examples read an asset again after memory dropped its reads; late reads then change the row before the
    newest.
    """
    assert differing(make_world(cast.acme), count, seed) == []


@pytest.mark.parametrize("seed", range(4))
def test_any_order_makes_the_same_history_where_every_read_counts(cast: Cast, seed: int) -> None:
    assert differing(make_world(cast.acme), 75, seed, is_smoothing=False) == []
