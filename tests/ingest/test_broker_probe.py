import gc
import socket
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge.errors import Unavailable
from edge.events.mqtt_session import Client
from edge.ingest import broker_probe
from edge.ingest.sessions import Broker
from tests.mosquitto import Mosquitto, mosquitto
from tests.service import wait_for

pytestmark = pytest.mark.mosquitto


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """Start a mosquitto that also listens on a Unix socket."""
    with mosquitto(tmp_path, f"sys_interval 1\nlistener 0 {tmp_path}/socket\n") as running:
        wait_for(lambda: listens(tmp_path / "socket"), 20)
        yield running


def listens(path: Path) -> bool:
    """mosquitto opens this listener after the one that `mosquitto` waits for."""
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.connect(str(path))
        return True
    return False


def test_ask_returns_status_topics_of_the_broker(broker: Mosquitto) -> None:
    assert "mosquitto" in broker_probe.ask(Broker(broker.url, ""), ["$SYS/broker/version"])["$SYS/broker/version"]


def test_a_visit_leaves_no_socket_open(broker: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[weakref.ref[mqtt.Client]] = []

    class Visitor(Client):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            clients.append(weakref.ref(self))

    monkeypatch.setattr(broker_probe, "Client", Visitor)
    gc.disable()
    try:
        broker_probe.ask(Broker(broker.url, ""), ["$SYS/broker/version"])
        broker_probe.publish(Broker(broker.url, ""), "dock1/state", b"1")
        assert [client() for client in clients] == [None, None]
    finally:
        gc.enable()


def test_a_disconnected_session_queues_messages(broker: Mosquitto, tmp_path: Path) -> None:
    broker_probe.leave_sessions(Broker(broker.url, "edge"), ["#"], str(tmp_path / "socket"), 1)
    broker.publish("dock1/reads", [b"1"])

    held: list[str] = []
    edge = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="edge", clean_session=False)
    edge.on_message = lambda *given: held.append(given[2].topic)
    edge.connect("127.0.0.1", broker.port)
    for _ in range(200):
        edge.loop(0.05)
        if held:
            break
    edge.disconnect()
    assert held == ["dock1/reads"]


def test_publish_waits_for_the_acknowledgement(broker: Mosquitto) -> None:
    broker_probe.publish(Broker(broker.url, ""), "dock1/state", b"1", retain=True)
    assert broker_probe.ask(Broker(broker.url, ""), ["dock1/state"]) == {"dock1/state": "1"}


def test_an_unreachable_broker_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        broker_probe.ask(Broker("mqtt://127.0.0.1:1", ""), ["a"])
    with pytest.raises(Unavailable, match="No broker"):
        broker_probe.leave_sessions(Broker("mqtt://x", "edge"), ["#"], str(tmp_path / "nowhere"), 1)


def test_clearing_retained_messages_keeps_queued_ones_and_the_exception(broker: Mosquitto, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    broker_probe.leave_sessions(Broker(broker.url, "edge"), ["#"], path, 1)
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    topics = ["edge/doctor", *(f"site/{number}" for number in range(2_500))]
    for sent in [client.publish(topic, b"x" * 1_000, 1, retain=True) for topic in topics]:
        sent.wait_for_publish(20)
    client.loop_stop()
    assert broker_probe.clear_retained("edge-doctor", path, ["edge/doctor"]) == 2_500
    assert broker_probe.clear_retained("edge-doctor", path, ["edge/doctor"]) == 0
    assert broker_probe.ask(Broker(broker.url, ""), ["edge/doctor"]).keys() == {"edge/doctor"}

    held: list[int] = []
    edge = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="edge", clean_session=False)
    edge.on_message = lambda *given: held.append(len(given[2].payload))
    edge.connect("127.0.0.1", broker.port)
    edge.loop_start()
    wait_for(lambda: held.count(1_000) == len(topics), 20)
    edge.loop_stop()


def test_sessions_of_readers_are_deleted_with_their_subscriptions(tmp_path: Path) -> None:
    with mosquitto(
        tmp_path, f"sys_interval 1\nuse_username_as_clientid true\nlistener 0 {tmp_path}/socket\n"
    ) as broker:
        wait_for(lambda: listens(tmp_path / "socket"), 20)
        for name in ("dock", "edge"):
            client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
            client.username_pw_set(name)
            client.connect("127.0.0.1", broker.port)
            client.loop_start()
            wait_for(client.is_connected, 20)
            client.subscribe([(f"site/{number}", 1) for number in range(300)])
            client.disconnect()
            client.loop_stop()
        count = "$SYS/broker/subscriptions/count"
        visitor = Broker(broker.url.replace("//", "//visitor@"), "")

        def subscriptions() -> int:
            return int(broker_probe.ask(visitor, [count])[count])

        wait_for(lambda: subscriptions() >= 600, 20)
        broker_probe.clear_sessions(["dock", "gate"], str(tmp_path / "socket"))
        wait_for(lambda: 300 <= subscriptions() < 400, 20)


def test_sessions_are_not_awaited_for_ever(broker: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_probe, "SESSIONS_SECONDS", 0.0)
    with pytest.raises(Unavailable, match="rejected"):
        broker_probe.leave_sessions(Broker(broker.url, "edge"), ["#"], str(tmp_path / "socket"), 16)
