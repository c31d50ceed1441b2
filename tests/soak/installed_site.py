"""An installed box with a publishing reader, an API client, and a monitor of its availability."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from edge.database import migrate
from edge.database.connection import close_database
from tests.manual.documents import marked
from tests.soak.box import Box
from tests.soak.watching import Api, Reader, Watch

ROOT = Path(__file__).parents[2]
EMAIL, PASSWORD = "admin@example.com", "correct horse battery"
TAG = "3074257BF7194E4000001A85"
RATE = 100.0
# A power cut while edge runs may lose reads that the broker acknowledged this long before it (see broker.md).
GATHER_MS = 50
COMMIT_MS = 100


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
        self.lost: dict[int, int | None] = {}

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
        self,
        what: str,
        act: Callable[[], str | None],
        before: float = 2.0,
        after: float = 2.0,
        times: int = 1,
        rate: float = RATE,
        is_lossy: bool = False,
    ) -> Row:
        """Publish before, during and after an action, then check that all acknowledged reads are present.

        A lossy action damages reads that only the broker has.
        """
        assert self.reader
        self.reader.wait_until_acknowledged()  # reads of a failed step, which would count as missing
        known, began = self.reader.acknowledged(), time.time_ns() // 1_000_000
        self.watch.begin()
        note = ""
        for _ in range(times):
            with self.reader.publishing(rate):
                time.sleep(before)
                note = act() or ""
                self.watch.wait_until_up()
                time.sleep(after)
        self.reader.wait_until_acknowledged()
        self.watch.wait_until_up()
        return self.row(what, self.reader.acknowledged() - known, began, note, is_lossy)

    def row(self, what: str, sent: set[int], since: int, note: str = "", is_lossy: bool = False) -> Row:
        present = self.present(sent, since)
        twice = sum(1 for moment in sent if present[moment] > 1)
        missing = "" if is_lossy else self._missing(sent - set(present))
        note = "; ".join(filter(None, [note, missing]))
        return show(Row(what, len(sent), len(sent & set(present)), twice, self.watch.downtime(), note))

    def _missing(self, missing: set[int]) -> str:
        """Describe missing reads: within the limit of a power cut, or LOST."""
        if not missing:
            return ""
        acknowledged_at = self.reader.acknowledged_at if self.reader else {}
        missing_at = {read: acknowledged_at.get(read, read) for read in missing}
        ages = ages_at_cut(missing_at, acknowledged_at.values(), self.box.cuts)
        lost = {read: age for read, age in ages.items() if age is None or age > GATHER_MS + COMMIT_MS}
        if not lost:
            oldest = max(age for age in ages.values() if age is not None)
            return f"missing reads were acknowledged at most {oldest} ms before the power cut"
        self.lost.update(lost)
        details = ", ".join(
            f"read {read} acknowledged at {missing_at[read]}, "
            + ("no power cut" if age is None else f"{age} ms before the cut")
            for read, age in sorted(lost.items())[:5]
        )
        return f"LOST {len(lost)}: {details}"

    def present(self, sent: set[int], since: int) -> Counter[int]:
        """Count the history rows of these reads, by millisecond, once no more are added."""
        until = max(sent)
        present = self.api.history(self.asset_id, since, until)
        came = time.monotonic()
        while sent - set(present) and time.monotonic() < came + 20:
            time.sleep(0.5)
            known, present = len(present), self.api.history(self.asset_id, since, until)
            if len(present) > known:
                came = time.monotonic()
        return present

    def close(self) -> None:
        self.watch.stop()
        if self.reader:
            self.reader.stop()


def ages_at_cut(missing: dict[int, int], acknowledged: Iterable[int], cuts: Iterable[int]) -> dict[int, int | None]:
    """Return how long before the next power cut each missing read was acknowledged, None if there was none after it.

    `missing` has the time of acknowledgement by read. `cuts` are the moments when all processes had ended. The power
    was cut at the last acknowledgement, because a reader that publishes all the time gets one every few milliseconds.
    """
    known = list(acknowledged)
    moments = [max((at for at in known if at <= cut), default=cut) for cut in sorted(cuts)]
    return {read: next((moment - at for moment in moments if moment >= at), None) for read, at in missing.items()}


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


def attempt(what: str, act: Callable[[], object]) -> None:
    """Run an operation of a drill. A failure is a row of the table, and the drill continues."""
    try:
        act()
    except (RuntimeError, TimeoutError, AssertionError, subprocess.CalledProcessError) as error:
        show(Row(what, None, None, None, None, f"FAILED: {str(error)[-600:]}"))


def install(box: Box, ports: Ports, source: Path | None = None) -> str:
    """Install on a fresh system from a clone of `source`, or again from the clone already there."""
    if source:
        if not box.folder.exists():
            box.build()
        box.boot()
        put_checkout(
            box, source, "/root/edge", f"ORGANIZATION=Acme\nEMAIL={EMAIL}\nPASSWORD={PASSWORD}\n{ports.answers()}"
        )
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


def put_checkout(box: Box, source: Path, target: str, answers: str = "") -> None:
    """Put a clone of a checkout into the box, with a file of answers for the installer."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "edge"
        subprocess.run(["git", "clone", "-q", str(source), str(checkout)], check=True)
        if answers:
            (checkout / "systemd" / "answers").write_text(answers)
        box.put(checkout, target)


def add_sudo(box: Box) -> None:
    """Install sudo, which the manual's commands need and a minimal Debian lacks."""
    box.run("command -v sudo || printf '#!/bin/sh\\nexec \"$@\"\\n' | install -m 755 /dev/stdin /usr/local/bin/sudo")


def is_installed(box: Box) -> bool:
    return data_dir(box).exists()


def data_dir(box: Box) -> Path:
    """Return the service's data folder, as seen from outside the box."""
    return box.folder / "var/lib/edge"


@contextmanager
def opened(box: Box) -> Iterator[None]:
    """Stop the service and open its database in this process, with the code of this checkout."""
    box.run("systemctl stop edge")
    migrate.migrate(data_dir(box))
    try:
        yield
    finally:
        close_database()
        box.run("chown -R edge:edge /var/lib/edge; systemctl start edge")


def main_pid(box: Box, unit: str = "edge") -> str:
    return box.run(f"systemctl show -P MainPID {unit}").strip()


def wait_for(box: Box, condition: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while "yes" not in box.run(f"if {condition}; then echo yes; fi"):
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.3)
