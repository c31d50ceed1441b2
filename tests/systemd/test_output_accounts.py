"""Permissions of outputs at a real mosquitto: only edge switches a device, and a device reads its commands only."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.audit.actors import shell
from edge.events.delivery import Result
from edge.events.mqtt import OutputCommands
from edge.ingest.sessions import Broker
from edge.people.organizations import list_organizations
from edge.readers.broker_files import outputs_name, url_of, write_files
from edge.rules.outputs import forms, outputs
from tests.service import wait_for
from tests.systemd.test_mosquitto import OWN, Client, Running, broker

__all__ = ["broker"]

pytestmark = pytest.mark.mosquitto
LAMP = {"form": "topic", "device": "hall/lamp", "on_payload": "on", "off_payload": "off", "seconds": "10"}


@pytest.fixture
def password(site: Path) -> str:
    """Add a lamp before the broker starts. Returns the password of the device."""
    actor = shell(list_organizations()[0].id)
    row = outputs.add(actor, "Lamp", forms.checked(LAMP))
    account, password = outputs.issue_account(actor, row.no, "mqtt://edge@localhost")
    assert account == f"output-{row.no}"
    write_files(site / "broker", OWN)
    return password


def test_only_edge_switches_a_device(password: str, broker: Running) -> None:
    own = Broker(url_of(outputs_name, f"mqtt://edge@127.0.0.1:{broker.port}"), "edge-outputs", OWN.password)
    commands = OutputCommands(own.address)
    lamp, service = Client(broker.port, "output-1", password), Client(broker.port, *OWN, "edge", clean=False)
    dock = Client(broker.port, "dock", "dock password")
    for client in (lamp, service):
        client.subscribe()
    for rogue in (dock, lamp, service):
        rogue.publish("hall/lamp", b"rogue")
    lamp.publish("site/dock/reads", b"rogue")
    wait_for(lambda: dock.acknowledged + lamp.acknowledged + service.acknowledged == 4, 10)
    assert commands.send("hall/lamp", "on").result is Result.DELIVERED
    dock.publish("site/dock/reads", b"1")
    wait_for(lambda: bool(lamp.received and service.received), 10)
    assert [message.payload for message in lamp.received] == [b"on"]
    assert [message.payload for message in service.received] == [b"1"], "edge does not read its own commands"
    for topic in ("hall/other", "site/dock/reads", "edge/doctor"):
        outcome = commands.send(topic, "x")
        assert (outcome.result, "Not authorized" in outcome.detail) == (Result.REFUSED, True)
    commands.close()
    for client in (lamp, service, dock):
        client.close()
