"""An installed box with a publishing reader, an API client, and a monitor of its availability."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.manual.documents import marked
from tests.soak.box import Box
from tests.soak.watching import Api, Reader, Watch

ROOT = Path(__file__).parents[2]
EMAIL, PASSWORD = "admin@example.com", "correct horse battery"
TAG = "3074257BF7194E4000001A85"
RATE = 100.0


class Row(NamedTuple):
    what: str
    sent: int | None
    present: int | None
    twice: int | None
    down: float | None
    note: str


class Ports(NamedTuple):
    """Consecutive free ports."""

    first: int

    @property
    def http(self) -> int:
        return self.first

    @property
    def mqtt(self) -> int:
        return self.first + 1

    @property
    def https(self) -> int:
        return self.first + 2

    def answers(self) -> str:
        names = ("HTTP_PORT", "MQTT_PORT", "HTTPS_PORT", "REDIRECT_PORT", "MQTTS_PORT")
        return "".join(f"{name}={self.first + number}\n" for number, name in enumerate(names))


class Site:
    """An installed box with a publishing reader, an API client, and a monitor of its availability."""

    def __init__(self, box: Box, ports: Ports) -> None:
        self.box = box
        self.ports = ports
        self.api = Api(f"http://127.0.0.1:{ports.http}")
        self.watch = Watch(ports.http)
        self.asset_id = 0
        self.reader: Reader | None = None
        self.account: tuple[str, str] = ("", "")

    def set_up(self) -> None:
        said = self.box.run(of_manual("reader"))
        self.account = (re.findall(r"user +(\S+)", said)[0], re.findall(r"password +(\S+)", said)[0])
        self.box.run(f"edge asset add 'Pallet 71' --key PALLET-71 --tag rfid:{TAG}")
        self.api.mint_key(EMAIL, PASSWORD)
        self.connect()

    def connect(self) -> None:
        self.asset_id = self.api.get("/api/v1/assets?external_key=PALLET-71")["data"][0]["id"]
        self.reader = Reader(self.ports.mqtt, "site/dock1/reads", TAG, *self.account)

    def under_load(
        self, what: str, act: Callable[[], str | None], before: float = 2.0, after: float = 2.0, times: int = 1
    ) -> Row:
        """Publish before, during and after an action, then check that all acknowledged reads are present."""
        assert self.reader
        known, began = self.reader.acknowledged(), time.time_ns() // 1_000_000
        self.watch.begin()
        note = ""
        for _ in range(times):
            with self.reader.publishing(RATE):
                time.sleep(before)
                note = act() or ""
                self.watch.wait_until_up()
                time.sleep(after)
        self.reader.wait_until_acknowledged()
        self.watch.wait_until_up()
        return self.row(what, self.reader.acknowledged() - known, began, note)

    def row(self, what: str, sent: set[int], since: int, note: str = "") -> Row:
        until = max(sent)
        present = self.api.history(self.asset_id, since, until)
        came = time.monotonic()
        while sent - set(present) and time.monotonic() < came + 20:
            time.sleep(0.5)
            known, present = len(present), self.api.history(self.asset_id, since, until)
            if len(present) > known:
                came = time.monotonic()
        twice = sum(1 for moment in sent if present[moment] > 1)
        return show(Row(what, len(sent), len(sent & set(present)), twice, self.watch.downtime(), note))

    def close(self) -> None:
        self.watch.stop()
        if self.reader:
            self.reader.stop()


def of_manual(name: str) -> str:
    """Return the code block after a marker of the manual: the command that a reader of it would copy."""
    return marked(f"site:{name}").code


def show(row: Row) -> Row:
    cells = [
        row.what,
        *("" if number is None else str(number) for number in (row.sent, row.present, row.twice)),
        "" if row.down is None else f"{row.down:.1f}",
        row.note,
    ]
    print("| " + " | ".join(cells) + " |", flush=True)
    return row


def install(box: Box, ports: Ports, source: Path | None = None) -> str:
    """Install on a fresh system from a clone of `source`, or again from the clone already there."""
    if source:
        box.build()
        box.boot()
        with tempfile.TemporaryDirectory() as folder:
            checkout = Path(folder) / "edge"
            subprocess.run(["git", "clone", "-q", str(source), str(checkout)], check=True)
            (checkout / "systemd" / "answers").write_text(
                f"ORGANIZATION=Acme\nEMAIL={EMAIL}\nPASSWORD={PASSWORD}\n{ports.answers()}"
            )
            box.put(checkout, "/root/edge")
        add_sudo(box)
    began = time.monotonic()
    said = box.run("cd /root/edge && " + of_manual("install"))
    if source:  # each read must be a row to be counted
        box.run("printf '\\n[ingest]\\nsighting_gap_seconds = 0\\n' >>/etc/edge/edge.toml && systemctl restart edge")
    assert "edge runs on this box" in said, said
    took = time.monotonic() - began
    exposure = float(
        box.run("systemd-analyze security --no-pager edge.service | grep -o 'service: [0-9.]*'").split()[1]
    )
    assert exposure <= 1.5
    return f"{took:.0f} s, exposure {exposure}"


def add_sudo(box: Box) -> None:
    """Install sudo, which the manual's commands need and a minimal Debian lacks."""
    box.run("command -v sudo || printf '#!/bin/sh\\nexec \"$@\"\\n' | install -m 755 /dev/stdin /usr/local/bin/sudo")


def main_pid(box: Box, unit: str = "edge") -> str:
    return box.run(f"systemctl show -P MainPID {unit}").strip()


def wait_for(box: Box, condition: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while "yes" not in box.run(f"if {condition}; then echo yes; fi"):
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.3)
