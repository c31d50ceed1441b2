"""Setup, Channels: administrators add, test and change the channels of their organization."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.events.family import Destination
from edge.outbound import Network
from edge.people import secrets
from edge.people.people import Role
from edge.rules.channels import channels
from edge.rules.channels.channels import Schedule, schedule_of
from tests.audit.stage import CHANNEL
from tests.conftest import Cast
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]
EMAIL = {
    "kind": "email",
    "name": "Shift lead",
    "recipients": "lead@example.com; night@example.com",
    "sender": "edge@example.com",
    "host": "mail.example.com",
    "port": "",
    "security": "starttls",
    "user": "edge",
    "password": "correct horse",
    "digest": "15",
    "quiet_from": "22:00",
    "quiet_until": "06:00",
    "is_sent_when_over": "on",
}


def only(cast: Cast) -> Destination:
    (row,) = channels.list_channels(cast.acme)
    return row


def test_a_channel_is_added_and_its_password_is_never_shown(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert browser.post("/channels/new", EMAIL).status_code == 303
    row = only(cast)
    assert row.settings["recipients"] == ["lead@example.com", "night@example.com"]
    assert (row.settings["port"], row.network, schedule_of(row)) == (587, Network.INTERNET, Schedule(900, 1320, 360))
    assert secrets.unseal(row.secret) == "correct horse"
    for path in ("/channels", f"/channels/{row.no}", f"/channels/{row.no}/edit", "/audit"):
        shown = browser.get(path).text
        assert "Shift lead" in shown
        assert "correct horse" not in shown
    assert "correct horse" not in str(execute("SELECT * FROM channel").fetchall())
    assert "correct horse" not in str(execute("SELECT * FROM audit").fetchall())


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"recipients": ""},
        {"recipients": "lead"},
        {"recipients": "lead@example.com\r\nBcc:x@example.com"},
        {"recipients": ", ".join(f"lead{n}@example.com" for n in range(21))},
        {"sender": "edge@example.com\r\nBcc: x@example.com"},
        {"host": "mail.example.com/x"},
        {"host": ""},
        {"port": "70000"},
        {"port": "x"},
        {"security": "some"},
        {"security": "none"},  # with a password
        {"security": "none", "user": "", "password": ""},  # on the internet
        {"password": ""},
        {"password": "x" * 201},
        {"digest": "-1"},
        {"digest": "1441"},
        {"quiet_from": "25:00"},
        {"quiet_from": ""},
        {"quiet_from": "06:00"},
    ],
)
def test_what_is_wrong_is_marked(sign_in_as: SignIn, cast: Cast, wrong: dict[str, str]) -> None:
    answer = sign_in_as(Role.ADMINISTRATOR).post("/channels/new", {**EMAIL, **wrong})
    assert answer.status_code == 400
    assert 'class="error"' in answer.text
    assert channels.list_channels(cast.acme) == []


def test_a_password_is_kept_for_the_same_server_only(sign_in_as: SignIn, cast: Cast) -> None:
    """Otherwise an administrator could have it sent to a server of their own."""
    browser = sign_in_as(Role.ADMINISTRATOR)
    browser.post("/channels/new", EMAIL)
    path = f"/channels/{only(cast).no}/edit"
    assert browser.post(path, {**EMAIL, "password": "", "name": "Night shift"}).status_code == 303
    assert (only(cast).name, secrets.unseal(only(cast).secret)) == ("Night shift", "correct horse")
    answer = browser.post(path, {**EMAIL, "password": "", "host": "mail.example.net"})
    assert answer.status_code == 400
    assert "enter the password of the user" in answer.text
    assert browser.post(path, {**EMAIL, "password": "", "user": ""}).status_code == 303
    assert only(cast).secret == b""


def test_permission_for_this_box_is_kept_for_the_same_port_only(sign_in_as: SignIn, cast: Cast) -> None:
    """Otherwise, an administrator could reach any service of the box."""
    settings = {
        "host": "127.0.0.1",
        "port": 25,
        "security": "none",
        "user": "",
        "sender": "edge@example.com",
        "recipients": ["lead@example.com"],
    }
    new = CHANNEL._replace(settings=settings, network=Network.LOOPBACK)
    no = channels.add(shell(cast.acme), new).no
    browser, path = sign_in_as(Role.ADMINISTRATOR), f"/channels/{no}/edit"
    form = {**EMAIL, "host": "127.0.0.1", "port": "25", "security": "none", "user": "", "password": "", "private": "on"}
    assert browser.post(path, form).status_code == 303
    assert only(cast).network is Network.LOOPBACK
    assert browser.post(path, {**form, "port": "6379"}).status_code == 400
    assert only(cast).settings["port"] == 25


def test_the_address_of_a_webhook_of_another_box_must_be_entered(sign_in_as: SignIn, cast: Cast) -> None:
    settings = {"form": "slack", "host": "hooks.slack.com"}
    row = channels.add(shell(cast.acme), CHANNEL._replace(kind="webhook", settings=settings))
    answer = sign_in_as(Role.ADMINISTRATOR).post(f"/channels/{row.no}/edit", {**SLACK, "url": ""})
    assert (answer.status_code, 'id="url-error"' in answer.text) == (400, True)


def test_hostile_texts_are_escaped(sign_in_as: SignIn, cast: Cast) -> None:
    row = channels.add(shell(cast.acme), CHANNEL._replace(name="<script>alert(1)</script>"))
    execute("UPDATE destination SET failing_since = 1, last_error = '<img src=x>' WHERE no = ?", (row.no,))
    browser = sign_in_as(Role.ADMINISTRATOR)
    for path in ("/channels", f"/channels/{row.no}"):
        shown = browser.get(path).text
        assert "<script>alert" not in shown
        assert "<img src=x>" not in shown


NTFY: dict[str, object] = {
    "kind": "ntfy",
    "name": "Phones",
    "url": "https://ntfy.sh/dock-alerts",
    "token": "tk_secret",
    "digest": "0",
}
SLACK: dict[str, object] = {
    "kind": "webhook",
    "name": "Slack",
    "form": "slack",
    "digest": "0",
    "url": "https://hooks.slack.com/services/T0/B0/SECRETKEY",
}


def test_the_token_of_ntfy_is_kept_for_the_same_topic_only(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert browser.post("/channels/new", NTFY).status_code == 303
    path = f"/channels/{only(cast).no}"
    assert "tk_secret" not in browser.get(path).text + browser.get(f"{path}/edit").text
    browser.post(f"{path}/edit", {**NTFY, "token": "", "name": "All phones"})
    assert (only(cast).name, secrets.unseal(only(cast).secret)) == ("All phones", "tk_secret")
    browser.post(f"{path}/edit", {**NTFY, "token": "", "url": "https://ntfy.example.net/dock-alerts"})
    assert only(cast).secret == b""


def test_the_address_of_a_webhook_is_stored_like_a_password(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert browser.post("/channels/new", SLACK).status_code == 303
    row = only(cast)
    assert secrets.unseal(row.secret) == SLACK["url"]
    for path in ("/channels", f"/channels/{row.no}", f"/channels/{row.no}/edit", "/audit"):
        assert "SECRETKEY" not in browser.get(path).text
    assert "hooks.slack.com" in browser.get(f"/channels/{row.no}").text
    assert browser.post(f"/channels/{row.no}/edit", {**SLACK, "url": "", "form": "json"}).status_code == 303
    assert (only(cast).settings["form"], secrets.unseal(only(cast).secret)) == ("json", SLACK["url"])


@pytest.mark.parametrize(
    "wrong",
    [
        {**NTFY, "url": "https://ntfy.sh/"},
        {**NTFY, "url": "https://ntfy.sh/a/b?c=d"},
        {**NTFY, "url": "http://ntfy.sh/dock"},
        {**NTFY, "token": "ü"},
        {**SLACK, "url": ""},
        {**SLACK, "url": "http://hooks.slack.com/x"},
        {**SLACK, "form": "fax"},
        {**SLACK, "url": "https://hooks.slack.com/" + "x" * 1000},
    ],
)
def test_a_wrong_address_is_marked(sign_in_as: SignIn, cast: Cast, wrong: dict[str, object]) -> None:
    answer = sign_in_as(Role.ADMINISTRATOR).post("/channels/new", wrong)
    assert answer.status_code == 400
    assert 'class="error"' in answer.text
    assert channels.list_channels(cast.acme) == []


def test_a_channel_with_few_settings_is_shown(sign_in_as: SignIn, cast: Cast) -> None:
    row = channels.add(shell(cast.acme), CHANNEL)
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert "mail.example.com:" in browser.get(f"/channels/{row.no}").text
    assert browser.get("/channels").status_code == 200
