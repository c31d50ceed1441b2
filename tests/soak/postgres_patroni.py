"""The primary of a hub's PostgreSQL is killed again and again, while Patroni promotes the standby and sites sync.

The killed machine comes back after the promotion and becomes the standby by pg_rewind. After each failover the new
primary must have everything that sites were told is stored, and the hub must continue by itself. In the end all rows of
all sites are compared. It needs patroni and etcd-server of Debian.

Usage: python -m tests.soak.postgres_patroni [--failovers 6] [--sites 3] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.service import wait_for
from tests.soak.patroni_cluster import PATIENCE, Cluster
from tests.soak.postgres_sites import acknowledged, check_nothing_lost, let_write, syncing, wait_until_stored
from tests.sync.world import SiteBox


class Failover(NamedTuple):
    """Seconds from the kill until the standby was promoted, the killed one followed it, and sites continued."""

    promoted: float
    standby: float
    first: float
    last: float
    acknowledged: int  # changes of all sites when the primary was killed


def run(folder: Path, failovers: int, number_of_sites: int, seed: int) -> list[Failover]:
    chance, cluster = random.Random(seed), Cluster(folder / "cluster")
    results = []
    try:
        with syncing(folder, cluster.url, number_of_sites, seed) as boxes:
            for number in range(failovers):
                results.append(fail_over_once(cluster, boxes, chance))
                print(f"failover {number + 1}: {results[-1]}", flush=True)
        print(f"{cluster.rewinds()} times a killed primary became a standby by pg_rewind", flush=True)
    finally:
        cluster.stop()
    return results


def fail_over_once(cluster: Cluster, boxes: list[SiteBox], chance: random.Random) -> Failover:
    """Kill the primary while batches are being written, and start it again after the promotion.

    Raises AssertionError if the standby lacks an acknowledged batch.
    """
    let_write(boxes, chance)
    killed, other = cluster.primary, cluster.standby
    began = time.monotonic()
    killed.kill()
    told = {box.site_no: acknowledged(box) for box in boxes}
    wait_for(lambda: other.is_in_role("leader"), PATIENCE, other.log)
    cluster.swap()
    promoted = time.monotonic() - began
    check_nothing_lost(told, other.machine.cursors())
    killed.start()
    wait_for(lambda: killed.is_in_role("synchronous"), PATIENCE, killed.log)
    standby = time.monotonic() - began
    times = wait_until_stored(boxes, told, began)
    return Failover(round(promoted, 2), round(standby, 2), round(times[0], 2), round(times[-1], 2), sum(told.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failovers", type=int, default=6)
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
