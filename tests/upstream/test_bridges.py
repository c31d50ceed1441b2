"""The bridge by which mosquitto sends messages of readers to another broker."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.audit.actors import Actor, shell
from edge.errors import Invalid
from edge.ingest import broker_probe
from edge.ingest.sessions import Broker
from edge.readers import readers
from edge.upstream import bridges
from edge.upstream.bridges import Bridge, Credentials
from tests.conftest import Cast
from tests.mosquitto import Mosquitto, mosquitto
from tests.sync import tls

URL = "mqtts://broker.example.com"


@pytest.fixture
def actor(cast: Cast) -> Actor:
    actor = shell(cast.acme)
    readers.add_reader(actor, name="Portal", topic="portal/1", format="edge", status_topic="portal/1/status")
    readers.add_reader(actor, name="Gates", topic="gates/+/reads", format="edge")
    return actor


def test_the_configuration(actor: Actor, cast: Cast) -> None:
    row = bridges.write(actor, URL)
    text = bridges.configuration(row, Credentials("acme", "pass word"), None)
    lines = text.splitlines()
    assert lines[1] == f"connection edge-upstream-{cast.acme}"
    for line in (
        "address broker.example.com:8883",
        f"remote_clientid {row.client_id}",
        "remote_username acme",
        "remote_password pass word",
        "bridge_capath /etc/ssl/certs",
        "cleansession false",
        "topic gates/+/reads out 1",
        "topic portal/1 out 1",
        "topic portal/1/status out 1",
    ):
        assert line in lines
    assert "bridge_cafile /ca.pem" in bridges.configuration(row, None, Path("/ca.pem")).splitlines()
    assert "in 1" not in text


def test_topics_are_those_of_the_organization(actor: Actor, cast: Cast) -> None:
    rival = shell(cast.rival)
    prefix = "rival"
    readers.add_reader(rival, name="Theirs", topic=f"{prefix}/1", format="edge")
    row = bridges.write(actor, URL)
    assert row.topics == ("gates/+/reads", "portal/1", "portal/1/status")
    readers.add_reader(actor, name="New", topic="new/1", format="edge")
    assert bridges.missing_topics(row) == ["new/1"]
    readers.add_reader(actor, name="Spaces", topic="dock 1/reads", format="edge")
    assert bridges.topics_of(cast.acme)[1] == ["dock 1/reads"]
    bridges.remove(actor)
    assert bridges.all_bridges() == []


@pytest.mark.parametrize(
    ("url", "is_insecure", "is_allowed"),
    [
        ("mqtts://broker.example.com:8884", False, True),
        ("mqtt://broker.example.com", False, False),
        ("mqtt://broker.example.com", True, False),
        ("mqtt://127.0.0.1:1884", False, False),
        ("mqtt://127.0.0.1:1884", True, True),
        ("mqtts://user@broker.example.com", False, False),
        ("mqtts://broker.example.com/x", False, False),
        ("mqtts://broker.example.com\nlistener 1", False, False),
    ],
)
def test_addresses(url: str, is_insecure: bool, is_allowed: bool) -> None:
    if is_allowed:
        assert bridges.check_url(url, is_insecure=is_insecure) == url
    else:
        with pytest.raises(Invalid):
            bridges.check_url(url, is_insecure=is_insecure)


@pytest.mark.parametrize("password", ["", "x\nlistener 1", " x", "x" * 256])
def test_a_password_that_is_no_line(password: str) -> None:
    with pytest.raises(Invalid):
        bridges.check_credentials(Credentials("acme", password))


ACL = "topic write portal/#\ntopic read $SYS/#\n"  # nobody may read messages, but the bridge does


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "remote"
    folder.mkdir()
    made = tls.make(tmp_path / "tls")
    with mosquitto(folder, tls=(made.file, made.key)) as broker:
        yield broker


def receive(broker: Mosquitto, authority: Path, *options: str) -> list[str]:
    """Subscribe with a session that stays, and return the lines of messages.

    The broker repeats a message whose acknowledgement it did not see before the subscriber left.
    """
    command = ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(broker.port), "--cafile", str(authority)]
    session = ["-c", "-i", "checker", "-q", "1", "-t", "#", "-v"]
    done = subprocess.run([*command, *session, *options], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def state_of(local: Mosquitto, row: Bridge) -> str | None:
    return broker_probe.ask(Broker(local.url, ""), [row.state_topic]).get(row.state_topic)


def wait_for_state(local: Mosquitto, row: Bridge, state: str) -> None:
    deadline = time.monotonic() + 60
    while state_of(local, row) != state:
        assert time.monotonic() < deadline, f"the bridge is {state_of(local, row)}"


@pytest.mark.mosquitto
def test_messages_reach_the_other_broker_after_an_outage(tmp_path: Path, actor: Actor, remote: Mosquitto) -> None:
    """With TLS, against the ACL of the broker, and over a restart of the broker while the other is away."""
    authority = tmp_path / "tls" / "ca.crt"
    row = bridges.write(actor, remote.url)
    (tmp_path / "acl").write_text(ACL)
    folder = tmp_path / "local"
    folder.mkdir()
    settings = f"acl_file {tmp_path / 'acl'}\n{bridges.configuration(row, None, authority)}"
    assert receive(remote, authority, "-E") == []
    with mosquitto(folder, settings.replace("restart_timeout 5 300", "restart_timeout 1")) as local:
        wait_for_state(local, row, "1")
        local.publish("portal/1", [b"one"])
        assert receive(remote, authority, "-C", "1") == ["portal/1 one"]
        remote.stop()
        wait_for_state(local, row, "0")
        local.publish("portal/1", [b"two"])
        local.publish("portal/other", [b"not of a reader"])
        local.stop()
        local.start()
        local.publish("portal/1", [b"three"])
        remote.start()
        received = ["portal/1 one"]
        while received[-1] != "portal/1 three":
            received += receive(remote, authority, "-C", "1")
        assert list(dict.fromkeys(received)) == ["portal/1 one", "portal/1 two", "portal/1 three"]
        wait_for_state(local, row, "1")


@pytest.mark.mosquitto
def test_the_broker_starts_with_a_wrong_authority(tmp_path: Path, actor: Actor, remote: Mosquitto) -> None:
    """The bridge is then not connected, and readers are served."""
    other = tls.make(tmp_path / "other")
    row = bridges.write(actor, remote.url)
    folder = tmp_path / "local"
    folder.mkdir()
    with mosquitto(folder, bridges.configuration(row, None, other.authority)) as local:
        local.publish("portal/1", [b"one"])
        assert state_of(local, row) == "0"
