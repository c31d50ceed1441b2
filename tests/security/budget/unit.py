"""The installed unit of a booted system as the target of the attacks.

systemd cannot apply `MemoryMax` in a system without the memory controller, so the service is also moved to a cgroup of
that size. Earlier allocations are subtracted from the limit.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.readers.broker_accounts import set_account
from edge.readers.broker_files import new_hash
from tests.security.budget.box import Accounts, Box, make_site
from tests.security.budget.cgroup import Group, limited, memory_max
from tests.security.flooding_reader import are_settled
from tests.service import Service, wait_for
from tests.soak.box import Box as Computer
from tests.soak.installed_site import ROOT, Ports, data_dir, install, is_installed, opened

READER = "dock"
PASSWORD = "password"
PATIENCE = 60.0


# The database as it was after the installation, because each run makes the same site.
_AS_INSTALLED = (
    "systemctl stop edge; cd /var/lib/edge; if test -e /root/installed.db; then rm -f edge.db-wal edge.db-shm;"
    " cp -p /root/installed.db edge.db; else cp -p edge.db /root/installed.db; fi"
)


class Unit:
    """The part of a service that `Box` uses."""

    def __init__(self, computer: Computer, ports: Ports) -> None:
        self.http = f"http://127.0.0.1:{ports.http}"
        self.data_dir = data_dir(computer)


class Account:
    """The reader's account at the broker of the system. All threads use one connection, as the account permits."""

    def __init__(self, port: int) -> None:
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        self._client.username_pw_set(READER, PASSWORD)
        self._client.max_inflight_messages_set(1_000)
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        wait_for(self._client.is_connected, PATIENCE)

    def publish(self, topic: str, payloads: Iterable[bytes]) -> None:
        """Publish at QoS 1 and return when the broker has acknowledged all."""
        for sent in [self._client.publish(topic, payload, qos=1) for payload in payloads]:
            sent.wait_for_publish(PATIENCE)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class UnitBox(Box):
    def __init__(self, computer: Computer, ports: Ports, accounts: Accounts, group: Group, pid: int) -> None:
        self.account = Account(ports.mqtt)
        super().__init__(cast("Service", Unit(computer, ports)), accounts, self.account, group)
        self._pid = pid
        self._recorded_before = self.reads_recorded()  # queued at the broker by an interrupted run

    def is_alive(self) -> bool:
        return Path(f"/proc/{self._pid}").exists() and not self.group.kills()

    def peak_megabytes(self) -> int:
        return int(_status(self._pid, "VmHWM")) >> 10


@contextmanager
def installed(computer: Computer, ports: Ports) -> Iterator[UnitBox]:
    """Install on a fresh system if necessary, and yield the running unit. The system stays booted."""
    if not is_installed(computer):
        print("install:", install(computer, ports, ROOT), flush=True)
    if not computer.run("hostname", check=False):
        computer.boot()
    computer.run(_AS_INSTALLED)
    with opened(computer):
        accounts = make_site(data_dir(computer))
        reader_id, organization_id = execute(
            "SELECT id, organization_id FROM reader WHERE name = ? AND deleted_at IS NULL", (READER,)
        ).fetchone()
        set_account(shell(organization_id), reader_id, new_hash(PASSWORD))
    wait_for(lambda: _pid_at(ports.http), PATIENCE)
    wait_for(lambda: _is_settled(computer), 5 * PATIENCE)
    pid = _pid_at(ports.http)
    size = memory_max() - (int(_status(pid, "VmRSS")) << 10)
    with limited(size) as group:
        group.move(pid)
        attacked = UnitBox(computer, ports, accounts, group, pid)
        try:
            yield attacked
        finally:
            attacked.account.close()
            shown = computer.run("systemctl show edge -p NRestarts -p Result; systemctl restart edge").split()
        print("unit:", shown)


def _is_settled(computer: Computer) -> bool:
    """Return True once the reader has its own session, for which mosquitto restarts."""
    time.sleep(1)
    return are_settled(data_dir(computer))


def _pid_at(port: int) -> int:
    """Return the process that listens on a port, 0 if there is none."""
    output = subprocess.run(["ss", "-ltnpH", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"pid=(\d+)", output)
    return int(found[1]) if found else 0


def _status(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/status").read_text().partition(f"{name}:")[2].split()[0]
