"""The primary of a hub's PostgreSQL is killed and its standby promoted again and again, while sites sync.

After each failover the new primary must have everything that sites were told is stored, and the hub must continue by
itself. In the end all rows of all sites are compared.

Usage: python -m tests.soak.postgres_failover [--failovers 10] [--sites 3] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.soak.postgres_machines import MARKER, history_url, set_up
from tests.soak.postgres_sites import acknowledged, check_nothing_lost, let_write, syncing, wait_until_stored
from tests.sync import tls
from tests.sync.world import SiteBox


class Failover(NamedTuple):
    """Seconds from the kill until the standby was promoted, there was another standby, and sites continued."""

    promoted: float
    standby: float
    first: float
    last: float
    acknowledged: int  # changes of all sites when the primary was killed


class Cluster:
    """A primary with one synchronous standby. They change places with each failover."""

    def __init__(self, folder: Path) -> None:
        certificate = tls.make(folder)
        self.primary, self.standby = set_up(folder, certificate)
        self.url = history_url(folder, (self.primary, self.standby), certificate)

    def fail_over(self) -> None:
        self.primary.kill()
        self.standby.follow_manual(f"{MARKER} failover")
        self.primary, self.standby = self.standby, self.primary

    def rebuild(self) -> None:
        """Make a standby again of the former primary."""
        shutil.rmtree(self.standby.folder / "main.old", ignore_errors=True)
        self.standby.follow_manual(f"{MARKER} standby", self.primary)

    def stop(self) -> None:
        for machine in (self.primary, self.standby):
            machine.kill()


def run(folder: Path, failovers: int, number_of_sites: int, seed: int) -> list[Failover]:
    chance, cluster = random.Random(seed), Cluster(folder / "cluster")
    results = []
    try:
        with syncing(folder, cluster.url, number_of_sites, seed) as boxes:
            for number in range(failovers):
                results.append(fail_over_once(cluster, boxes, chance))
                print(f"failover {number + 1}: {results[-1]}", flush=True)
    finally:
        cluster.stop()
    return results


def fail_over_once(cluster: Cluster, boxes: list[SiteBox], chance: random.Random) -> Failover:
    """Kill the primary while batches are being written.

    Raises AssertionError if the standby lacks an acknowledged one.
    """
    let_write(boxes, chance)
    began = time.monotonic()
    cluster.fail_over()
    told = {box.site_no: acknowledged(box) for box in boxes}
    promoted = time.monotonic() - began
    check_nothing_lost(told, cluster.primary.cursors())
    cluster.rebuild()
    standby = time.monotonic() - began
    times = wait_until_stored(boxes, told, began)
    return Failover(round(promoted, 2), round(standby, 2), round(times[0], 2), round(times[-1], 2), sum(told.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failovers", type=int, default=10)
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the account of PostgreSQL goes through it
        results = run(Path(folder), options.failovers, options.sites, options.seed)
    for name in ("promoted", "standby", "first", "last"):
        values = [getattr(result, name) for result in results]
        print(f"{name}: median {statistics.median(values):.1f} s, at most {max(values):.1f} s")


if __name__ == "__main__":
    main()
