"""Measure how long a scan waits during an import of 50,000 assets with tags, and the cost of the import.

    python -m tests.bench.imports [--rows 50000] [--before 50000]

First all assets are new, then all change, each with another tag, at a site with as many others. Then a table of tags
replaces all four tags of each asset by one, and another table that one by another. A handheld scans without a pause
meanwhile, and its longest scan is reported. For the import itself the processor time is reported, because it does not
depend on other work on the machine.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

from edge import clock
from edge.audit.actors import person, shell
from edge.bulk import bulk_jobs, import_kinds, imports, slices
from edge.bulk.import_columns import proposed_columns
from edge.bulk.import_rows import Reading, records_of
from edge.database import migrate, sliced_writing
from edge.database.connection import close_database, writing
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import organizations, people
from edge.people.people import Role
from edge.records import assets, locations
from edge.validation.table_files import read_csv

TARGET = 0.25  # seconds that a scan may wait


def table(first: int, rows: int, word: str) -> bytes:
    lines = (f"KEY-{n:06},{word} pallet {n},3074257BF7194E40{n:08X}|{word}{n:08X}" for n in range(first, first + rows))
    return "\n".join(["external_key,name,rfid", *lines]).encode()


def tag_table(rows: int, word: str) -> bytes:
    """Return a table in which each asset has one tag."""
    lines = (f"asset,KEY-{n:06},rfid,{word}{n:08X}" for n in range(rows))
    return "\n".join(["kind,external_key,tag_type,value", *lines]).encode()


def put(organization_id: int, data: bytes, kind: str = "asset") -> str:
    """Import a table. Returns a description of its cost."""
    ed = people.add_person(shell(organization_id), f"Ed {uuid4().hex}", Role.EDITOR)
    actor = person(organization_id, ed.id, ed.name)
    began = time.thread_time()
    table = read_csv(data)
    read = time.thread_time()
    reading = Reading(kind, [name or "" for name in proposed_columns(kind, table.heading)], kind == "tag", UTC)
    parsed = records_of(reading, table.rows, lambda _: None)
    records, outcomes = import_kinds.check(organization_id, kind, parsed, lambda _: None)
    assert all(outcome.result in ("created", "changed") for outcome in outcomes), outcomes[:3]
    checked = time.thread_time()
    wall = time.perf_counter()
    with patch.object(sliced_writing, "writing", held_lock := Held()), patch.object(slices, "writing", held_lock):
        job_id = imports.start(actor, kind, records, 0)
        slices.run_jobs(lambda seconds: time.sleep(seconds) or False)
    job = bulk_jobs.find_job(organization_id, job_id)
    assert job
    assert imports.counts(job)["faulty"] == 0
    return (
        f"in the request {read - began:.1f} s, check {checked - read:.1f} s, "
        f"writing {time.thread_time() - checked:.1f} s of processor time ({time.perf_counter() - wall:.0f} s), "
        f"longest slice {max(held_lock.spent) * 1000:.0f} ms of processor time, {len(held_lock.spent)} slices"
    )


class Held:
    """A writing transaction that records its processor time."""

    def __init__(self) -> None:
        self.spent: list[float] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with writing():
            began = time.thread_time()
            yield
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
        if options.before:
            put(organization_id, table(options.rows, options.before, "first"))
        tables = {word: (table(0, options.rows, word), "asset") for word in ("new", "changed")}
        tag_tables = {word: (tag_table(options.rows, word), "tag") for word in ("tags", "labels")}
        for word, (data, kind) in (tables | tag_tables).items():
            with scanning(organization_id) as taken:
                cost = put(organization_id, data, kind)
            verdict = "ok" if max(taken) <= TARGET else "MISSED"
            longest = max(taken) * 1000
            print(f"{options.rows:,} {word}: {cost}; {len(taken):,} scans, the longest {longest:.0f} ms: {verdict}")
        close_database()


if __name__ == "__main__":
    main()
