"""With HTTPS, neither another host nor an unencrypted page can set a cookie."""

from __future__ import annotations

import pytest
from flask import Flask
from werkzeug.test import Client

from edge.audit.actors import shell
from edge.pages import cookies
from edge.people import devices
from edge.people.people import PersonRow
from edge.people.sign_in import csrf_token
from tests.conftest import Cast
from tests.pages.conftest import EMAIL, PASSWORD

SECURE = "https://edge.example/"


def sign_in(app: Flask, base: str, *planted: tuple[str, str]) -> Client:
    client = Client(app)
    for name, value in planted:
        client.set_cookie(name, value, domain="edge.example", secure=base == SECURE)
    client.get("/sign-in", base_url=base)
    prefix = "__Host-" if base == SECURE else ""
    form = client.get_cookie(f"{prefix}{cookies.FORM}", domain="edge.example")
    assert form
    data = {"csrf": csrf_token(form.value), "email": EMAIL, "password": PASSWORD}
    assert client.post("/sign-in", data=data, base_url=base).status_code == 303
    return client


def names(client: Client) -> set[str]:
    return {cookie.key for cookie in client._cookies.values()}  # type: ignore[union-attr]


@pytest.mark.parametrize(("base", "prefix"), [(SECURE, "__Host-"), ("http://edge.example/", "")])
def test_the_prefix_comes_with_https(app: Flask, ada: PersonRow, base: str, prefix: str) -> None:
    client = sign_in(app, base)
    assert names(client) == {f"{prefix}{name}" for name in (cookies.FORM, cookies.SESSION, cookies.KNOWN, cookies.WHO)}
    assert client.get("/account", base_url=base).status_code == 200
    assert all(cookie.path == "/" and cookie.origin_only for cookie in client._cookies.values())  # type: ignore[union-attr]


def test_a_session_that_was_planted_without_encryption_does_not_count(app: Flask, ada: PersonRow) -> None:
    plain = sign_in(app, "http://edge.example/")
    session = plain.get_cookie(cookies.SESSION, domain="edge.example")
    assert session
    victim = Client(app)
    victim.set_cookie(cookies.SESSION, session.value, domain="edge.example", secure=True)
    assert victim.get("/account", base_url=SECURE).status_code == 303


def test_the_cookie_that_names_the_person_without_encryption_is_deleted(app: Flask, ada: PersonRow) -> None:
    client = sign_in(app, SECURE, (cookies.WHO, "earlier.7.1"))
    assert {name for name in names(client) if name.endswith(cookies.WHO)} == {f"__Host-{cookies.WHO}"}


def test_a_device_enrolled_before_stays_enrolled_and_gets_the_new_name(app: Flask, ada: PersonRow, cast: Cast) -> None:
    enrolled = devices.enrol(devices.invite(shell(cast.acme), "Gun 1")[1])
    assert enrolled
    client = sign_in(app, SECURE, (cookies.DEVICE, enrolled[1]))
    renewed = client.get_cookie(f"__Host-{cookies.DEVICE}", domain="edge.example")
    assert renewed
    assert renewed.value == enrolled[1]
