"""A PostgreSQL server for tests, on this machine, without durability."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from tests.mosquitto import free_port
from tests.service import wait_for

_numbers = count(1)
Account = dict[str, Any]  # arguments of `subprocess`


def programs() -> Path | None:
    """Return the folder of the newest PostgreSQL that is installed."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return folders[-1].parent if folders else None


def account_of_postgres(folder: Path) -> Account:
    """Return the account that runs PostgreSQL, which refuses to run as root, and give it a folder."""
    if os.geteuid():
        return {}
    account = pwd.getpwnam("postgres")
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class Server:
    """A running server, or the standby of another one. `user` owns its databases."""

    def __init__(self, folder: Path, of: Server | None = None, owner: str = "edge", **settings: object) -> None:
        found = programs()
        assert found is not None
        self.bin, self.folder, self.port = found, folder / "data", free_port()
        self._settings, self._owner = settings, owner
        self._as = account_of_postgres(folder)
        if of is None:
            self._run("initdb", "-D", self.folder, "-U", owner, "-A", "trust", "-N", "--locale=C", "-E", "UTF8")
            self.start()
        else:
            self.follow(of)

    def _run(self, program: str, *arguments: str | Path) -> None:
        subprocess.run(
            [self.bin / program, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=self.folder.parent, **self._as
        )

    def start(self) -> None:
        options = f"-F -h 127.0.0.1 -p {self.port} -k '' -c max_connections=60"
        options += "".join(f" -c {name}={value}" for name, value in self._settings.items())
        log = self.folder.parent / "log"
        self._run("pg_ctl", "-D", self.folder, "-l", log, "-w", "-t", "60", "-o", options, "start")

    def follow(self, primary: Server) -> None:
        """Become a standby, with a new copy of the primary."""
        shutil.rmtree(self.folder, ignore_errors=True)
        address = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "edge")
        self._run("pg_basebackup", *address, "-D", self.folder, "-R", "-X", "stream", "-c", "fast", "-N")
        self.start()

    def promote(self) -> None:
        self._run("pg_ctl", "-D", self.folder, "-w", "promote")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self.folder, "-m", mode, "-w", "stop")

    def kill(self) -> None:
        """Kill all processes of the server, as a power cut does."""
        kill_postmaster(self.folder)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the server from running. Its connections stay open, and it accepts others without answering."""
        pid = int((self.folder / "postmaster.pid").read_text().split()[0])
        processes = [pid, *(child for child in _processes() if _parent(child) == pid)]
        for one in processes:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in processes:
                os.kill(one, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """Return the processor time of all processes that run now."""
        pid = int((self.folder / "postmaster.pid").read_text().split()[0])
        ticks = 0
        for one in (pid, *(child for child in _processes() if _parent(child) == pid)):
            with suppress(FileNotFoundError):
                fields = Path(f"/proc/{one}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def new_url(self) -> str:
        """Create an empty database and return its URL."""
        name = f"edge_{next(_numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://{self._owner}@127.0.0.1:{self.port}/{name}"

    def copy(self, url: str) -> str:
        """Return the URL of a copy of a database that nobody is connected to."""
        name = f"edge_{next(_numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {url.rpartition('/')[2]}")
        return self.url(name)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement as the owner, outside of a transaction."""
        with closing(psycopg.connect(self.url("postgres"), autocommit=True)) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []


def is_running(folder: Path) -> bool:
    """Return whether a server with this data directory runs."""
    try:
        return int((folder / "postmaster.pid").read_text().split()[0]) in _processes()
    except FileNotFoundError:
        return False


def kill_postmaster(folder: Path) -> None:
    """Kill the server with this data directory and all its processes."""
    pid = int((folder / "postmaster.pid").read_text().split()[0])
    children = [child for child in _processes() if _parent(child) == pid]
    for one in (pid, *children):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    wait_for(lambda: not {pid, *children} & set(_processes()), 30)


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


@contextmanager
def running() -> Iterator[Server]:
    """Run a server in a folder outside of those of pytest, which the account of the server may not enter."""
    with tempfile.TemporaryDirectory(prefix="edge-postgres-") as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.stop("immediate")
