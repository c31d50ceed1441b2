"""Devices: enrolled by a link, and revoked."""

from __future__ import annotations

from flask import Flask

from edge.people import devices
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
