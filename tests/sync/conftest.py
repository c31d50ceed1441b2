"""Fixtures for sync tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edge.database import connection
from edge.sync import sender
from edge.sync.store import epochs
from tests.sync.world import Hub


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (sender, epochs):  # tests restore copies more often than users do
        monkeypatch.setattr(module, "RENEW_AGAIN", 0)
    yield
    connection.close_database()


@pytest.fixture(params=["file", pytest.param("postgresql", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """The history of each hub in its own file, or in PostgreSQL."""
    if request.param == "postgresql":
        Hub.server = request.getfixturevalue("postgres_server")
    yield
    Hub.server = None
