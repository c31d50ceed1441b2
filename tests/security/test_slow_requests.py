"""Slow requests of one caller do not use all threads and are charged by their CPU time."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask, Response

from edge import rate_limits
from edge.api import guard
from edge.labels import pdf
from edge.people.people import Role
from edge.rate_limits import FILES_OF_CALLER, Buckets, FileLimit, Slots
from edge.records.record import Kind
from edge.validation import xlsx
from tests.api.conftest import Api
from tests.pages.conftest import Browser

PATIENCE = 60


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


def test_all_tokens_of_a_key_and_all_sessions_of_a_person_are_one_caller(
    acme: Api, rival: Api, sign_in_as: Callable[..., Browser]
) -> None:
    """`server.workers` lets a caller wait before it has all threads."""
    headers = [f"Bearer {token}" for token in (acme.token, acme.exchange().json["access_token"], rival.token)]  # type: ignore[index]
    for header in headers:
        assert acme.get("/assets", headers={"Authorization": header}).status_code == 200
    first, second, other = [rate_limits.find_caller(header) for header in headers]
    assert first == second != other
    browser = sign_in_as(Role.VIEWER)
    assert browser.get("/account").status_code == 200
    person = rate_limits.find_caller(browser.token)
    assert person
    assert person.name.startswith("person:")


def test_a_file_that_is_streamed_is_counted_until_its_end(app: Flask, sign_in_as: Callable[..., Browser]) -> None:
    browser = sign_in_as(Role.VIEWER)
    answers = [browser.client.get("/export/board.csv", buffered=False) for _ in range(FILES_OF_CALLER)]
    assert browser.get("/export/board.csv").status_code == 503
    for answer in reversed(answers):
        assert answer.get_data()
        answer.close()
    assert browser.get("/export/board.csv").status_code == 200


def test_an_excel_file_is_counted_from_its_first_row(
    app: Flask, sign_in_as: Callable[..., Browser], gate: Gate, site: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: Excel files of three people, made in 3 s each, had all threads for 20 s."""
    browser, path = sign_in_as(Role.VIEWER), "/export/board.csv?separator=xlsx"
    monkeypatch.setattr(xlsx, "write", lambda *_: io.BytesIO(gate().data))
    with under_way(gate, lambda: Browser(app, browser.token).get(path), FILES_OF_CALLER):
        assert browser.get(path).status_code == browser.get("/export/board.csv").status_code == 503
    assert browser.get(path).data == b"slow"


def test_an_excel_file_that_cannot_be_made_is_no_longer_counted(
    sign_in_as: Callable[..., Browser], site: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, path = sign_in_as(Role.VIEWER), "/export/board.csv?separator=xlsx"
    monkeypatch.setattr(xlsx, "is_available", lambda: False)
    assert [browser.get(path).status_code for _ in range(FILES_OF_CALLER + 1)] == [400] * (FILES_OF_CALLER + 1)
    assert browser.get("/export/board.csv").status_code == 200


def test_one_file_of_labels_is_made_at_a_time(
    app: Flask, sign_in_as: Callable[..., Browser], gate: Gate, site: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a few files of 1,000 labels each blocked everyone."""
    monkeypatch.setattr(pdf, "labels_pdf", lambda *_, **__: gate().data)
    greedy, other = sign_in_as(Role.VIEWER), sign_in_as(Role.VIEWER)
    with under_way(gate, lambda: Browser(app, greedy.token).get("/labels.pdf"), 1):
        assert other.get("/labels.pdf").status_code == 429
    assert other.get("/labels.pdf").data == b"slow"


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
    listed = Kind.list_page

    def slowly(*given: Any, **filters: Any) -> Any:
        deadline = time.perf_counter() + 2 * guard.SLOW_SECONDS
        while time.perf_counter() < deadline:
            threading.Event().wait(0.01)
        return listed(*given, **filters)

    monkeypatch.setattr(Buckets, "charge", lambda _buckets, _key, seconds: charged.append(seconds))
    monkeypatch.setattr(Kind, "list_page", slowly)
    assert acme.get("/assets").status_code == 200
    assert charged == []


def test_slots_are_counted_for_each_owner() -> None:
    slots = Slots(2)
    assert [slots.acquire("a") for _ in range(3)] == [True, True, False]
    assert slots.acquire("b")
    slots.release("a")
    assert slots.acquire("a")


def test_downloads_of_one_organization_leave_one_to_others() -> None:
    limit = FileLimit(8)
    assert [limit.acquire(f"person:{number}", 1) for number in range(5)] == [True] * 4 + [False]
    assert [limit.acquire(f"other:{number}", 2) for number in range(2)] == [True, False]
    limit.release("person:0", 1)
    assert limit.acquire("person:9", 1)
    assert [FileLimit(number).acquire("alone", 1) for number in (1, 2)] == [True, True]
