"""The first reader of a site: its settings, first message, location and account."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flask import Flask

from edge.audit.actors import shell
from edge.people.people import Role
from edge.readers import readers
from edge.records import locations
from tests.application import make_app
from tests.conftest import Cast
from tests.pages.conftest import Browser, SignIn, hear


@pytest.fixture
def app(cast: Cast) -> Flask:
    return make_app(
        http_public_url="http://box.lan:8080",
        mqtt_broker="mqtt://localhost:1884",
        mqtt_tls_port=8883,
        mqtt_accounts_dir=Path("/run/edge"),
        mqtt_password_file=Path("/etc/edge/password"),
    )


def test_the_page_shows_the_settings_and_waits_for_the_first_message(admin: Browser) -> None:
    text = admin.get("/readers").text
    for expected in ("box.lan", "1884", "8883", "dock1/reads", "Waiting for the first message"):
        assert expected in text
    first = admin.get("/readers/heard")
    hear("hall/portal")
    update = admin.get("/readers/heard", headers={"If-None-Match": first.headers["ETag"]})
    assert update.status_code == 200
    assert "/readers/new?topic=hall/portal" in update.text


def test_unassigned_topics_are_shown_to_administrators_only(sign_in_as: SignIn) -> None:
    hear("hall/portal")
    editor = sign_in_as(Role.EDITOR)
    assert "hall/portal" not in editor.get("/readers").text
    assert "hall/portal" not in editor.get("/readers/heard").text


def test_a_reader_is_created_with_its_location(admin: Browser, cast: Cast) -> None:
    entered = {"name": "Portal", "topic": "a/b", "format": "edge", "location_name": "Dock 9", "is_enabled": "on"}
    assert admin.post("/readers/new", entered).status_code == 303
    (reader,) = readers.list_readers(cast.acme)
    assert locations.get(cast.acme, reader.location_id or 0).name == "Dock 9"


@pytest.mark.parametrize(
    ("field", "value"), [("location_name", "x" * 256), ("topic", "a/#/b"), ("topic", ""), ("location_id", "7")]
)
def test_neither_reader_nor_location_is_created_if_one_is_invalid(
    admin: Browser, cast: Cast, field: str, value: str
) -> None:
    entered = {"name": "Portal", "topic": "a/b", "format": "edge", "location_name": "Dock 9", field: value}
    assert admin.post("/readers/new", entered).status_code == 400
    assert readers.list_readers(cast.acme) == []
    assert admin.get("/locations?q=Dock").text.count("data-branch=") == 0


def test_a_reader_gets_an_account_whose_password_is_shown_once(admin: Browser, sign_in_as: SignIn, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge")
    theirs = readers.add_reader(shell(cast.rival), name="P", topic="rival/u", format="edge")
    text = admin.post(f"/readers/{reader.id}/account").text
    shown = re.search('<output id="password">([^<]+)</output>', text)
    assert shown
    assert '<dd class="mono">t</dd>' in text
    assert shown[1] not in admin.get(f"/readers/{reader.id}").text
    assert admin.post(f"/readers/{theirs.id}/account").status_code == 404
    assert sign_in_as(Role.EDITOR).post(f"/readers/{reader.id}/account").status_code == 403
