"""systemd/mosquitto.conf, as the installer writes it, in a real mosquitto."""

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge.audit.actors import shell
from edge.ingest import broker_probe
from edge.ingest.broker_log import BrokerLog
from edge.ingest.sessions import Broker
from edge.people.organizations import list_organizations
from edge.readers.broker_accounts import set_account
from edge.readers.broker_files import (
    OwnAccount,
    doctor_name,
    log_name,
    new_hash,
    reserved_names,
    url_of,
    write_files,
)
from edge.readers.readers import add_reader
from edge.readers.sign_ins import SignIns
from tests.mosquitto import free_port
from tests.service import wait_for

SYSTEMD = Path(__file__).parents[2] / "systemd"
OWN = OwnAccount("edge", "own password")
MEMORY = 16_000_000

pytestmark = pytest.mark.mosquitto


class Running(NamedTuple):
    port: int
    pid: int

    def memory(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


@pytest.fixture
def broker(site: Path) -> Iterator[Running]:
    """Run a broker with accounts for two readers, `dock` and `gate`."""
    organization_id = list_organizations()[0].id
    for name in ("dock", "gate"):
        reader = add_reader(shell(organization_id), name=name, topic=f"site/{name}/#", format="edge")
        set_account(shell(organization_id), reader.id, new_hash(f"{name} password"))
    write_files(site / "broker", OWN)
    for _ in range(5):  # another program may take the port before the broker does
        port = free_port()
        process = _start(site, port)
        assert process.stderr is not None
        if any(b"running" in line for line in process.stderr):
            break
        process.communicate()
    else:
        raise RuntimeError("mosquitto does not start")
    # Read on: a full pipe would stop the broker.
    reading = threading.Thread(target=process.stderr.read, daemon=True)
    reading.start()
    yield Running(port, process.pid)
    process.terminate()
    process.wait(60)
    reading.join(60)
    process.stderr.close()


def _start(site: Path, port: int) -> subprocess.Popen[bytes]:
    values = {
        "MQTT_PORT": port,
        "MEMORY_LIMIT": MEMORY,
        "QUEUED_BYTES": MEMORY * 2 // 5,
        "QUEUED_MESSAGES": MEMORY // 1000,
    }
    text = (SYSTEMD / "mosquitto.conf").read_text().replace("/etc/mosquitto/edge.", f"{site}/broker/")
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    conf = site / "mosquitto.conf"
    conf.write_text(f"user root\npersistence_location {site}/\n{text}")
    return subprocess.Popen(["mosquitto", "-c", str(conf)], stderr=subprocess.PIPE)


class Client:
    def __init__(self, port: int, name: str, password: str, client_id: str = "", *, clean: bool = True) -> None:
        self.received: list[mqtt.MQTTMessage] = []
        self.acknowledged = 0
        self.disconnected = 0
        self._mqtt = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean)
        self._mqtt.username_pw_set(name, password)
        self._mqtt.on_message = lambda *given: self.received.append(given[2])
        self._mqtt.on_publish = lambda *_: self._count("acknowledged")
        self._mqtt.on_disconnect = lambda *_: self._count("disconnected")
        self._mqtt.connect("127.0.0.1", port)
        self._mqtt.loop_start()
        wait_for(self._mqtt.is_connected, 10)

    def _count(self, name: str) -> None:
        setattr(self, name, getattr(self, name) + 1)

    def subscribe(self) -> None:
        done: list[Any] = []
        self._mqtt.on_subscribe = lambda *given: done.append(given)
        self._mqtt.subscribe("#", 1)
        wait_for(lambda: bool(done), 10)

    def publish(self, topic: str, payload: bytes) -> None:
        self._mqtt.publish(topic, payload, qos=1)

    def close(self) -> None:
        self._mqtt.disconnect()
        self._mqtt.loop_stop()


def test_a_reader_cannot_throw_the_service_off_by_its_client_id(broker: Running) -> None:
    service = Client(broker.port, *OWN, "edge-secret", clean=False)
    service.subscribe()
    gate = Client(broker.port, "gate", "gate password", "gate")
    rogues = [Client(broker.port, "dock", "dock password", name) for name in ("edge-secret", "edge", "gate")]
    gate.publish("site/gate/reads", b"1")
    wait_for(lambda: bool(service.received), 10)
    assert (service.disconnected, gate.disconnected) == (0, 0)
    for client in (service, gate, *rogues):
        client.close()


def test_the_doctor_can_query_the_broker_while_the_service_runs(broker: Running) -> None:
    service = Client(broker.port, *OWN, "edge", clean=False)
    url = url_of(doctor_name, f"mqtt://edge@127.0.0.1:{broker.port}")
    assert url == f"mqtt://edge-doctor@127.0.0.1:{broker.port}"
    topics = broker_probe.ask(Broker(url, "", OWN.password), ["$SYS/broker/version"])
    assert "mosquitto" in topics["$SYS/broker/version"]
    assert service.disconnected == 0
    service.close()


def _be_refused(port: int) -> None:
    answers: list[object] = []
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set("gate", "another password")
    client.on_connect = lambda *given: answers.append(given[3])
    client.connect("127.0.0.1", port)
    wait_for(lambda: client.loop(0.01) is None or bool(answers), 10)
    client.disconnect()


def test_the_service_learns_who_signs_in_and_who_is_refused(broker: Running) -> None:
    """The broker tells a reader with a wrong password or topic nothing that a technician could see."""
    own = Broker(url_of(log_name, f"mqtt://edge@127.0.0.1:{broker.port}"), "", OWN.password)
    sign_ins = SignIns()
    log = BrokerLog(own, reserved_names(OWN.name), sign_ins)
    service = Client(broker.port, *OWN, "edge", clean=False)

    def reads(is_known: Callable[[], object], attempt: Callable[[], None] = lambda: None) -> None:
        wait_for(lambda: attempt() or log.read() or bool(is_known()), 10)

    edge = Client(broker.port, "edge-doctor", OWN.password)
    reads(lambda: sign_ins.refused(0), lambda: _be_refused(broker.port))
    (row,) = sign_ins.refused(0)
    assert row.address == "127.0.0.1"
    dock = Client(broker.port, "dock", "dock password")
    reads(lambda: sign_ins.of("dock"))
    assert sign_ins.of("gate") is None
    assert service.disconnected == 0
    log.close()
    for client in (service, edge, dock):
        client.close()


def test_a_message_that_is_too_large_is_refused(broker: Running) -> None:
    dock = Client(broker.port, "dock", "dock password")
    dock.publish("site/dock/reads", bytes(1_000_000))
    wait_for(lambda: dock.disconnected > 0, 10)
    assert dock.acknowledged == 0
    dock.close()


@pytest.mark.parametrize(("size", "count"), [(500_000, 100), (200, 25_000)], ids=["large messages", "many messages"])
def test_a_flood_while_edge_is_away_stays_bounded_and_edge_reconnects(broker: Running, size: int, count: int) -> None:
    service = Client(broker.port, *OWN, "edge", clean=False)
    service.subscribe()
    service.close()
    before = broker.memory()
    dock = Client(broker.port, "dock", "dock password")
    for _ in range(count):
        dock.publish("site/dock/reads", bytes(size))
    wait_for(lambda: dock.acknowledged == count, 60)
    assert broker.memory() - before < 1.5 * MEMORY
    service = Client(broker.port, *OWN, "edge", clean=False)
    wait_for(lambda: bool(service.received), 10)
    for client in (service, dock):
        client.close()
