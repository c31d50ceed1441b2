"""Slow requests of one caller do not use all threads and are charged by their CPU time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask, Response

from edge.api import guard
from edge.labels import pdf
from edge.pages.guard import require_role
from edge.people.people import Role
from edge.rate_limits import RESERVED, Buckets, ConcurrencyLimit
from edge.records import assets
from tests.api.conftest import Api, error
from tests.application import services_of
from tests.pages.conftest import Browser

MOST = 8 - RESERVED
PATIENCE = 30


class Gate:
    """A gate at which slow requests wait until the test opens it."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self, *_: object) -> Response:
        self.waiting.release()
        assert self.opened.wait(PATIENCE)
        return Response("slow")


@contextmanager
def under_way(gate: Gate, ask: Callable[[], object], number: int) -> Iterator[None]:
    threads = [threading.Thread(target=ask) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert gate.waiting.acquire(timeout=PATIENCE)
        yield
    finally:
        gate.opened.set()
        for thread in threads:
            thread.join()


@pytest.fixture
def gate() -> Gate:
    return Gate()


def test_a_key_with_slow_requests_leaves_room_for_others(
    app: Flask, acme: Api, rival: Api, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = assets.list_page
    monkeypatch.setattr(assets, "list_page", lambda *_, **filters: (gate(), listed(*_, **filters))[1])
    with under_way(gate, lambda: acme.get("/assets"), MOST):
        refused = acme.get("/locations")
        assert (error(refused)["type"], refused.headers["Retry-After"]) == ("rate_limited", "1")
        assert rival.get("/locations").status_code == 200
        assert app.test_client().get("/healthz").status_code == 200
    assert acme.get("/locations").status_code == 200


def test_a_person_with_slow_pages_leaves_room_for_others(
    app: Flask, sign_in_as: Callable[..., Browser], gate: Gate
) -> None:
    app.view_functions["pages.account"] = require_role(Role.VIEWER)(gate)
    greedy, other = sign_in_as(Role.VIEWER), sign_in_as(Role.VIEWER)
    with under_way(gate, lambda: Browser(app, greedy.token).get("/account"), MOST):
        refused = greedy.get("/locations")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert other.get("/locations").status_code == 200
    assert greedy.get("/locations").status_code == 200


def test_a_file_that_is_streamed_holds_its_slot_until_its_end(app: Flask, sign_in_as: Callable[..., Browser]) -> None:
    browser, concurrency = sign_in_as(Role.VIEWER), services_of(app).concurrency
    answer = browser.client.get("/export/board.csv", buffered=False)
    assert list(concurrency._busy.values()) == [1]
    assert answer.get_data()
    answer.close()
    assert concurrency._busy == {}


def test_one_file_of_labels_is_made_at_a_time(
    app: Flask, sign_in_as: Callable[..., Browser], gate: Gate, site: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a few files of 1,000 labels each blocked everyone."""
    monkeypatch.setattr(pdf, "labels_pdf", lambda *_, **__: gate().data)
    greedy, other = sign_in_as(Role.VIEWER), sign_in_as(Role.VIEWER)
    with under_way(gate, lambda: Browser(app, greedy.token).get("/labels.pdf"), 1):
        assert other.get("/labels.pdf").status_code == 429
    assert other.get("/labels.pdf").data == b"slow"


def test_a_refusal_and_a_failure_release_the_slot(app: Flask, acme: Api, sign_in_as: Callable[..., Browser]) -> None:
    browser = sign_in_as(Role.VIEWER)
    for _ in range(3 * MOST):
        assert acme.get("/assets/1").status_code == 404
        assert browser.get("/people").status_code == 403
        assert browser.client.post("/sign-out").status_code == 403
        assert browser.client.get("/nothing").status_code == 404
    assert services_of(app).concurrency._busy == {}


def test_seconds_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("edge.rate_limits.time.monotonic", lambda: now)
    buckets = Buckets(burst=200, per_second=50)
    buckets.charge("key", 5.0)
    refused = buckets.take("key")
    assert (refused.allowed, refused.remaining, refused.retry_after) == (False, 0, 2)
    now = 1.1
    assert buckets.take("key").allowed
    buckets.charge("key", 10_000.0)
    now += 61.0
    assert buckets.take("key").allowed


def test_a_slow_read_is_charged_and_a_quick_one_is_not(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[float] = []
    monkeypatch.setattr(Buckets, "charge", lambda _buckets, _key, seconds: charged.append(seconds))
    monkeypatch.setattr(guard, "SLOW_SECONDS", 1_000.0)
    acme.get("/assets")
    assert charged == []
    monkeypatch.setattr(guard, "SLOW_SECONDS", 0.0)
    acme.get("/assets")
    assert len(charged) == 1


def test_waiting_is_not_charged(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """interface: Additions"""
    charged: list[float] = []
    listed = assets.list_page

    def slowly(*given: Any, **filters: Any) -> Any:
        deadline = time.perf_counter() + 2 * guard.SLOW_SECONDS
        while time.perf_counter() < deadline:
            threading.Event().wait(0.01)
        return listed(*given, **filters)

    monkeypatch.setattr(Buckets, "charge", lambda _buckets, _key, seconds: charged.append(seconds))
    monkeypatch.setattr(assets, "list_page", slowly)
    assert acme.get("/assets").status_code == 200
    assert charged == []


def test_turns_are_counted_for_each_caller() -> None:
    concurrency = ConcurrencyLimit(4)
    assert [concurrency.acquire("a") for _ in range(3)] == [True, True, False]
    assert concurrency.acquire("b")
    concurrency.release("a")
    assert concurrency.acquire("a")
    assert ConcurrencyLimit(1).acquire("alone")


def test_downloads_of_one_organization_leave_one_to_others() -> None:
    concurrency = ConcurrencyLimit(8)
    assert [concurrency.acquire_file(f"person:{number}", 1) for number in range(5)] == [True] * 4 + [False]
    assert [concurrency.acquire_file(f"other:{number}", 2) for number in range(2)] == [True, False]
    concurrency.release_file("person:0", 1)
    assert concurrency.acquire_file("person:9", 1)
    assert [ConcurrencyLimit(number).acquire_file("alone", 1) for number in (1, 2)] == [True, True]
