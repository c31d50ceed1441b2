"""Measure whether one flooding reader costs other readers their reads while edge is offline.

python -m tests.security.flooding_reader [--seconds 8] [--megabytes 256]

Ten readers have an account each at a mosquitto with the settings of `systemd/mosquitto.conf` for the given memory. Nine
publish ten reads a second at QoS 1; one sends as fast as the broker accepts while edge is offline. Prints how many
acknowledged reads of the nine are recorded.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database
from edge.people import organizations
from edge.readers import readers
from edge.readers.broker_accounts import set_account
from edge.readers.broker_files import OwnAccount, new_hash, write_files
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.mosquitto import free_port
from tests.service import LedgerReader, Service, wait_for
from tests.soak.crash import epc_of

SYSTEMD = Path(__file__).parents[2] / "systemd"
HONEST = 9
READS_A_SECOND = 10
FLOODER = "flooder"
FLOOD = b'{"tags":[],"x":"' + b"x" * 100_000 + b'"}'
PATIENCE = 300.0


class Broker:
    """A mosquitto with the files that edge writes, applied as `edge-accounts` does."""

    def __init__(self, folder: Path, memory: int) -> None:
        self.port = free_port()
        self.files = folder / "broker"
        self._folder, self._memory = folder, memory
        self._process: subprocess.Popen[bytes] | None = None
        self._applied: list[str] = []

    def start(self) -> None:
        shares = int((self.files / "shares").read_text()) if (self.files / "shares").exists() else 1
        text = (SYSTEMD / "mosquitto.conf").read_text().replace("/etc/mosquitto/edge.", f"{self.files}/")
        values = {
            "MQTT_PORT": f"{self.port} 127.0.0.1",
            "MEMORY_LIMIT": self._memory,
            "QUEUED_BYTES": self._memory * 2 // 5 // shares,
            "QUEUED_MESSAGES": self._memory // 1000 // shares,
        }
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        conf = self._folder / "mosquitto.conf"
        conf.write_text(f"user root\npersistence_location {self._folder}/\n{text}")
        self._applied = self._written()
        with (self._folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen(["mosquitto", "-c", str(conf)], stderr=log)
        wait_for(self._listens, PATIENCE)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(PATIENCE)

    def follow(self) -> None:
        """Load the files that edge has written since the last call."""
        if self._written() != self._applied:
            self.stop()
            self.start()

    def _written(self) -> list[str]:
        return [path.read_text() for path in sorted(self.files.iterdir()) if path.suffix != ".new"]


class Reader:
    """Publishes numbered reads and counts the acknowledged ones."""

    def __init__(self, name: str, port: int, topic: str = "") -> None:
        self.acknowledged = 0
        self._topic = topic or f"site/{name}"
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name)
        self._client.username_pw_set(name, "password")
        self._client.on_publish = self._count
        self._client.reconnect_delay_set(1, 1)
        self._client.max_inflight_messages_set(1000)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _count(self, *_: object) -> None:
        self.acknowledged += 1

    def publish(self, payload: bytes) -> None:
        self._client.publish(self._topic, payload, qos=1)

    def flood(self, until: float) -> None:
        """Publish without waiting for each acknowledgement."""
        sent = 0
        while time.monotonic() < until:
            if sent - self.acknowledged < 1000:
                self.publish(FLOOD)
                sent += 1
            else:
                time.sleep(0.001)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def make_site(data_dir: Path, broker: Broker) -> None:
    migrate.migrate(data_dir)
    who = shell(organizations.add_organization(shell(), "Flooded").id)
    dock = locations.create(who, name="Dock").id
    for number, name in enumerate([*(f"honest-{n}" for n in range(HONEST)), FLOODER]):
        assets.create(who, name=f"Pallet {number}", tags=[NewTag("rfid", epc_of(number))])
        reader = readers.add_reader(who, name=name, topic=f"site/{name}", format="csl", location_id=dock)
        set_account(who, reader.id, new_hash("password"))
    write_files(broker.files, OwnAccount("edge", "own password"))
    close_database()


@contextmanager
def publishing(honest: list[Reader]) -> Iterator[None]:
    """All honest readers, publishing in the background."""
    stopping = threading.Event()

    def run() -> None:
        count = 0
        while not stopping.wait(1 / READS_A_SECOND):
            count += 1
            for number, reader in enumerate(honest):
                reader.publish(json.dumps({"tags": [{"epc": epc_of(number), "rssi": -count / 10}]}).encode())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def recorded(data_dir: Path) -> list[int]:
    """Return the number of recorded reads of each honest reader."""
    ledger = LedgerReader(data_dir)
    try:
        rows = ledger.all(
            "SELECT r.name, ifnull(sum(l.messages), 0) FROM reader r LEFT JOIN ledger l ON l.reader_id = r.id "
            "AND l.bucket IN ('recorded', 'repeat') WHERE r.name LIKE 'honest%' GROUP BY r.name ORDER BY r.name"
        )
        return [count for _, count in rows]
    finally:
        ledger.close()


def are_settled(data_dir: Path) -> bool:
    ledger = LedgerReader(data_dir)
    try:
        return ledger.one("SELECT min(is_settled) FROM broker_account") == (1,)
    finally:
        ledger.close()


def attack(folder: Path, seconds: float, memory: int) -> tuple[list[int], list[int]]:
    """Return the numbers of acknowledged and of recorded reads of each honest reader."""
    data_dir = folder / "data"
    data_dir.mkdir()
    broker = Broker(folder, memory)
    make_site(data_dir, broker)
    secret = folder / "password"
    secret.write_text("own password")
    broker.start()
    settings = {"mqtt__password_file": secret, "mqtt__accounts_dir": broker.files}
    with Service(data_dir, f"mqtt://edge@127.0.0.1:{broker.port}", **settings) as service:
        service.start()
        service.wait_until_connected()

        def is_ready() -> bool:
            broker.follow()
            time.sleep(0.5)
            return are_settled(data_dir)

        wait_for(is_ready, PATIENCE, service.read_log)
        broker.follow()
        honest = [Reader(f"honest-{number}", broker.port) for number in range(HONEST)]
        flooder = Reader(FLOODER, broker.port)
        with publishing(honest):
            time.sleep(2)
            service.stop()
            flooder.flood(time.monotonic() + seconds)
            service.start()
            service.wait_until_connected()
            time.sleep(2)
        time.sleep(1)
        acknowledged = [reader.acknowledged for reader in honest]
        with suppress(TimeoutError):
            wait_for(lambda: recorded(data_dir) == acknowledged, 60)
        counts = recorded(data_dir)
        print(f"the flooder was acknowledged {flooder.acknowledged * len(FLOOD) >> 20} MB")
        for reader in (*honest, flooder):
            reader.close()
        service.stop()
    broker.stop()
    return acknowledged, counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--megabytes", type=int, default=256, help="memory of the broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        acknowledged, counts = attack(Path(folder), options.seconds, options.megabytes << 20)
    print(f"acknowledged {acknowledged}\nrecorded     {counts}")
    lost = sum(acknowledged) - sum(counts)
    print(f"lost {lost} of {sum(acknowledged)}: {'MISSED' if lost else 'ok'}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
