from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge.errors import Unavailable
from edge.ingest import broker_probe
from edge.ingest.sessions import Broker
from tests.mosquitto import Mosquitto, mosquitto

pytestmark = pytest.mark.mosquitto


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """Start a mosquitto that also listens on a Unix socket."""
    with mosquitto(tmp_path, f"sys_interval 1\nlistener 0 {tmp_path}/socket\n") as running:
        yield running


def test_ask_returns_status_topics_of_the_broker(broker: Mosquitto) -> None:
    assert "mosquitto" in broker_probe.ask(Broker(broker.url, ""), ["$SYS/broker/version"])["$SYS/broker/version"]


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
