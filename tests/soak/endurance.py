"""Check for growth in an hour of normal use: `python -m tests.soak.endurance [--minutes 60] [--half]`.

Readers publish 50 messages a second through a real mosquitto, a client makes about 10 API requests a second and an
asset every two seconds, and a handheld scans every second. Prints a line each minute: resident memory, open files, size
of the WAL, and the 99th percentile of request times. Prints slopes at the end, without the first quarter, in which
caches fill. `--half` limits the service to half a core and 512 MB, like a small computer (control groups; needs root).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.service import wait_for
from tests.soak.used_site import UsedSite

PAUSES = (0.08, 2.0, 1.0)  # with four readers: 50 messages a second
ASKED = ("/api/v1/assets?limit=50", "/api/v1/reports/asset-locations", "/api/v1/locations", "/healthz")
REQUEST_PAUSE = 0.2
GROUPS = Path("/sys/fs/cgroup")
HALF = {"edge-soak/cpu.max": "50000 100000", "edge-soak/memory.max": str(512 << 20)}
HALF_BEFORE_VERSION_2 = {
    "cpu/edge-soak/cpu.cfs_quota_us": "50000",
    "memory/edge-soak/memory.limit_in_bytes": str(512 << 20),
}


class Sample(NamedTuple):
    hours: float
    memory_mb: float
    files: int
    wal_mb: float
    p99_ms: float


def sample(site: UsedSite, began: float, seconds: list[float]) -> Sample:
    assert site.service.process
    wal = site.data_dir / "edge.db-wal"
    return Sample(
        (time.monotonic() - began) / 3600,
        site.service.resident_megabytes(),
        len(list(Path(f"/proc/{site.service.process.pid}/fd").iterdir())),
        wal.stat().st_size / 1e6 if wal.exists() else 0.0,
        statistics.quantiles(seconds, n=100)[98] * 1000,
    )


def slope(samples: list[Sample], name: str) -> float:
    """Return the growth per hour, by linear regression."""
    values = [getattr(one, name) for one in samples]
    return statistics.linear_regression([one.hours for one in samples], values).slope


@contextmanager
def half_a_computer() -> Iterator[None]:
    """Limit processes started in the block to half a core and 512 MB. Raises OSError if that is impossible."""
    limits = HALF if (GROUPS / "cgroup.controllers").exists() else HALF_BEFORE_VERSION_2
    groups = {(GROUPS / name).parent for name in limits}
    for group in groups:
        group.mkdir(exist_ok=True)
    for name, limit in limits.items():
        (GROUPS / name).write_text(limit)
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        for group in groups:
            (group.parent / "cgroup.procs").write_text(str(os.getpid()))


def run(folder: Path, minutes: int, is_half: bool) -> list[Sample]:
    (folder / "data").mkdir()
    with ExitStack() as stack:
        site = UsedSite(folder, 1, PAUSES)
        stack.enter_context(site.service)
        stack.callback(site.close)
        began = time.monotonic()
        with half_a_computer() if is_half else ExitStack():
            site.service.start()
        wait_for(lambda: site.service.has_logged("Serving pages"), 120, site.service.read_log)
        print(f"ready after {time.monotonic() - began:.1f} s", flush=True)
        samples = list(_samples(site, minutes))
        if site.service.ended_by_itself:
            raise RuntimeError(f"the service ended by itself: {dict(site.service.ended_by_itself)}")
        return samples


def _samples(site: UsedSite, minutes: int) -> Iterator[Sample]:
    seconds: list[float] = []
    stopping = threading.Event()

    def ask() -> None:
        while not stopping.wait(REQUEST_PAUSE):
            for path in ASKED:
                asked = time.monotonic()
                site.api.get(path)
                seconds.append(time.monotonic() - asked)

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        with site.used():
            began = time.monotonic()
            for minute in range(1, minutes + 1):
                time.sleep(max(0.0, began + minute * 60 - time.monotonic()))
                now, seconds[:] = list(seconds), []
                one = sample(site, began, now)
                print(
                    f"| {minute} | {one.memory_mb:.1f} | {one.files} | {one.wal_mb:.1f} | {one.p99_ms:.0f} |",
                    flush=True,
                )
                yield one
    finally:
        stopping.set()
        asker.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    print("| minute | MB of memory | open files | MB of WAL | 99 of 100 requests within ms |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        samples = run(Path(folder), options.minutes, options.half)
    later = samples[len(samples) // 4 :]
    growing = {name: slope(later, name) for name in ("memory_mb", "files", "wal_mb", "p99_ms")}
    print("in an hour: " + ", ".join(f"{name} {value:+.2f}" for name, value in growing.items()))
    sys.exit(growing["memory_mb"] > 5 or growing["files"] > 2 or growing["wal_mb"] > 5)


if __name__ == "__main__":
    main()
