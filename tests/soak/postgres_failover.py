"""The primary of a hub's PostgreSQL is killed and its standby promoted again and again, while sites sync.

After each failover the new primary must have everything that sites were told is stored, and the hub must continue by
itself. In the end all rows of all sites are compared.

Usage: python -m tests.soak.postgres_failover [--failovers 10] [--sites 3] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psycopg
import waitress

from edge.database.connection import FILE_NAME, open_database
from edge.people import people
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.sync.client import HubClient
from edge.sync.sender import LinkError, Sender
from edge.sync.store import sites
from edge.tracking import history_engine
from tests.application import make_app
from tests.mosquitto import free_port
from tests.service import wait_for
from tests.sync import processes, tls
from tests.sync.processes import Process
from tests.sync.world import EPOCH, Hub, SiteBox, assert_equal
from tests.tracking.postgres.server import Server

SECRET = "edge_" + "0" * 63
PATIENCE = 180


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
        for name in ("a", "b"):
            (folder / name).mkdir(parents=True)
        self.primary = Server(folder / "a", synchronous_standby_names="'*'", synchronous_commit="local")
        self.url = ""
        self.primary.run("CREATE DATABASE history")
        self.primary.run("ALTER DATABASE history SET synchronous_commit = on")
        self.standby = Server(folder / "b", self.primary, synchronous_standby_names="'*'", synchronous_commit="local")
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in (self.primary, self.standby))
        self.url = f"postgresql://edge@{hosts}/history"

    def fail_over(self) -> None:
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def rebuild(self) -> None:
        """Make a standby again of the former primary."""
        self.standby.follow(self.primary)

    def cursors(self) -> dict[int, int]:
        """Return how far each site is, as the primary knows it."""
        with closing(psycopg.connect(self.primary.url("history"))) as connection:
            return dict(connection.execute("SELECT site, (done->>1)::bigint FROM site_cursor").fetchall())

    def stop(self) -> None:
        for server in (self.primary, self.standby):
            server.kill()


def serve_hub(folder: Path, port: int, url: str) -> None:
    """Run the hub's server. It is never restarted."""
    open_database(folder / FILE_NAME)
    history_engine.use(url)
    waitress.serve(make_app(), host="127.0.0.1", port=port, threads=6, clear_untrusted_proxy_headers=True)


def join(hub: Hub, site: SiteBox) -> tuple[str, str]:
    """Connect a site to the hub and return its key."""
    for number in range(40):
        site.scan(site.add_asset(f"{site.name}-{number}", f"AA{site.site_no}{number:02}"), 0, EPOCH)
    with site.in_use():
        people.add_person(site.actor, "Ann", Role.OPERATOR)
    site.join()
    secret = f"{SECRET}{site.site_no}"
    with hub.in_use():
        sites.renew_code(hub.actor, site.site_no, hash_secret(site.name))
        joined = sites.join(hash_secret(site.name), hash_secret(secret))
        assert joined
        assert joined.api_key_id
        return joined.api_key_id, secret


def acknowledged(site: SiteBox) -> int:
    number: int = site.rows("SELECT acked_seq FROM target")[0][0]
    return number


def run(folder: Path, failovers: int, number_of_sites: int, seed: int) -> list[Failover]:
    chance, cluster = random.Random(seed), Cluster(folder / "cluster")
    hub = Hub(folder / "hub", "hub")
    hub.history = cluster.url
    boxes = [SiteBox(folder / f"P{number}", f"P{number}", hub) for number in range(1, number_of_sites + 1)]
    keys = [join(hub, box) for box in boxes]
    certificate = tls.make(folder / "tls")
    inner, outer = free_port(), free_port()
    url = f"https://127.0.0.1:{outer}"
    running = [
        Process(lambda: serve_hub(hub.folder, inner, cluster.url)),
        Process(lambda: processes.proxy(outer, inner, certificate, seed, 0)),
    ]
    results = []
    try:
        for number, (box, key) in enumerate(zip(boxes, keys, strict=True)):
            running.append(Process(lambda box=box, key=key, n=number: processes.site(  # type: ignore[misc]
                box, url, key, certificate.authority, seed + n)))  # fmt: skip
        for number in range(failovers):
            results.append(fail_over_once(cluster, boxes, chance))
            print(f"failover {number + 1}: {results[-1]}", flush=True)
        for process in running[2:]:
            process.kill()
        for box, key in zip(boxes, keys, strict=True):
            settle(box, url, key, certificate)
        for box in boxes:
            assert_equal(box)
            assert box.rows("SELECT * FROM set_aside") == []
    finally:
        for process in running:
            process.kill()
        cluster.stop()
    stays = sum(len(box.rows("SELECT 1 FROM history")) for box in boxes)
    print(f"{len(results)} failovers; {stays} stays of {len(boxes)} sites are equal at both ends")
    return results


def fail_over_once(cluster: Cluster, boxes: list[SiteBox], chance: random.Random) -> Failover:
    """Kill the primary while batches are being written.

    Raises AssertionError if the standby lacks an acknowledged one.
    """
    wanted = {box.name: acknowledged(box) + chance.randrange(1, 200) for box in boxes}
    wait_for(lambda: all(acknowledged(box) >= wanted[box.name] for box in boxes), PATIENCE)
    time.sleep(chance.uniform(0, 0.2))  # varies the moment of the kill; waits for no event
    began = time.monotonic()
    cluster.fail_over()
    told = {box.site_no: acknowledged(box) for box in boxes}
    promoted = time.monotonic() - began
    there = cluster.cursors()
    lost = {no: (seq, there.get(no)) for no, seq in told.items() if there.get(no, -1) < seq}
    assert not lost, f"acknowledged, but not at the new primary: {lost}"
    cluster.rebuild()
    standby = time.monotonic() - began
    waiting, times = {box.site_no: box for box in boxes}, []
    while waiting:
        for no, box in [*waiting.items()]:
            if acknowledged(box) > told[no]:
                times.append(time.monotonic() - began)
                del waiting[no]
        assert time.monotonic() - began < PATIENCE, f"the hub does not reconnect: {waiting.keys()}"
        time.sleep(0.02)
    return Failover(round(promoted, 2), round(standby, 2), round(times[0], 2), round(times[-1], 2), sum(told.values()))


def settle(box: SiteBox, url: str, key: tuple[str, str], certificate: tls.Certificate) -> None:
    """Send what is left."""
    deadline = time.monotonic() + PATIENCE
    with box.in_use():
        while True:
            client = HubClient(url, *key, certificate.authority)
            try:
                sender = Sender(client.call)
                sender.connect()
                while not (sender.push().is_all and not sender.push().rows):
                    pass
            except LinkError:
                assert time.monotonic() < deadline
            else:
                return
            finally:
                client.close()


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
