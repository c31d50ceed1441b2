"""Fixtures for sync tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edge.database import connection
from edge.sync import sender
from edge.sync.store import epochs


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (sender, epochs):  # tests restore copies more often than users do
        monkeypatch.setattr(module, "RENEW_AGAIN", 0)
    yield
    connection.close_database()
