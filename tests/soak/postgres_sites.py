"""Sites that write through a hub on PostgreSQL, for drills with the death of its primary."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

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

SECRET = "edge_" + "0" * 63
PATIENCE = 300


class Access(NamedTuple):
    """How a site reaches the hub."""

    url: str
    key: tuple[str, str]
    authority: Path


@contextmanager
def syncing(folder: Path, history: str, number: int, seed: int) -> Iterator[list[SiteBox]]:
    """Let sites write through a hub, which is never restarted. At the end, compare all rows at both ends."""
    hub = Hub(folder / "hub", "hub")
    hub.history = history
    boxes = [SiteBox(folder / f"P{number}", f"P{number}", hub) for number in range(1, number + 1)]
    keys = [_join(hub, box) for box in boxes]
    certificate = tls.make(folder / "tls")
    inner, outer = free_port(), free_port()
    ways = [Access(f"https://127.0.0.1:{outer}", key, certificate.authority) for key in keys]
    there = [
        Process(lambda: _serve_hub(hub.folder, inner, history)),
        Process(lambda: processes.proxy(outer, inner, certificate, seed, 0)),
    ]
    here = [
        Process(partial(processes.site, box, *way, seed + number))
        for number, (box, way) in enumerate(zip(boxes, ways, strict=True))
    ]
    try:
        yield boxes
        for process in here:
            process.kill()
        for box, way in zip(boxes, ways, strict=True):
            _settle(box, way)
        for box in boxes:
            assert_equal(box)
            assert box.rows("SELECT * FROM set_aside") == []
    finally:
        for process in (*here, *there):
            process.kill()
    stays = sum(len(box.rows("SELECT 1 FROM history")) for box in boxes)
    print(f"{stays} stays of {len(boxes)} sites are equal at both ends", flush=True)


def _serve_hub(folder: Path, port: int, url: str) -> None:
    open_database(folder / FILE_NAME)
    history_engine.use(url, history_engine.this_hub(is_service=True))
    waitress.serve(make_app(), host="127.0.0.1", port=port, threads=6, clear_untrusted_proxy_headers=True)


def _join(hub: Hub, site: SiteBox) -> tuple[str, str]:
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


def let_write(boxes: Sequence[SiteBox], chance: random.Random) -> None:
    """Wait until each site has stored some more, up to a random moment of a batch."""
    wanted = {box.name: acknowledged(box) + chance.randrange(1, 200) for box in boxes}
    wait_for(lambda: all(acknowledged(box) >= wanted[box.name] for box in boxes), PATIENCE)
    time.sleep(chance.uniform(0, 0.2))  # varies the moment of the kill; waits for no event


def check_nothing_lost(told: Mapping[int, int], there: Mapping[int, int]) -> None:
    """Raise AssertionError if the primary lacks a batch that was acknowledged to its site."""
    lost = {no: (seq, there.get(no)) for no, seq in told.items() if there.get(no, -1) < seq}
    assert not lost, f"acknowledged, but not at the new primary: {lost}"


def wait_until_stored(boxes: Sequence[SiteBox], told: Mapping[int, int], began: float) -> list[float]:
    """Return the seconds until each site had its next batch stored, the first site first."""
    waiting, times = {box.site_no: box for box in boxes}, []
    while waiting:
        for no, box in [*waiting.items()]:
            if acknowledged(box) > told[no]:
                times.append(time.monotonic() - began)
                del waiting[no]
        assert time.monotonic() - began < PATIENCE, f"the hub does not reconnect: {waiting.keys()}"
        time.sleep(0.02)
    return times


def _settle(box: SiteBox, way: Access) -> None:
    """Send what is left."""
    deadline = time.monotonic() + PATIENCE
    with box.in_use():
        while True:
            client = HubClient(way.url, *way.key, way.authority)
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
