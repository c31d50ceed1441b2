"""The primary of a hub's PostgreSQL is killed and its standby promoted again and again, while sites sync.

After each failover the new primary must have everything that sites were told is stored, and the hub must continue by
itself. In the end all rows of all sites are compared.

Usage: python -m tests.soak.postgres_failover [--failovers 10] [--sites 3] [--seed 1]
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.soak import failovers
from tests.soak.failovers import Failover, Watch
from tests.soak.postgres_machines import MARKER, history_url, set_up
from tests.soak.postgres_sites import check_nothing_lost, let_write
from tests.sync import tls
from tests.sync.world import SiteBox


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


def fail_over_once(cluster: Cluster, boxes: Sequence[SiteBox], chance: random.Random) -> Failover:
    """Kill the primary while batches are being written.

    Raises AssertionError if the standby lacks an acknowledged one.
    """
    let_write(boxes, chance)
    watch = Watch()
    cluster.fail_over()
    watch.note_told(boxes)
    promoted = watch.seconds()
    check_nothing_lost(watch.told, cluster.primary.cursors())
    cluster.rebuild()
    return watch.end(boxes, promoted, watch.seconds())


if __name__ == "__main__":
    failovers.main(__doc__, 10, Cluster, fail_over_once)
