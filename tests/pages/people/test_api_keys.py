"""Account menu, API Keys, New Key (interface: Authentication 1)."""

from __future__ import annotations

import re
from collections.abc import Callable

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.people import api_keys
from edge.people.people import Role
from edge.people.secrets import hash_secret
from tests.conftest import Cast
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]


def test_the_secret_is_shown_once_and_only_its_hash_is_stored(sign_in_as: SignIn, cast: Cast) -> None:
    """interface: Authentication 1"""
    browser = sign_in_as(Role.ADMINISTRATOR)
    page = browser.post("/keys/new", {"name": "WMS", "assets": "read", "tracking": "read", "expires": "30"})
    secret = re.search(r"edge_[0-9a-f]{64}", page.text)
    key = api_keys.list_keys(cast.acme)[0]
    assert secret
    assert key.id in page.text
    assert page.headers["Cache-Control"] == "no-store"
    assert key.scopes == ("assets:read", "tracking:read")
    assert key.expires_at is not None
    assert abs(key.expires_at - clock.now() - 30 * clock.DAY) < clock.HOUR
    assert execute("SELECT secret_hash FROM api_key").fetchone()[0] == hash_secret(secret[0])
    listed = browser.get("/keys").text
    assert key.id in listed
    assert secret[0] not in listed


def test_a_key_needs_a_name_and_a_scope(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert browser.post("/keys/new", {"name": " ", "assets": "read"}).status_code == 400
    assert browser.post("/keys/new", {"name": "WMS"}).status_code == 400
    assert browser.post("/keys/new", {"name": "WMS", "tracking": "write"}).status_code == 400
    assert browser.post("/keys/new", {"name": "WMS", "assets": "read", "expires": "-1"}).status_code == 400
    assert api_keys.list_keys(cast.acme) == []


def test_revoking_asks_first_and_is_for_good(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    browser.post("/keys/new", {"name": "WMS", "assets": "read"})
    key = api_keys.list_keys(cast.acme)[0]
    assert "stop working immediately" in browser.get(f"/keys/{key.id}/revoke").text
    assert api_keys.list_keys(cast.acme)
    assert browser.post(f"/keys/{key.id}/revoke").status_code == 303
    assert api_keys.list_keys(cast.acme) == []
    assert browser.post(f"/keys/{key.id}/revoke").status_code == 404


def test_nobody_revokes_a_key_of_another_organization(sign_in_as: SignIn, cast: Cast) -> None:
    key = api_keys.add_key(shell(cast.rival), "Theirs", ["assets:read"], b"hash")
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert browser.post(f"/keys/{key.id}/revoke").status_code == 404
    assert api_keys.list_keys(cast.rival)


def test_a_key_can_write_without_reading(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    browser.post("/keys/new", {"name": "Feed", "assets": "write-only", "locations": "write"})
    assert api_keys.list_keys(cast.acme)[0].scopes == ("assets:write", "locations:read", "locations:write")
    assert browser.post("/keys/new", {"name": "Feed", "tracking": "write-only"}).status_code == 400
