"""Fixtures: a service that runs, and a box that writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge import listeners
from edge.database import connection
from tests.sync.world import Box
from tests.upstream.service import Service
from tests.upstream.world import Clock, Sender


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path / "service")
    running.start()
    yield running
    running.stop()


@pytest.fixture
def sender(tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sender]:
    listeners.connect()
    box = Box(tmp_path / "box", "box")
    with box.in_use():
        one = Sender(box, service, Clock(monkeypatch))
        yield one
        one.client.close()
    connection.close_database()
