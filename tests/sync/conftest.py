"""Fixtures for sync tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edge.database import connection
from edge.sync import sender
from edge.sync.store import epochs
from tests import chance
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


def seeds(count: int) -> pytest.MarkDecorator:
    """Parametrize `seed` and `engine`: the first half in files, the others in PostgreSQL.

    A random life takes seconds and depends little on the engine, which has tests of its own.
    Each `TEST_SEED` lives others.
    """
    first = 1000 * chance.SEED
    return pytest.mark.parametrize(
        ("engine", "seed"),
        [
            pytest.param("file", first + number)
            if number < (count + 1) // 2
            else pytest.param("postgresql", first + number, marks=pytest.mark.postgres)
            for number in range(count)
        ],
        indirect=["engine"],
    )
