"""Events sent to a real MQTT broker."""

from __future__ import annotations

import json
import queue
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from edge.events import destinations, mqtt_session
from edge.events.delivery import Message, Outcome, Result
from edge.events.destinations import Destination, DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.events.mqtt import Broker
from edge.events.worker import EventsWorker
from edge.outbound import Network
from edge.people import secrets
from tests.events.conftest import PACE, Warehouse, make_events
from tests.mosquitto import Mosquitto, free_port
from tests.service import wait_for

pytestmark = pytest.mark.mosquitto


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "mosquitto"
    folder.mkdir()
    broker = Mosquitto(folder)
    broker.start()
    yield broker
    broker.stop()


@contextmanager
def listening(broker: Mosquitto) -> Iterator[queue.Queue[tuple[str, Any]]]:
    messages: queue.Queue[tuple[str, Any]] = queue.Queue()
    ready: queue.Queue[bool] = queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda *_: client.subscribe("site/#", 1)
    client.on_subscribe = lambda *_: ready.put(True)
    client.on_message = lambda _client, _data, message: messages.put((message.topic, json.loads(message.payload)))
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    ready.get(timeout=60)
    yield messages
    client.disconnect()
    client.loop_stop()


def add_broker(warehouse: Warehouse, url: str) -> Destination:
    new = NewDestination(
        DestinationKind.MQTT,
        "Plant",
        url,
        secrets.seal(""),
        Filter(frozenset(KINDS)),
        Network.LOOPBACK,
        "site/{type}/{asset}/{location}",
    )
    return destinations.add(warehouse.actor, new)


def sent_to(url: str, password: str = "", topic: str = "site/x", network: Network = Network.LOOPBACK) -> Outcome:
    with closing(Broker(url, password, topic, network, ssl.create_default_context(), "edge-test")) as broker:
        return broker.send(Message("evt_1_aa", "asset.moved", {}, b"{}"))


def test_events_arrive_in_order_after_a_broker_outage(warehouse: Warehouse, mosquitto: Mosquitto) -> None:
    pallet = warehouse.add_asset("P-1")
    make_events()
    row = add_broker(warehouse, mosquitto.url)
    worker = EventsWorker(PACE)
    worker.start()
    try:
        with listening(mosquitto) as messages:
            warehouse.seen(pallet, "north dock", 1)
            topic, event = messages.get(timeout=60)
            assert topic == "site/asset.arrived/P-1/DOCK-NORTH"
            assert event["data"]["asset"]["external_key"] == "P-1"
        mosquitto.stop()
        warehouse.seen(pallet, "south dock", 10)
        warehouse.seen(pallet, "north dock", 20)
        wait_for(lambda: warehouse.again(row).failures)
        mosquitto.start()
        with listening(mosquitto) as messages:
            destinations.enable(warehouse.actor, row.no)  # retry immediately
            received = [messages.get(timeout=60)[0] for _ in range(2)]
        assert received == ["site/asset.moved/P-1/DOCK-SOUTH", "site/asset.moved/P-1/DOCK-NORTH"]
    finally:
        worker.stop()
    wait_for(lambda: warehouse.again(row).delivered == 3)


def test_a_message_refused_by_the_broker_is_reported(tmp_path: Path) -> None:
    acl = tmp_path / "acl"
    acl.write_text("topic write site/open/#\n")
    acl.chmod(0o600)
    broker = Mosquitto(tmp_path, f"acl_file {acl}\n")
    broker.start()
    try:
        assert sent_to(broker.url, topic="site/open/a").result is Result.DELIVERED
        assert sent_to(broker.url, topic="site/shut/a") == (
            Result.REFUSED,
            "the broker refused the event: Not authorized",
            0,
        )
    finally:
        broker.stop()


def test_a_wrong_password_is_reported(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path, "allow_anonymous false\n")
    broker.start()
    try:
        outcome = sent_to(broker.url.replace("127", "edge@127"), "wrong")
    finally:
        broker.stop()
    assert outcome == (Result.FAILED, "the broker refused the connection: Not authorized", 0)


def test_an_unreachable_and_a_forbidden_address_are_reported(mosquitto: Mosquitto) -> None:
    nobody = sent_to(f"mqtt://127.0.0.1:{free_port()}")
    assert nobody == (Result.FAILED, "the broker cannot be reached: Connection refused", 0)
    refused = sent_to(mosquitto.url, network=Network.PRIVATE)
    assert refused.result is Result.FAILED
    assert "allowed only for destinations added in its shell" in refused.detail


def test_only_the_sender_decides_when_to_connect_again() -> None:
    """It connects anew, with the address checked again, when an event is due."""
    client = mqtt_session.make_client(mqtt_session.Client, mqtt_session.Address("mqtt://127.0.0.1"))
    assert not client._reconnect_on_failure
