"""What the account of a reader can do to the broker of a site: publish on its own topic, and nothing else."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.service import wait_for
from tests.systemd.test_mosquitto import MEMORY, OWN, Client, Running, broker

__all__ = ["broker"]  # a fixture

pytestmark = pytest.mark.mosquitto

GATE, DOCK = "site/gate/reads", "site/dock/reads"
LONG = 20.0


@pytest.fixture
def service(broker: Running) -> Iterator[Client]:
    """Return the service, which has subscribed to everything."""
    client = Client(broker.port, *OWN, "edge-secret", clean=False)
    client.subscribe()
    yield client
    client.close()


class Attacker:
    """A client with the account of the reader `dock`, in MQTT 5 unless said otherwise."""

    def __init__(self, broker: Running, protocol: int = mqtt.MQTTv5, **will: Any) -> None:
        self.received: list[str] = []
        self.reasons: list[Any] = []
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="gate", protocol=protocol)  # type: ignore[arg-type]
        self.client.username_pw_set("dock", "dock password")
        self.client.on_message = lambda _client, _data, message: self.received.append(message.topic)
        self.client.on_disconnect = lambda *given: self.reasons.append(given[3])
        self.client.on_publish = lambda *given: self.reasons.append(given[3])
        if will:
            self.client.will_set(**will)
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()

    def subscribe(self, *topics: str) -> None:
        done: list[object] = []
        self.client.on_subscribe = lambda *given: done.append(given)
        for number, topic in enumerate(topics, 1):
            self.client.subscribe(topic, options=SubscribeOptions(1, retainHandling=0, retainAsPublished=True))
            wait_for(lambda number=number: len(done) == number, LONG)  # type: ignore[misc]

    def vanish(self) -> None:
        """End the connection without a DISCONNECT, which makes the broker publish the will."""
        sock = self.client.socket()
        assert isinstance(sock, socket.socket)
        self.client.loop_stop()
        sock.close()


def topics_of(service: Client) -> set[str]:
    return {message.topic for message in service.received}


def settle(service: Client, gate: Client, number: int) -> None:
    """Wait until the broker has handled what was sent before."""
    gate.publish(f"site/gate/settled/{number}", b"1")
    wait_for(lambda: f"site/gate/settled/{number}" in topics_of(service), LONG)


def test_a_reader_receives_nothing_whatever_it_subscribes_to(broker: Running, service: Client) -> None:
    gate = Client(broker.port, "gate", "gate password")
    gate._mqtt.publish("site/gate/kept", b"kept", qos=1, retain=True)
    settle(service, gate, 1)
    attacker = Attacker(broker)
    attacker.subscribe(
        *(
            "#",
            "site/gate/#",
            GATE,
            "+/+/+",
            "/#",
            "$SYS/#",
            "$SYS/broker/clients/#",
            "edge/ping/#",
            DOCK,
            "site/dock/#",
        ),
        *(
            "$share/group/#",
            "$share/group/site/gate/#",
            "$share/group/$SYS/#",
            "$CONTROL/#",
            "$CONTROL/dynamic-security/v1",
        ),
    )
    gate.publish(GATE, b"1")
    service._mqtt.publish("edge/ping/1", b"1", qos=1)
    attacker.client.publish(DOCK, b"1", qos=1, retain=True)
    settle(service, gate, 2)
    wait_for(lambda: DOCK in topics_of(service), LONG)
    attacker.subscribe("#", DOCK, "site/gate/kept")  # with the retained ones
    settle(service, gate, 3)
    assert attacker.received == []
    assert len([one for one in service.received if one.topic == GATE]) == 1  # a shared subscription takes none away
    attacker.client.disconnect()
    attacker.client.loop_stop()
    gate.close()


@pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])
@pytest.mark.parametrize(
    "topic", [GATE, "edge/ping/1", "$SYS/broker/version", "$CONTROL/dynamic-security/v1", "site/docking"]
)
def test_a_reader_publishes_nothing_elsewhere(broker: Running, service: Client, protocol: int, topic: str) -> None:
    gate = Client(broker.port, "gate", "gate password")
    attacker = Attacker(broker, protocol)
    for retain in (False, True):
        attacker.client.publish(topic, b"forged", qos=1, retain=retain)
    settle(service, gate, 1)
    assert b"forged" not in {message.payload for message in service.received}
    attacker.client.disconnect()
    attacker.client.loop_stop()
    gate.close()


@pytest.mark.parametrize("protocol", [mqtt.MQTTv311, mqtt.MQTTv5])
def test_the_last_will_of_a_reader_reaches_no_topic_of_another_one(
    broker: Running, service: Client, protocol: int
) -> None:
    gate = Client(broker.port, "gate", "gate password")
    for number, topic in enumerate((GATE, "edge/ping/1", "site/dock/will")):
        attacker = Attacker(broker, protocol, topic=topic, payload=b"forged", qos=1, retain=True)
        wait_for(lambda attacker=attacker: attacker.client.is_connected() or attacker.reasons, LONG)  # type: ignore[misc]
        attacker.vanish()
        settle(service, gate, number)
    wait_for(lambda: "site/dock/will" in topics_of(service), LONG)  # its own works, so the others were tried
    assert {message.topic for message in service.received if message.payload == b"forged"} == {"site/dock/will"}
    gate.close()


def test_an_alias_of_a_topic_is_checked_like_the_topic(broker: Running, service: Client) -> None:
    gate = Client(broker.port, "gate", "gate password")
    attacker = Attacker(broker)
    wait_for(attacker.client.is_connected, LONG)
    for topic in (GATE, ""):
        alias = Properties(PacketTypes.PUBLISH)
        alias.TopicAlias = 1
        attacker.client.publish(topic, b"forged", qos=0, properties=alias)
    settle(service, gate, 1)
    assert b"forged" not in {message.payload for message in service.received}
    attacker.client.loop_stop()
    gate.close()


def test_a_reader_has_one_session_whatever_its_client_ids(broker: Running, service: Client) -> None:
    """Thousands of persistent sessions would take the memory of the broker."""
    counts: list[int] = []
    service._mqtt.message_callback_add("$SYS/broker/clients/total", lambda *given: counts.append(int(given[2].payload)))
    service._mqtt.subscribe("$SYS/broker/clients/total", 0)
    for number in range(50):
        with raw(broker, connect_packet("dock", "dock password", f"id-{number}", clean=False)) as connection:
            assert connection.recv(4)[:2] == b"\x20\x02"
    counts.clear()
    wait_for(lambda: bool(counts), 15)
    assert counts[-1] <= 2


def connect_packet(name: str, password: str, client_id: str, *, clean: bool) -> bytes:
    body = b"\x00\x04MQTT\x04" + bytes([0xC0 | (2 if clean else 0)]) + b"\x00\x3c"
    body += b"".join(struct.pack(">H", len(text)) + text.encode() for text in (client_id, name, password))
    return bytes([0x10, len(body)]) + body


def raw(broker: Running, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", broker.port), timeout=LONG)
    connection.sendall(data)
    return connection


def length(number: int) -> bytes:
    out = b""
    while True:
        number, low = divmod(number, 128)
        out += bytes([low | (128 if number else 0)])
        if not number:
            return out


def test_half_messages_of_quality_two_are_bounded(broker: Running, service: Client) -> None:
    """The broker keeps such a message until PUBREL, which never comes."""
    before = broker.memory()
    gate = Client(broker.port, "gate", "gate password")
    with raw(broker, connect_packet("dock", "dock password", "x", clean=False)) as connection:
        assert connection.recv(4)
        topic = struct.pack(">H", len(DOCK)) + DOCK.encode()
        try:
            for number in range(1, 400):
                body = topic + struct.pack(">H", number) + bytes(500_000)
                connection.sendall(b"\x34" + length(len(body)) + body)
        except (ConnectionError, TimeoutError):
            pass
        settle(service, gate, 1)
        assert broker.memory() - before < 1.5 * MEMORY
    gate.close()


def test_a_greeting_with_many_properties_takes_little_time(broker: Running, service: Client) -> None:
    """CVE-2021-41039: the time was quadratic, without an account."""
    gate = Client(broker.port, "gate", "gate password")
    before = processor_seconds(broker)
    for _ in range(10):
        properties = b"\x26\x00\x01a\x00\x01b" * 14_000
        body = b"\x00\x04MQTT\x05\x02\x00\x3c" + length(len(properties)) + properties + b"\x00\x01x"
        with raw(broker, b"\x10" + length(len(body)) + body) as connection:
            assert connection.recv(100)[:1] in (b"\x20", b"")  # refused
    settle(service, gate, 1)
    assert processor_seconds(broker) - before < 5
    gate.close()


def test_a_huge_greeting_is_refused_without_an_account(broker: Running, service: Client) -> None:
    before = broker.memory()
    gate = Client(broker.port, "gate", "gate password")
    connections = []
    for _ in range(50):
        connection = socket.create_connection(("127.0.0.1", broker.port), timeout=LONG)
        connections.append(connection)
        with contextlib.suppress(OSError):
            connection.sendall(b"\x10" + length(250_000_000) + bytes(1_000_000))
    settle(service, gate, 1)
    assert broker.memory() - before < MEMORY
    for connection in connections:
        connection.close()
    gate.close()


@pytest.mark.parametrize("order", range(6))
def test_odd_orders_of_packets_do_not_end_the_broker(broker: Running, service: Client, order: int) -> None:
    """CVE-2024-8376 and others: the broker crashed."""
    gate = Client(broker.port, "gate", "gate password")
    subscribe = b"\x82\x08\x00\x01\x00\x03a/#\x01"
    unsubscribe = b"\xa2\x07\x00\x02\x00\x03a/#"
    content = struct.pack(">H", len(DOCK)) + DOCK.encode() + b"\x00\x031"
    publish = b"\x32" + length(len(content)) + content
    greeting = connect_packet("dock", "dock password", "x", clean=order % 2 == 0)
    packets = [
        greeting,
        subscribe,
        unsubscribe,
        publish,
        b"\xe0\x00",
        b"\x62\x02\x00\x09",
        b"\x70\x02\x00\x09",
        greeting,
    ]
    for shift in range(len(packets)):
        turned = packets[shift:] + packets[:shift]
        chosen = turned if order < 2 else turned[::-1] if order < 4 else [*turned[::2], *turned[1::2]]
        with contextlib.suppress(OSError), raw(broker, greeting + b"".join(chosen)) as connection:
            connection.settimeout(2)
            while connection.recv(1000):
                pass
    settle(service, gate, order)
    assert service.disconnected == 0
    gate.close()


def processor_seconds(broker: Running) -> float:
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
