"""Fixture with a new site of `tests/ingest/site.py` for each test."""

from __future__ import annotations

import pytest

from tests.conftest import Cast
from tests.ingest.site import Site, make_site


@pytest.fixture
def site(cast: Cast) -> Site:
    return make_site(cast.acme)
