"""Everything goes wrong at random moments while a site is used; nothing that was acknowledged may be amiss afterwards.

    python -m tests.soak.chaos [--faults 40] [--seed N]

A real mosquitto, readers of four makes behind a network that can be cut, a program that makes assets, a handheld that
scans. Each of them keeps a record of its own. Lost, doubled, misplaced and out of order must be zero, and the ledger
must add up. What mosquitto had acknowledged in the last second before it was killed itself, and had neither handed on
nor written, is counted apart: it has that window. As root, the data lies on a file system that can be full.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from edge.auth.secrets import hash_secret, new_client_secret, new_token
from edge.auth.sessions import csrf_token
from edge.store import actors, assets, keys, locations, migrate, organizations, people, readers, sessions
from edge.store.actors import shell
from edge.store.database import close_database
from edge.store.reader_clocks import READER
from edge.store.tags import NewTag
from tests.mosquitto import Mosquitto
from tests.service import LedgerReader, Service, wait_for
from tests.soak.clients import MAKES, Creator, Handheld, Link, Publisher, Seen
from tests.soak.watching import Api

TAGS = [f"3074257BF7194E40{number:08X}" for number in range(20)]
BARCODE = "4006381333931"
WINDOW_SECONDS = 1.0  # in which mosquitto holds what it has acknowledged in its memory only
PAUSES = (0.05, 0.02, 0.1)  # between two reads, between two assets, between two scans: seconds
DAY_MICROS = 86_400_000_000


class Outcome(NamedTuple):
    faults: dict[str, int]
    reads: int
    made: int
    scans: int
    lost: int
    doubled: int
    misplaced: int
    out_of_order: int
    in_window: int  # lost with the memory of a broker that was killed
    ledger_differs: int

    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.misplaced or self.out_of_order or self.ledger_differs)


class Site:
    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.folder, self.data_dir = folder, folder / "data"
        self.broker = Mosquitto(folder)
        self.broker.start()
        self.link = Link(self.broker.port)
        self._make(seed)
        self.broker_killed: list[float] = []

    def _make(self, seed: int) -> None:
        migrate.migrate(self.data_dir)
        organization = organizations.add_organization(shell(), "Chaos").id
        who = shell(organization)
        docks = {}
        for number, make in enumerate(MAKES):
            docks[f"DOCK-{number}"] = locations.create(who, name=f"Dock {number}", external_key=f"DOCK-{number}").id
            readers.add_reader(
                who, name=make, topic=f"site/{make}/reads", format=make, location_id=docks[f"DOCK-{number}"],
                clock_setting=READER,
            )  # fmt: skip
        self.assets = {tag: assets.create(who, name=tag, tags=[NewTag("rfid", tag)]).id for tag in TAGS}
        self.assets[BARCODE] = assets.create(who, name="By hand", tags=[NewTag("barcode", BARCODE)]).id
        secret, cookie = new_client_secret(), new_token()
        key = keys.add_key(who, "Chaos", keys.SCOPES, hash_secret(secret))
        person = people.add_person(who, "Ann", people.Role.OPERATOR)
        until = time.time_ns() // 1000 + DAY_MICROS
        sessions.add_session(actors.person(organization, person.id, person.name), hash_secret(cookie), until)
        close_database()
        settings = {"ingest__sighting_gap_seconds": 0, "ingest__smoothing": "off", "retention__low_disk_mb": 0}
        self.service = Service(self.data_dir, self.broker.url, rate__burst=1000, rate__per_second=500, **settings)
        self.api = Api(self.service.http)
        self.api.use_credentials(key.id, secret)
        self.publishers = [
            Publisher(make, number, self.link.port, TAGS, seed + number) for number, make in enumerate(MAKES)
        ]
        self.creator = Creator(self.api.try_once)
        self.handheld = Handheld(self.service.http, cookie, csrf_token(cookie), BARCODE, docks, seed)

    def close(self) -> None:
        for publisher in self.publishers:
            publisher.stop()
        self.link.close()
        self.broker.stop()


def kill_service(site: Site) -> None:
    site.service.kill()
    site.service.start()


def restart_service(site: Site) -> None:
    site.service.stop()
    site.service.start()


def freeze_service(site: Site) -> None:
    assert site.service.process
    site.service.process.send_signal(signal.SIGSTOP)
    time.sleep(site.chance.random() * 3)
    site.service.process.send_signal(signal.SIGCONT)


def kill_broker(site: Site) -> None:
    """While the service follows: what waits for one that is away is in mosquitto's memory, and goes with it."""
    site.service.wait_until_connected(120)
    time.sleep(WINDOW_SECONDS)
    site.broker_killed.append(time.monotonic())
    site.broker.kill()
    site.broker.start()


def restart_broker(site: Site) -> None:
    site.broker.stop()
    site.broker.start()


def freeze_broker(site: Site) -> None:
    site.broker.send_signal(signal.SIGSTOP)
    time.sleep(site.chance.random() * 2)
    site.broker.send_signal(signal.SIGCONT)


def cut_link(site: Site) -> None:
    site.link.cut()
    time.sleep(site.chance.random() * 2)
    site.link.is_cut = False


def slow_link(site: Site) -> None:
    site.link.delay = 0.3
    time.sleep(2)
    site.link.delay = 0.0


def fill_disk(site: Site) -> None:
    filler = site.data_dir / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64K"], capture_output=True, check=False)
    time.sleep(site.chance.random() * 2)
    filler.unlink()


def back_up_and_restore(site: Site) -> None:
    """The newest state of a service that was stopped: nothing may be missing of what comes back."""
    site.service.stop()
    site.service.run("backup")
    newest = max((site.data_dir / "backups").glob("*.db.gz"))
    site.service.run("restore", "--yes", str(newest))
    for aside in site.data_dir.glob("edge.db.before-*"):
        aside.unlink()
    newest.unlink()
    site.service.start()


FAULTS: dict[str, Callable[[Site], None]] = {
    "kill -9 of the service": kill_service,
    "service restarted": restart_service,
    "service frozen": freeze_service,
    "kill -9 of mosquitto": kill_broker,
    "mosquitto restarted": restart_broker,
    "mosquitto frozen": freeze_broker,
    "link cut": cut_link,
    "link slow": slow_link,
    "backup and restore": back_up_and_restore,
}


def run(folder: Path, faults: int, seed: int) -> Outcome:
    with disk(folder / "data") as can_be_full:
        site = Site(folder, seed)
        possible = {**FAULTS, "disk full": fill_disk} if can_be_full else FAULTS
        with site.service:
            try:
                site.service.start()
                site.service.wait_until_connected()
                restart_broker(site)  # once in peace: the broker has the sessions on disk
                site.service.wait_until_connected()
                done = _break(site, possible, faults)
                _settle(site)
                return _judge(site, done)
            finally:
                site.close()


def _break(site: Site, possible: dict[str, Callable[[Site], None]], faults: int) -> dict[str, int]:
    stopping = threading.Event()

    def use(step: Callable[[], None], pause: float) -> None:
        while not stopping.wait(pause):
            step()

    steps = [*((publisher.step, PAUSES[0]) for publisher in site.publishers),
             (site.creator.step, PAUSES[1]), (site.handheld.step, PAUSES[2])]  # fmt: skip
    threads = [threading.Thread(target=use, args=step) for step in steps]
    for thread in threads:
        thread.start()
    done: Counter[str] = Counter()
    try:
        for _ in range(faults):
            time.sleep(site.chance.random() * 2)
            name = site.chance.choice(list(possible))
            possible[name](site)
            done[name] += 1
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    return dict(done)


def _settle(site: Site) -> None:
    """Everybody is answered, and the broker's queue is empty."""
    wait_for(lambda: not sum(publisher.settle() for publisher in site.publishers), 60, site.service.read_log)
    wait_for(lambda: not site.handheld.send(), 60, site.service.read_log)
    with closing(LedgerReader(site.data_dir)) as reader:
        last, since = -1, time.monotonic()
        while time.monotonic() - since < 3:
            if reader.messages() != last:
                last, since = reader.messages(), time.monotonic()
            time.sleep(0.2)


def _judge(site: Site, faults: dict[str, int]) -> Outcome:
    record: dict[Seen, float] = {}
    for publisher in site.publishers:
        record |= publisher.acknowledged
    record |= dict.fromkeys(site.handheld.acknowledged, 0.0)
    rows = {tag: site.api.rows(asset_id) for tag, asset_id in site.assets.items()}
    found = Counter(Seen(tag, location, at) for tag, listed in rows.items() for at, location, _ in listed)
    moments = {(seen.tag, seen.at) for seen in found}
    missing = [seen for seen in record if not found[seen]]
    gone = [seen for seen in missing if (seen.tag, seen.at) not in moments]
    in_window = [
        seen for seen in gone if any(0 <= killed - record[seen] <= WINDOW_SECONDS for killed in site.broker_killed)
    ]
    made = {key for key in site.creator.acknowledged if not site.api.has_asset(key)}
    with closing(LedgerReader(site.data_dir)) as reader:
        recorded = reader.ledger().get("recorded", (0, 0))[1]
    by_readers = sum(len(listed) for tag, listed in rows.items() if tag != BARCODE)
    return Outcome(
        faults, sum(len(one.acknowledged) for one in site.publishers), len(site.creator.acknowledged),
        len(site.handheld.acknowledged), len(gone) - len(in_window) + len(made),
        sum(count - 1 for count in found.values() if count > 1), len(missing) - len(gone),
        sum(_disorder(listed) for listed in rows.values()), len(in_window), abs(recorded - by_readers),
    )  # fmt: skip


def _disorder(listed: list[tuple[int, str, int | None]]) -> int:
    """Rows, oldest first, that are not later than the one before, or do not say how long that one lasted."""
    wrong = 0
    for (before, _, _), (at, _, lasted) in pairwise(listed):
        wrong += at < before or lasted != (at - before) // 1000
    return wrong


@contextmanager
def disk(folder: Path) -> Iterator[bool]:
    """A file system of its own for the data, which can be full, where this process may mount one."""
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=192m", "chaos", str(folder)]
    is_own = os.geteuid() == 0 and subprocess.run(options, capture_output=True, check=False).returncode == 0
    try:
        yield is_own
    finally:
        if is_own:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp())
    try:
        outcome = run(folder, options.faults, options.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(outcome)
    print("nothing amiss" if outcome.is_clean() else "AMISS")
    sys.exit(not outcome.is_clean())


if __name__ == "__main__":
    main()
