"""Setup, Events: administrators of the organization add and monitor destinations."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from edge.database.connection import execute
from edge.events import destinations, detection
from edge.events.destinations import EPCIS_KINDS, Destination
from edge.events.log import KINDS
from edge.outbound import Network
from edge.people import secrets
from edge.people.people import Role
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]
WEBHOOK = {"kind": "webhook", "name": "ERP", "url": "https://erp.example/hook", "events": ["asset.moved"]}
MQTT = {
    "kind": "mqtt",
    "name": "Plant",
    "url": "mqtts://edge@broker.example",
    "password": "broker-word",
    "topic": "edge/{type}/{asset}",
    "events": ["asset.moved", "asset.unseen"],
}


def only(cast: Cast) -> Destination:
    (row,) = destinations.list_destinations(cast.acme)
    return row


def test_the_secret_of_a_webhook_is_shown_once_and_stored_encrypted(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    page = browser.post("/event-destinations/new", {**WEBHOOK, "location_id": site.hall.id})
    match = re.search(r"whsec_[A-Za-z0-9+/=]+", page.text)
    assert match
    row = only(cast)
    assert detection.is_running(), "what happens before the service looks for destinations is logged, too"
    assert secrets.unseal(row.secret) == match[0]
    assert (row.network, row.settings["location_id"]) == (Network.INTERNET, site.hall.id)
    for path in ("/event-destinations", f"/event-destinations/{row.no}", "/audit"):
        shown = browser.get(path).text
        assert "ERP" in shown
        assert match[0] not in shown
    stored = b"".join(bytes(str(row), "utf-8") for row in execute("SELECT * FROM destination"))
    assert match[0].encode() not in stored
    assert match[0] not in str(execute("SELECT * FROM audit").fetchall())


def test_a_webhook_of_epcis_takes_only_the_events_that_have_one(sign_in_as: SignIn, cast: Cast) -> None:
    page = sign_in_as(Role.ADMINISTRATOR)
    form = {"kind": "webhook", "name": "Partner", "url": "https://partner.example.com/epcis", "epcis": "on"}
    refused = page.post("/event-destinations/new", form | {"events": ["asset.unseen"]})
    assert (refused.status_code, destinations.list_destinations(cast.acme)) == (400, [])
    assert page.post("/event-destinations/new", form | {"events": list(KINDS)}).status_code == 200
    [row] = destinations.list_destinations(cast.acme)
    assert (destinations.is_epcis(row), set(destinations.event_kinds(row))) == (True, EPCIS_KINDS)
    assert "EPCIS 2.0" in page.get(f"/event-destinations/{row.no}").text


def test_a_broker_has_a_topic_and_a_password_that_is_not_shown(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert browser.post("/event-destinations/new", MQTT).status_code == 303
    row = only(cast)
    assert (secrets.unseal(row.secret), row.topic) == ("broker-word", "edge/{type}/{asset}")
    assert "broker-word" not in browser.get(f"/event-destinations/{row.no}").text


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://erp.example/hook"},
        {"url": "ftp://erp.example/hook"},
        {"url": "https://user:word@erp.example/"},
        {"url": "https://erp.example:99999/"},
        {"url": "https://erp.example/ü"},
        {"url": ""},
        {"name": ""},
        {"events": []},
        {"events": ["asset.exploded"]},
        {"location_id": "7"},
        {"location_id": "seven"},
        {**MQTT, "topic": "edge/#"},
        {**MQTT, "topic": "edge/{secret}"},
        {**MQTT, "url": "mqtt://broker.example"},
        {**MQTT, "url": "mqtts://edge:word@broker.example"},
        {**MQTT, "url": "mqtts://broker.example/topic"},
        {**MQTT, "url": "mqtts://broker.example?qos=1"},
    ],
)
def test_errors_are_shown_at_their_field(sign_in_as: SignIn, cast: Cast, site: Site, wrong: dict[str, object]) -> None:
    """The organization has locations, but not those of the request."""
    answer = sign_in_as(Role.ADMINISTRATOR).post("/event-destinations/new", {**WEBHOOK, **wrong})
    assert answer.status_code == 400
    assert "Fix the marked fields" in answer.text
    assert destinations.list_destinations(cast.acme) == []


def test_destinations_in_the_local_network_need_no_encryption(sign_in_as: SignIn, cast: Cast) -> None:
    entered = {**WEBHOOK, "url": "http://erp.lan/hook", "private": "on"}
    assert sign_in_as(Role.ADMINISTRATOR).post("/event-destinations/new", entered).status_code == 200
    assert only(cast).network is Network.PRIVATE


def test_a_new_secret_replaces_the_old_one(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    browser.post("/event-destinations/new", WEBHOOK)
    row = only(cast)
    assert "whsec_" in browser.post(f"/event-destinations/{row.no}/secret").text
    assert only(cast).secret != row.secret


def test_a_disabled_destination_is_not_tested(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    browser.post("/event-destinations/new", WEBHOOK)
    path = f"/event-destinations/{only(cast).no}"
    browser.post(f"{path}/disable")
    assert browser.post(f"{path}/test").status_code == 409
