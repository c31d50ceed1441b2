"""One line per request, and the request ID of a page that failed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from flask import Flask

from edge.pages.tracking import board
from edge.people.people import Role
from tests.api.conftest import Api, acme
from tests.application import change, shared_app
from tests.pages.conftest import SignIn, sign_in_as

__all__ = ["acme", "sign_in_as"]


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, log = Lines(), logging.getLogger("edge.access")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler.texts
    log.removeHandler(handler)


@pytest.fixture
def app(store: object) -> Flask:
    return shared_app()


def test_no_lines_by_default(app: Flask, lines: list[str]) -> None:
    app.test_client().get("/sign-in")
    assert lines == []


def test_a_line_of_text_names_the_api_key_and_omits_the_query(app: Flask, acme: Api, lines: list[str]) -> None:
    change(app, http_access_log="text")
    response = acme.call("GET", "/assets?q=secret", headers={"X-Request-ID": "from-the-client"})
    assert response.status_code == 200
    method, path, status, ms, unit, request_id, actor = lines[0].split()
    assert (method, path, status, unit, request_id) == ("GET", "/api/v1/assets", "200", "ms", "from-the-client")
    assert float(ms) > 0
    assert acme.key.id in actor


def test_a_line_of_json_has_the_request_id_of_the_response(app: Flask, lines: list[str]) -> None:
    change(app, http_access_log="json")
    response = app.test_client().get("/no/such/page")
    written = json.loads(lines[0])
    assert set(written) == {"method", "path", "status", "ms", "request_id", "actor"}
    assert (written["path"], written["status"], written["actor"]) == ("/no/such/page", 404, "")
    assert written["request_id"] == response.headers["X-Request-ID"]


def test_enrolment_codes_stay_out_of_the_log(app: Flask, lines: list[str]) -> None:
    change(app, http_access_log="text")
    client = app.test_client()
    client.get("/enrol/ABCD-EFGH")
    client.get("/enrol/ABCD-EFGH/")
    client.get("/w/ABCD-EFGH")
    client.get("/w/ABCD-EFGH/now")
    client.put("/enrol/ABCD-EFGH")
    assert ["/CODE" in line for line in lines] == [True] * 5
    assert "ABCD" not in "".join(lines)


def test_a_client_cannot_add_fields_to_a_line_of_text(app: Flask, lines: list[str]) -> None:
    change(app, http_access_log="text")
    app.test_client().get("/x%20200%200.1%20ms%20ID%20person:1", headers={"X-Request-ID": "a person:1"})
    assert len(lines[0].split()) == 7


def test_a_long_path_is_cut_and_stays_on_one_line(app: Flask, lines: list[str]) -> None:
    change(app, http_access_log="json")
    app.test_client().get("/x%0Ay" + "z" * 5_000)
    assert len(json.loads(lines[0])["path"]) == 500
    assert "\n" not in lines[0]


def test_a_page_that_fails_logs_the_request_id_that_it_shows(
    app: Flask, sign_in_as: SignIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    browser = sign_in_as(Role.VIEWER)
    monkeypatch.setattr(board, "first_steps", lambda *_: 1 / 0)
    response = browser.get("/")
    assert response.status_code == 500
    request_id = response.headers["X-Request-ID"]
    assert request_id in response.text
    assert request_id in caplog.text
