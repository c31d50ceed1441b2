"""The service switches an output by a read, and switches it off after it was killed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge.audit.actors import shell
from edge.database.connection import close_database
from edge.people.organizations import add_organization
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.rules import rules
from edge.rules.conditions import Condition
from edge.rules.outputs import forms, outputs
from edge.rules.rules import RuleFields
from tests.mosquitto import Mosquitto, mosquitto
from tests.operations.conftest import fresh_site
from tests.service import Service, wait_for

pytestmark = pytest.mark.mosquitto
LAMP = {"form": "topic", "device": "hall/lamp", "on_payload": "on", "off_payload": "off", "seconds": "5"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with fresh_site(tmp_path / "data") as folder:
        yield folder


class Lamp:
    """Notes its commands with the time."""

    def __init__(self, port: int) -> None:
        self.commands: list[str] = []
        self.times: list[float] = []
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._note
        self._client.on_connect = lambda client, *_: client.subscribe("hall/lamp", 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _note(self, _client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        self.times.append(time.monotonic())
        self.commands.append(message.payload.decode())

    def publish(self, tag: str) -> None:
        self._client.publish("dock", json.dumps({"reads": [{"tag": tag}]}), qos=1)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def set_up() -> None:
    actor = shell(add_organization(shell(), "Acme").id)
    dock = locations.create(actor, name="Dock")
    assets.create(actor, name="Tool", tags=[NewTag("rfid", "30AA0")])
    readers.add_reader(actor, name="Dock", topic="dock", format="edge", location_id=dock.id)
    lamp = outputs.add(actor, "Lamp", forms.checked(LAMP))
    rules.add_rule(actor, RuleFields("Tool", Condition.ENTERS, location_id=dock.id, outputs=str(lamp.no)))
    close_database()


def test_a_read_switches_the_lamp_and_a_kill_does_not_leave_it_on(site: Path, tmp_path: Path) -> None:
    set_up()
    (tmp_path / "broker").mkdir()
    with mosquitto(tmp_path / "broker") as broker, Service(site, broker.url) as service:
        _check(broker, service)


def _check(broker: Mosquitto, service: Service) -> None:
    lamp = Lamp(broker.port)
    service.start()
    service.wait_until_connected()
    wait_for(lambda: lamp.commands == ["off"], 20, service.read_log)
    wait_for(lambda: service.has_logged("event logging started"), 20, service.read_log)
    time.sleep(1)  # the rule counts from its first evaluation
    lamp.publish("30AA0")
    wait_for(lambda: lamp.commands == ["off", "on"], 20, service.read_log)
    service.kill()
    time.sleep(5)
    service.start()
    wait_for(lambda: lamp.commands == ["off", "on", "off"], 30, service.read_log)
    service.stop()
    lamp.close()
    assert lamp.commands == ["off", "on", "off"], "edge does not record its own commands"
