"""The primary of a hub's PostgreSQL is killed again and again, while Patroni promotes the standby and sites sync.

The killed machine comes back after the promotion and becomes the standby by pg_rewind. After each failover the new
primary must have everything that sites were told is stored, and the hub must continue by itself. In the end all rows of
all sites are compared. It needs patroni and etcd-server of Debian.

Usage: python -m tests.soak.postgres_patroni [--failovers 6] [--sites 3] [--seed 1]
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.service import wait_for
from tests.soak import failovers
from tests.soak.failovers import Failover, Watch
from tests.soak.patroni_cluster import PATIENCE, Cluster
from tests.soak.postgres_sites import check_nothing_lost, let_write
from tests.sync.world import SiteBox


def fail_over_once(cluster: Cluster, boxes: Sequence[SiteBox], chance: random.Random) -> Failover:
    """Kill the primary while batches are being written, and start it again after the promotion.

    Raises AssertionError if the standby lacks an acknowledged batch.
    """
    let_write(boxes, chance)
    killed, other = cluster.primary, cluster.standby
    watch = Watch()
    killed.kill()
    watch.note_told(boxes)
    wait_for(lambda: other.is_in_role("leader"), PATIENCE, other.log)
    cluster.swap()
    promoted = watch.seconds()
    check_nothing_lost(watch.told, other.machine.cursors())
    killed.start()
    wait_for(lambda: killed.is_in_role("synchronous"), PATIENCE, killed.log)
    result = watch.end(boxes, promoted, watch.seconds())
    print(f"{cluster.rewinds()} times a killed primary became a standby by pg_rewind", flush=True)
    return result


if __name__ == "__main__":
    failovers.main(__doc__, 6, Cluster, fail_over_once)
