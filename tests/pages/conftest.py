"""Fixtures: a small site with one person of each role, and browsers signed in as them."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import NamedTuple

import pytest
from flask import Flask
from werkzeug.test import Client, TestResponse

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.pages.cookies import DEVICE as DEVICE_COOKIE
from edge.pages.cookies import SESSION as SESSION_COOKIE
from edge.people import passwords, people, sessions
from edge.people import sign_in as web_sessions
from edge.people.people import PersonRow, Role
from edge.people.secrets import hash_secret
from edge.people.sign_in import csrf_token
from edge.readers import unassigned_topics
from edge.readers.unassigned_topics import Unassigned
from edge.records import assets, locations
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import NewTag
from edge.tracking import positions
from edge.tracking.stays import Quality, Scan
from tests.application import change, shared_app
from tests.conftest import Cast

GAP = 300 * clock.SECOND
EMAIL, PASSWORD = "ada@acme.example", "correct horse battery"


def see(organization_id: int, asset_id: int, location_id: int, at: int) -> None:
    """Record a scan by hand at the location."""
    positions.record([Scan(organization_id, asset_id, location_id, None, None, at, at, Quality.HANDHELD)], GAP)


def hear(topic: str) -> None:
    """Record a message on an unassigned topic."""
    unassigned_topics.record([Unassigned(topic, clock.now(), b"{}")])


def opened_with(form: str) -> str:
    """Return the hidden original values of a form, which a browser sends along."""
    return unescape(form.split('name="opened" value="')[1].split('"')[0])


class Site(NamedTuple):
    """A site: `hall` contains `dock` and `rack`; `pallet` has a barcode, `cage` an RFID tag; no scans yet."""

    hall: LocationRow
    dock: LocationRow
    rack: LocationRow
    pallet: AssetRow
    cage: AssetRow


class Browser:
    """A client with a session that sends the CSRF token with its forms."""

    def __init__(self, app: Flask, token: str = "") -> None:
        self.client = Client(app)
        self.token = token
        if token:
            self.client.set_cookie(SESSION_COOKIE, token)

    def get(self, path: str, **options: object) -> TestResponse:
        return self.client.get(path, **{"buffered": True, **options})  # read completely, as a browser does

    def post(self, path: str, data: dict[str, object] | None = None) -> TestResponse:
        return self.client.post(path, data={"csrf": csrf_token(self.token), **(data or {})})

    def edit(self, path: str, data: dict[str, object]) -> TestResponse:
        """Open a form and send it with its original values, updated by `values`."""
        return self.post(path, {"opened": opened_with(self.get(path).text), **data})

    def send(self, path: str, body: object) -> TestResponse:
        return self.client.post(path, json=body, headers={"X-CSRF-Token": csrf_token(self.token)})

    def carry(self, device_token: str) -> None:
        self.client.set_cookie(DEVICE_COOKIE, device_token)


SignIn = Callable[..., Browser]


@pytest.fixture
def app(cast: Cast) -> Flask:
    return shared_app()


@pytest.fixture
def site(cast: Cast) -> Site:
    hall = locations.create(shell(cast.acme), name="Hall 1", external_key="HALL-1")
    return Site(
        hall,
        locations.create(shell(cast.acme), name="Dock 1", external_key="DOCK-1", parent_id=hall.id),
        locations.create(shell(cast.acme), name="Rack A", external_key="RACK-A", parent_id=hall.id),
        assets.create(shell(cast.acme), name="Pallet 1", tags=[NewTag("barcode", "4006381333931")]),
        assets.create(shell(cast.acme), name="Roll cage", tags=[NewTag("rfid", "E28011700000020A7B2C3D4E")]),
    )


@pytest.fixture
def sign_in_as(app: Flask, cast: Cast) -> SignIn:
    """Return a browser signed in as a new person with the role."""

    def sign_in(role: Role, *, organization_id: int = cast.acme, device_id: int | None = None) -> Browser:
        number = len(people.list_people(organization_id)) + 1
        person = people.add_person(shell(organization_id), f"{role} {number}", role)
        token = f"{role}-{organization_id}-{number}"
        sessions.add_session(
            actors.person(organization_id, person.id, person.name, device_id),
            hash_secret(token),
            clock.now() + clock.HOUR,
        )
        return Browser(app, token)

    return sign_in


@pytest.fixture
def admin(sign_in_as: SignIn) -> Browser:
    return sign_in_as(Role.ADMINISTRATOR)


@pytest.fixture
def requeued(app: Flask) -> list[tuple[int, str, bytes, int]]:
    """Let ingest accept requeued dead letters and return the list of those received."""
    messages: list[tuple[int, str, bytes, int]] = []
    change(app, requeue=lambda *message: messages.append(message))
    return messages


@pytest.fixture
def anybody(app: Flask) -> Browser:
    return Browser(app)


@pytest.fixture
def quick_and_forgiving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace scrypt by a fast hash and reset the limits of wrong attempts."""
    monkeypatch.setattr(passwords, "generate_password_hash", lambda text: f"hash of {text}")
    monkeypatch.setattr(passwords, "generate_password_hash", lambda text: f"hash of {text}")
    monkeypatch.setattr(passwords, "check_password_hash", lambda stored, text: stored == f"hash of {text}")
    for throttle in (
        web_sessions._by_account,
        web_sessions._by_account_anywhere,
        web_sessions._by_client,
        web_sessions._pins_of_device,
        web_sessions._sign_ins_of_device,
    ):
        throttle.clear()


@pytest.fixture
def ada(cast: Cast, quick_and_forgiving: None) -> PersonRow:
    hashed = passwords.hash_password(PASSWORD)
    return people.add_person(shell(cast.acme), "Ada", Role.ADMINISTRATOR, email=EMAIL, password_hash=hashed)
