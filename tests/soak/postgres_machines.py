"""Two machines with PostgreSQL, a primary and its standby, set up by the commands of the manual.

They are folders of this machine. As on Debian, other machines may only do what `pg_hba.conf` of the manual allows.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import psycopg

from tests.manual.documents import blocks, marked
from tests.mosquitto import free_port
from tests.sync.tls import Certificate
from tests.tracking.postgres.server import account_of_postgres, is_running, kill_postmaster, programs

PASSWORD = "choose one"
MARKER = "not run: needs two machines; tests/soak/postgres_failover.py runs it:"
HBA = "hostssl replication replicator"  # in the settings that the manual shows
SETTINGS = """
data_directory = '{folder}/main'
hba_file = '{folder}/etc/pg_hba.conf'
ident_file = '{folder}/etc/pg_ident.conf'
unix_socket_directories = '{folder}/run'
port = {port}
ssl = on
ssl_cert_file = '{folder}/hub.crt'
ssl_key_file = '{folder}/hub.key'
fsync = off
"""


class Machine:
    """A machine with PostgreSQL of Debian."""

    def __init__(self, folder: Path, certificate: Certificate) -> None:
        found = programs()
        assert found is not None
        folder.mkdir(parents=True)
        self.bin, self.folder, self.data, self.settings = found, folder, folder / "main", folder / "etc"
        self.name, self.port, self.account = folder.name, free_port(), account_of_postgres(folder)
        self.command("mkdir", "run", "etc")
        for file in (certificate.file, certificate.key):
            shutil.copy(file, folder)
            account_of_postgres(folder / file.name)
        (folder / "hub.key").chmod(0o600)
        self.command("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8")
        self.command("mv", *(f"main/{name}.conf" for name in ("postgresql", "pg_hba", "pg_ident")), "etc")
        with (self.settings / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(port=self.port, folder=folder))
        self.ctl("start")

    def command(self, program: str, *arguments: str, **environment: str) -> None:
        """Run a program as the user `postgres`."""
        path = str(self.bin / program) if (self.bin / program).exists() else program
        here = {
            "PGHOST": str(self.folder / "run"),
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            "HOME": str(self.folder),
        }
        output, whole = self.folder / "commands.log", {**os.environ, **here, **environment}
        with output.open("ab") as log:
            done = subprocess.run(
                [path, *arguments],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=whole,
                check=False,
                **self.account,
            )
        assert done.returncode == 0, f"{self.name}: {program} {arguments}: {output.read_text()}"

    def ctl(self, action: str) -> None:
        log = ("-l", str(self.folder / "log")) if action in ("start", "restart") else ()
        self.command("pg_ctl", "-D", str(self.settings), *log, action)

    def follow_manual(self, marker: str, primary: Machine | None = None) -> None:
        """Run a block of commands of the manual here. `primary` is the machine that it names."""
        words = {"/var/lib/postgresql/15": str(self.folder)}
        for line in marked(marker).lines:
            self._run_line(line, words, primary)

    def _run_line(self, line: str, words: Mapping[str, str], primary: Machine | None) -> None:
        for word, here in words.items():
            line = line.replace(word, here)
        match shlex.split(line):
            case ["sudo", "systemctl", "stop", "postgresql"] if not is_running(self.data):
                pass
            case ["sudo", "systemctl", action, "postgresql"]:
                self.ctl(action)
            case ["sudo", "-u", "postgres", "pg_basebackup", "-h", "db1.example", *rest]:
                assert primary is not None
                address = ("-h", "127.0.0.1", "-p", str(primary.port))
                self.command("pg_basebackup", *address, *rest, PGPASSWORD=PASSWORD)
            case ["sudo", "-u", "postgres", program, *rest]:
                self.command(program, *rest)
            case _:
                raise AssertionError(f"nobody knows how to run {line}")

    def allow_others(self) -> None:
        """Allow the connections of the manual, and those of this machine."""
        [lines] = [one.code for one in blocks() if HBA in one.code and one.language == "text"]
        for address in ("192.0.2.10", "192.0.2.11", "192.0.2.12"):
            assert address in lines
            lines = lines.replace(address, "127.0.0.1")
        (self.settings / "pg_hba.conf").write_text(f"local all all trust\n{lines}")
        self.ctl("reload")

    def connect(self, database: str = "edge") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self.folder / "run"), port=self.port, user="postgres", dbname=database, autocommit=True
        )

    def cursors(self) -> dict[int, int]:
        """Return how far each site is, as this machine knows it."""
        with closing(self.connect()) as connection:
            rows = connection.execute("SELECT site, (done->>1)::bigint FROM site_cursor").fetchall()
        return {int(str(site)): int(str(done)) for site, done in rows}

    def kill(self) -> None:
        """Kill all processes of the server, as a power cut does."""
        kill_postmaster(self.data)


def set_up(folder: Path, certificate: Certificate) -> tuple[Machine, Machine]:
    """Set up a primary with the database of a hub, and its standby."""
    primary, standby = (Machine(folder / name, certificate) for name in ("db1", "db2"))
    for machine in (primary, standby):
        machine.allow_others()
    primary.command("createuser", "edge")
    primary.command("psql", "-c", f"ALTER ROLE edge PASSWORD '{PASSWORD}'")
    primary.command("createdb", "--owner=edge", "edge")
    primary.follow_manual(f"{MARKER} primary")
    standby.follow_manual(f"{MARKER} standby", primary)
    for machine in (primary, standby):
        machine.follow_manual(f"{MARKER} both")
    return primary, standby


def history_url(folder: Path, machines: tuple[Machine, ...], certificate: Certificate) -> str:
    """Return the URL for the hub. Its password comes from a password file, which is named in the environment."""
    passwords = folder / "pgpass"
    passwords.write_text(f"127.0.0.1:*:edge:edge:{PASSWORD}\n")
    passwords.chmod(0o600)
    os.environ["PGPASSFILE"] = str(passwords)
    hosts = ",".join(f"127.0.0.1:{machine.port}" for machine in machines)
    return f"postgresql://edge@{hosts}/edge?sslmode=verify-full&sslrootcert={certificate.authority}"
