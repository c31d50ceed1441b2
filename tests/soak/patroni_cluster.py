"""A primary and its standby under Patroni on this machine, with the commands and settings of the manual."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
from pathlib import Path

from tests.manual.documents import marked
from tests.mosquitto import free_port
from tests.service import wait_for
from tests.soak.postgres_machines import Machine, history_url, set_up
from tests.sync import tls
from tests.tracking.postgres.server import Account, account_of_postgres

COMMANDS = "not run: needs two machines; tests/soak/postgres_patroni.py runs it:"
SETTINGS = "not run: needs two machines; tests/soak/postgres_patroni.py uses these settings"
PATIENCE = 180


def answers(address: str, path: str) -> bool:
    """Return whether the answer to a request is 200."""
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Program:
    """A program that runs in the background as the account of PostgreSQL."""

    def __init__(self, folder: Path, account: Account, *command: str | Path) -> None:
        self._file, self._account, self._command = folder / f"{command[0]}.log", account, command
        self.start()

    def start(self) -> None:
        with self._file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                cwd=self._file.parent,
                env={**os.environ, "HOME": str(self._file.parent)},
                **self._account,
            )

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        self._process.send_signal(number)
        self._process.wait(PATIENCE)

    def log(self) -> str:
        return self._file.read_text("utf-8", "replace")


def start_etcd(folder: Path) -> tuple[Program, str]:
    """Start the store in which Patroni keeps which machine has the primary. Returns its address as well."""
    folder.mkdir()
    own, peers = (f"127.0.0.1:{free_port()}" for _ in range(2))
    program = Program(
        folder,
        account_of_postgres(folder),
        *("etcd", "--name", "etcd", "--data-dir", folder / "data", "--log-outputs", "stderr"),
        *("--listen-client-urls", f"http://{own}", "--advertise-client-urls", f"http://{own}"),
        *("--listen-peer-urls", f"http://{peers}", "--initial-advertise-peer-urls", f"http://{peers}"),
        *("--initial-cluster", f"etcd=http://{peers}"),
    )
    wait_for(lambda: answers(own, "/health"), PATIENCE, program.log)
    return program, own


class Node:
    """A machine with Patroni, which starts and stops PostgreSQL."""

    def __init__(self, machine: Machine, etcd: str) -> None:
        self.machine, self._rest = machine, f"127.0.0.1:{free_port()}"
        settings = machine.folder / "patroni.yml"
        settings.write_text(self._settings(etcd))
        self._program = Program(machine.folder, machine.account, "patroni", settings)

    def _settings(self, etcd: str) -> str:
        """Return the settings of the manual with the addresses and folders of this machine."""
        text, machine = marked(SETTINGS).code, self.machine
        replaced = {
            "name: db1": f"name: {machine.name}",
            "192.0.2.10:2379,192.0.2.11:2379,192.0.2.12:2379": etcd,
            "192.0.2.11:8008": self._rest,
            "192.0.2.11:5432": f"127.0.0.1:{machine.port}",
            '"*:5432"': f"127.0.0.1:{machine.port}",
            "/var/lib/postgresql/15/main": str(machine.data),
            "/etc/postgresql/15/main": str(machine.settings),
            "/usr/lib/postgresql/15/bin": str(machine.bin),
        }
        for word, here in replaced.items():
            assert word in text, f"the settings of the manual have no {word}"
            text = text.replace(word, here)
        return text

    def is_in_role(self, role: str) -> bool:
        """Return whether Patroni says that this is the `leader` or the `synchronous` standby."""
        return answers(self._rest, f"/{role}")

    def start(self) -> None:
        self._program.start()

    def kill(self) -> None:
        """Kill Patroni and all processes of the server, as a power cut does."""
        self._program.end()
        self.machine.kill()

    def stop(self) -> None:
        """Stop Patroni, which stops PostgreSQL."""
        self._program.end(signal.SIGTERM)

    def log(self) -> str:
        return self._program.log()


class Cluster:
    """Two nodes, one of which is the primary."""

    def __init__(self, folder: Path) -> None:
        certificate = tls.make(folder)
        machines = set_up(folder, certificate)
        self.url = history_url(folder, machines, certificate)
        machines[0].follow_manual(f"{COMMANDS} primary")
        for machine in machines:
            machine.follow_manual(f"{COMMANDS} both")
            machine.ctl("stop")
        self._etcd, address = start_etcd(folder / "etcd")
        self.primary = Node(machines[0], address)
        wait_for(lambda: self.primary.is_in_role("leader"), PATIENCE, self.primary.log)
        self.standby = Node(machines[1], address)
        wait_for(lambda: self.standby.is_in_role("synchronous"), PATIENCE, self.standby.log)

    def swap(self) -> None:
        """Note that the standby was promoted."""
        self.primary, self.standby = self.standby, self.primary

    def rewinds(self) -> int:
        """Return how often a killed primary became a standby by pg_rewind."""
        return sum(node.log().count("pg_rewind exit code=0") for node in (self.primary, self.standby))

    def stop(self) -> None:
        for node in (self.standby, self.primary):
            node.stop()
        self._etcd.end()
