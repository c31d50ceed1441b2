"""Measure how long a scan waits during an import of 50,000 assets with tags, and the cost of the import.

    python -m tests.bench.imports [--rows 50000] [--before 50000]

First all assets are new, then all change, each with another tag, at a site with as many others. A handheld scans
without a pause meanwhile, and its longest scan is reported. For the import itself the processor time is
reported, because it does not depend on other work on the machine.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from edge import clock
from edge.audit.actors import person, shell
from edge.database import migrate
from edge.database.connection import close_database
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.pages.records.csv_import_rows import lines_of, records_of
from edge.people import organizations, people
from edge.people.people import Role
from edge.records import assets, csv_import_assets, locations
from edge.records.csv_import import import_records

TARGET = 5.0  # seconds that a scan may wait


def table(first: int, rows: int, word: str) -> bytes:
    lines = (f"KEY-{n:06},{word} pallet {n},3074257BF7194E40{n:08X}|{word}{n:08X}" for n in range(first, first + rows))
    return "\n".join(["external_key,name,rfid", *lines]).encode()


def put(organization_id: int, data: bytes) -> str:
    """Import a table. Returns a description of its cost."""
    began = time.thread_time()
    lines = lines_of("asset", data)
    read = time.thread_time()
    records = records_of("asset", lines, lambda _: None)
    judged = time.thread_time()
    with patch.object(csv_import_assets, "write", Timed(csv_import_assets.write)) as write:
        outcomes = import_records(shell(organization_id), "asset", records, lambda _: None)
    assert all(outcome.result in ("created", "changed") for outcome in outcomes), outcomes[:3]
    held = sum(write.spent)
    durations = (read - began, judged - read, time.thread_time() - judged - held, held)
    return (
        "in the request {:.1f} s, reading {:.1f} s, check and preparation {:.1f} s, "
        "writing, while others wait, {:.1f} s of processor time"
    ).format(*durations)


class Timed:
    """A function wrapper that records the processor time of each call."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self.spent: list[float] = []

    def __call__(self, *arguments: Any) -> None:
        began = time.thread_time()
        self._function(*arguments)
        self.spent.append(time.thread_time() - began)


@contextmanager
def scanning(organization_id: int) -> Iterator[list[float]]:
    """Scan all the time in a thread. Yields the durations of the scans."""
    dock = locations.create(shell(organization_id), name="Dock")
    code = assets.create(shell(organization_id), name="Scanned").external_key
    who = people.add_person(shell(organization_id), f"Ada {dock.id}", Role.OPERATOR)
    taken: list[float] = []
    over = threading.Event()

    def scan() -> None:
        while not over.is_set():
            began = time.perf_counter()
            scan = Submitted(uuid4().hex, code, dock.id, clock.now())
            scans.submit(person(organization_id, who.id, who.name), [scan], clock.now())
            taken.append(time.perf_counter() - began)
            over.wait(0.02)
        close_database()

    thread = threading.Thread(target=scan)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--before", type=int, default=50_000, help="assets that are there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        migrate.migrate(Path(folder))
        organization_id = organizations.add_organization(shell(), "Bench").id
        put(organization_id, table(options.rows, options.before, "first"))
        for word in ("new", "changed"):
            with scanning(organization_id) as taken:
                cost = put(organization_id, table(0, options.rows, word))
            verdict = "ok" if max(taken) <= TARGET else "MISSED"
            print(f"{options.rows:,} {word}: {cost}; {len(taken):,} scans, the longest {max(taken):.1f} s: {verdict}")
        close_database()


if __name__ == "__main__":
    main()
