"""Repeats failovers of a hub's PostgreSQL while sites sync, and prints how long they took."""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from tests.soak.postgres_sites import acknowledged, syncing, wait_until_stored
from tests.sync.world import SiteBox


class Failover(NamedTuple):
    """Seconds from the kill until the standby was promoted, there was another standby, and sites continued."""

    promoted: float
    standby: float
    first: float
    last: float
    acknowledged: int  # changes of all sites when the primary was killed


class Cluster(Protocol):
    """A primary and a standby."""

    url: str

    def stop(self) -> None: ...


AnyCluster = TypeVar("AnyCluster", bound=Cluster)
FailOver = Callable[[AnyCluster, Sequence[SiteBox], random.Random], Failover]


class Watch:
    """Measures one failover from the moment at which the primary is killed."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.told: dict[int, int] = {}

    def note_told(self, boxes: Sequence[SiteBox]) -> None:
        """Note what was acknowledged to the sites."""
        self.told = {box.site_no: acknowledged(box) for box in boxes}

    def seconds(self) -> float:
        return round(time.monotonic() - self._began, 2)

    def end(self, boxes: Sequence[SiteBox], promoted: float, standby: float) -> Failover:
        """Wait until all sites have continued."""
        times = wait_until_stored(boxes, self.told, self._began)
        return Failover(promoted, standby, round(times[0], 2), round(times[-1], 2), sum(self.told.values()))


def main(
    usage: str | None, failovers: int, make: Callable[[Path], AnyCluster], fail_over: FailOver[AnyCluster]
) -> None:
    """Run a drill with the options of its command line."""
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failovers", type=int, default=failovers)
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, chance = Path(name), random.Random(options.seed)
        folder.chmod(0o755)  # the account of PostgreSQL goes through it
        cluster, results = make(folder / "cluster"), []
        try:
            with syncing(folder, cluster.url, options.sites, options.seed) as boxes:
                for number in range(options.failovers):
                    results.append(fail_over(cluster, boxes, chance))
                    print(f"failover {number + 1}: {results[-1]}", flush=True)
        finally:
            cluster.stop()
    for measured in ("promoted", "standby", "first", "last"):
        values = [getattr(result, measured) for result in results]
        print(f"{measured}: median {statistics.median(values):.1f} s, at most {max(values):.1f} s")
