"""A client that keeps to the stated burst is answered, however busy the box is."""

from __future__ import annotations

import http.client
import multiprocessing
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from flask import Flask
from waitress.server import BaseWSGIServer

from edge.audit.actors import shell
from edge.config.settings import Config
from edge.records import assets
from edge.server import server
from tests.api.conftest import AGENT, sign_up
from tests.application import make_app
from tests.conftest import Cast

CONNECTIONS = 24
PAGES_EACH = 4
ASSETS = 120
SECONDS = 120.0


@contextmanager
def serving(app: Flask) -> Iterator[int]:
    listener = server.create(app, "127.0.0.1", 0, 4)
    assert isinstance(listener, BaseWSGIServer)
    thread = threading.Thread(target=listener.run)
    thread.start()
    try:
        assert listener.socket
        yield int(listener.socket.getsockname()[1])
    finally:
        server.stop(listener, 5)
        thread.join()


@contextmanager
def busy_processor() -> Iterator[None]:
    """Keep two processes computing, so that requests take long although they need little processor time."""
    is_over = multiprocessing.Event()
    processes = [multiprocessing.Process(target=_compute, args=(is_over,), daemon=True) for _ in range(2)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        is_over.set()
        for process in processes:
            process.join()


def _compute(is_over: threading.Event) -> None:
    while not is_over.is_set():
        sum(range(100_000))


@pytest.mark.slow
def test_96_pages_over_24_connections_are_answered_on_a_busy_box(store: object, cast: Cast) -> None:
    """24 of 96 were answered with 429, because requests were charged by the time they took."""
    for number in range(ASSETS):
        assets.create(shell(cast.acme), name=f"Pallet {number}")
    app = make_app(rate_per_second=Config.rate_per_second, rate_burst=Config.rate_burst)
    headers = {"User-Agent": AGENT, "Authorization": f"Bearer {sign_up(app.test_client(), cast.acme).token}"}

    def ask(_: int) -> list[int]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        statuses = []
        for page in range(PAGES_EACH):
            connection.request("GET", f"/api/v1/assets?limit={20 + page}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
        return statuses

    with serving(app) as port, busy_processor(), ThreadPoolExecutor(CONNECTIONS) as pool:
        statuses = [status for answers in pool.map(ask, range(CONNECTIONS)) for status in answers]
    assert Counter(statuses) == {200: CONNECTIONS * PAGES_EACH}
