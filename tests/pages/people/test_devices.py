"""Devices: enrolled by a link, and revoked."""

from __future__ import annotations

import re

import pytest
from flask import Flask

from edge.audit import quotas
from edge.pages.people import devices as pages
from edge.people import devices
from tests.application import change
from tests.conftest import Cast
from tests.pages.conftest import Browser


def test_a_device_is_enrolled_by_its_link_and_revoked(app: Flask, admin: Browser, cast: Cast) -> None:
    page = admin.post("/devices", {"name": "Scanner 3"}).text
    link = page.split('<output id="link">')[1].split("<")[0]
    path = link.removeprefix("http://localhost")
    handheld = Browser(app)
    assert "Is this Scanner 3?" in handheld.get(path).text
    assert "Is this Scanner 3?" in handheld.get(path).text  # link previews do not use up the code
    cookie = handheld.client.get_cookie("edge_form")
    assert cookie
    handheld.token = cookie.value
    assert handheld.post(path).location == "/sign-in?next=/scan"
    assert "Scan your badge" in handheld.get("/sign-in").text
    assert Browser(app).get(path).status_code == 404
    row = devices.list_devices(cast.acme)[0]
    assert admin.post(f"/devices/{row.id}/revoke").status_code == 303
    assert "Scan your badge" not in handheld.get("/sign-in").text


def test_a_device_that_cannot_resolve_the_name_gets_the_address_in_numbers(
    app: Flask, admin: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Android before version 12 resolves no names with .local."""
    change(app, http_public_url="https://hall7.local")
    monkeypatch.setattr(pages, "in_numbers", lambda url: url.replace("hall7.local", "192.168.4.20"))
    shown = admin.post("/devices", {"name": "Gun 1"}).text
    links = re.findall(r"<output id=\"link\d*\">(\S+)</output>", shown)
    assert [link.partition("/enrol/")[0] for link in links] == ["https://hall7.local", "https://192.168.4.20"]
    assert shown.count("<svg") >= 2
    monkeypatch.setattr(pages, "in_numbers", lambda _: None)
    assert admin.post("/devices", {"name": "Gun 2"}).text.count("<output") == 1


def test_too_many_devices_are_refused_with_a_reason(admin: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(quotas.CAPS, "device", quotas.CAPS["device"]._replace(limit=1))
    assert admin.post("/devices", {"name": "Gun 1"}).status_code == 200
    refused = admin.post("/devices", {"name": "Gun 2"})
    assert refused.status_code == 409
    assert "At most 1 are allowed (device); revoke one first." in refused.text
