"""A mosquitto of one's own, on a free port of 127.0.0.1, with the limits of a site's broker."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

START_SECONDS = 60.0
MOST_LINES = 50_000

# Settings of systemd/mosquitto.conf for a site, without accounts.
LIMITS = """
allow_anonymous true
queue_qos0_messages true
max_queued_messages 1000000
max_queued_bytes 1000000000
max_inflight_messages 2000
"""


# Below the range from which the system takes ports by itself: a connection of somebody else never has one of them.
PORTS = range(20_000, 32_000)
_reserved = os.open(Path(tempfile.gettempdir()) / f"edge-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)
_mine: set[int] = set()


def free_port() -> int:
    """Return a port of 127.0.0.1 that no other process with these tests gets until this one ends."""
    for port in PORTS:
        if port in _mine:
            continue
        with suppress(OSError), socket.socket() as probe:
            fcntl.lockf(_reserved, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            _mine.add(port)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


class Mosquitto:
    """Keeps sessions and queues in `folder` when it is stopped, and has them again when it is started."""

    def __init__(self, folder: Path, settings: str = "", tls: tuple[Path, Path] | None = None) -> None:
        """`tls`: certificate and key. `settings` come last, because they may add a listener."""
        self.port = free_port()
        self.url = f"{'mqtts' if tls else 'mqtt'}://127.0.0.1:{self.port}"
        encryption = f"certfile {tls[0]}\nkeyfile {tls[1]}\n" if tls else ""
        self._settings = folder / "mosquitto.conf"
        self._log = folder / "mosquitto.log"
        self._settings.write_text(
            f"listener {self.port} 127.0.0.1\n{encryption}persistence true\npersistence_location {folder}/\n"
            f"autosave_interval 0\nuser root\n{LIMITS}{settings}"  # started by root it would give up its own folder
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["mosquitto", "-c", str(self._settings)], stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + START_SECONDS
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"mosquitto does not run: {self._log.read_text()}")
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(START_SECONDS)
            self._process = None

    def kill(self) -> None:
        """With everything it has in memory only."""
        self.send_signal(signal.SIGKILL)
        assert self._process
        self._process.wait(START_SECONDS)
        self._process = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def send_signal(self, number: int) -> None:
        assert self._process
        self._process.send_signal(number)

    def publish(self, topic: str, payloads: Iterable[bytes]) -> None:
        """Publish lines at QoS 1 and return when the broker has every one of them.

        mosquitto_pub goes when the packet id of its last line is acknowledged. There are 65,535, so one of them can
        only be trusted with fewer lines.
        """
        command = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(self.port), "-q", "1", "-t", topic, "-l"]
        lines = (payload + b"\n" for payload in payloads)
        for first in lines:
            with subprocess.Popen(command, stdin=subprocess.PIPE) as publisher:
                assert publisher.stdin
                publisher.stdin.write(first)
                publisher.stdin.writelines(islice(lines, MOST_LINES - 1))
            if publisher.returncode:
                raise RuntimeError(f"mosquitto_pub ended with {publisher.returncode}")


@contextmanager
def mosquitto(folder: Path, settings: str = "", tls: tuple[Path, Path] | None = None) -> Iterator[Mosquitto]:
    broker = Mosquitto(folder, settings, tls)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
