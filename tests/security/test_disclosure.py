"""Output to strangers, terminals and logs reveals no secrets and contains no control characters."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from flask import Flask

from edge.operations.health import Check
from edge.people.people import Role
from edge.terminal import PrintableStream
from tests.application import services_of
from tests.pages.conftest import Browser
from tests.pages.test_guard import path_of


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_stranger_learns_the_status_only(app: Flask, path: str) -> None:
    health = services_of(app).health
    health.register(lambda: Check("broker 10.0.0.7", False, "Dock 1 is away"), is_vital=True)
    answer = app.test_client().get(path, environ_base={"REMOTE_ADDR": "192.168.1.20"})
    assert (answer.status_code, answer.json) == (503, {"status": "failing"})
    assert "checks" in (app.test_client().get(path).json or {})


def test_every_response_has_a_request_id(app: Flask, sign_in_as: Callable[..., Browser]) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"OPTIONS"}:
            answer = browser.client.open(path_of(rule), method=method, headers={"X-Request-ID": "from-the-client"})
            assert answer.headers.getlist("X-Request-ID") == ["from-the-client"], (rule, method)
    for path in ("/nothing/here", "/static/x/nothing", "/api/nothing", "/a/NOTHING"):
        assert re.fullmatch("[0-9A-Z]{26}", browser.get(path).headers["X-Request-ID"])


def test_names_cannot_send_commands_to_a_terminal() -> None:
    terminal = io.StringIO()
    stream = PrintableStream(terminal)
    stream.write("Dock \x9b2J\x1b[2J\u202e 1\tß\n")
    stream.write("next\n")
    assert terminal.getvalue() == "Dock \\x9b2J\\x1b[2J\\u202e 1\\tß\nnext\n"
