"""Account menu, Sync: sites are added at the hub, and what they told is shown."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from edge.auth import join_codes
from edge.auth.secrets import hash_secret
from edge.store import sites, target
from edge.store.actors import shell
from edge.store.people import Role
from edge.store.target import HubAccess
from tests.conftest import Cast
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]


def test_a_code_is_shown_once_and_joins_one_site(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    page = browser.post("/sync/sites", {"code": "BER", "name": "Berlin"})
    found = re.search(r"edge-join-[\w-]+", page.text)
    assert found
    code = join_codes.read(found[0])
    assert code.url == "http://localhost"
    assert found[0] not in browser.get("/sync").text
    joined = sites.join(hash_secret(code.secret), b"a" * 32)
    assert joined
    assert joined.code == "BER"
    assert sites.join(hash_secret(code.secret), b"b" * 32) is None
    assert "Berlin" in browser.get("/sync").text


@pytest.mark.parametrize(("code", "name"), [("B R", "Berlin"), ("", "Berlin"), ("BER", " ")])
def test_a_site_needs_a_code_that_can_begin_keys(sign_in_as: SignIn, code: str, name: str) -> None:
    assert sign_in_as(Role.ADMINISTRATOR).post("/sync/sites", {"code": code, "name": name}).status_code == 400


def test_nobody_but_an_administrator_sees_it_and_nobody_of_another_organization(sign_in_as: SignIn, cast: Cast) -> None:
    rival = sites.add_site(shell(cast.rival), "HAM", "Hamburg", b"x" * 32)
    assert sign_in_as(Role.EDITOR).get("/sync").status_code == 403
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert "Hamburg" not in browser.get("/sync").text
    assert browser.post(f"/sync/sites/{rival.no}/remove").status_code == 404
    assert browser.post(f"/sync/sites/{rival.no}/code").status_code == 404


def test_a_site_shows_how_far_its_hub_is_and_can_be_paused(sign_in_as: SignIn, cast: Cast) -> None:
    target.begin(shell(cast.acme), HubAccess("https://hub.example", "BER", "The hub", "key"))
    target.update(last_error="The hub cannot be reached <now>")
    browser = sign_in_as(Role.ADMINISTRATOR)
    page = browser.get("/sync").text
    assert "site BER of The hub" in page
    assert "cannot be reached &lt;now&gt;" in page
    browser.post("/sync/pause")
    here = target.find()
    assert here
    assert here.paused_at
    assert "paused" in browser.get("/sync").text
    target.end(shell(cast.acme))
    assert browser.post("/sync/pause").status_code == 404
