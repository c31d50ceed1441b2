"""Latency of rules: from the read that decides to the committed alert, next to 500 reads a second and 12 rules.

python -m tests.bench.rules
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path
from zoneinfo import ZoneInfo

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import close_database, execute
from edge.database.migrate import migrate
from edge.events.detection import Silence
from edge.events.worker import EventsPace, EventsWorker
from edge.people import organizations
from edge.records import assets, locations
from edge.rules import rules
from edge.rules.conditions import Condition
from edge.rules.engine import Engine
from edge.rules.rules import RuleFields
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan

ASSETS = 2_000
PLACES = 12
BATCH = 50
PER_SECOND = 500
MOVING = 0.05  # of the reads
DURATION = 30  # s


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        migrate(path)
        alerts, seconds = _run()
        close_database()
    ages = sorted(alerts)
    print(f"{len(ages)} alerts, processor {seconds:.1f} s of {DURATION} s")
    for share in (0.5, 0.9, 0.99, 1):
        print(f"p{share * 100:g}: {ages[min(len(ages) - 1, int(share * len(ages)))] / 1000:.0f} ms")


def _run() -> tuple[list[int], float]:
    organization_id = organizations.add_organization(shell(), "Nord").id
    actor = shell(organization_id)
    places = [locations.create(actor, name=f"Dock {number}").id for number in range(PLACES)]
    ids = [assets.create(actor, name=f"Pallet {number}").id for number in range(ASSETS)]
    where = dict.fromkeys(ids, places[0])
    for place in places:
        rules.add_rule(actor, RuleFields(f"Enters {place}", Condition.ENTERS, location_id=place))
    silence = Silence(24 * clock.HOUR, 900 * SECOND)
    worker = EventsWorker(EventsPace(silence, 7 * clock.DAY), follower=Engine(ZoneInfo("UTC")))
    _record(organization_id, where, ids)
    worker.start()
    time.sleep(3)
    done = threading.Event()
    seen: dict[int, int] = {}  # alert -> µs from the read
    watcher = threading.Thread(target=_watch, args=(seen, done))
    watcher.start()
    began, processor = time.monotonic(), time.process_time()
    for batch in range(DURATION * PER_SECOND // BATCH):
        some = random.sample(ids, BATCH)
        for asset_id in some[: max(1, round(BATCH * MOVING))]:
            where[asset_id] = random.choice(places)
        _record(organization_id, where, some)
        time.sleep(max(0.0, began + (batch + 1) * BATCH / PER_SECOND - time.monotonic()))
    used = time.process_time() - processor
    time.sleep(2)
    done.set()
    watcher.join()
    worker.stop()
    return list(seen.values()), used


def _record(organization_id: int, where: dict[int, int], ids: list[int]) -> None:
    now = clock.now()
    record(
        [Scan(organization_id, one, where[one], None, None, now, now, Quality.HANDHELD) for one in ids], 300 * SECOND
    )


def _watch(seen: dict[int, int], done: threading.Event) -> None:
    """Note when each alert is visible to others, thus committed."""
    last = 0
    while not done.wait(0.005):
        for no, occurred_at in execute(
            "SELECT no, occurred_at FROM alert WHERE no > ? ORDER BY no", (last,)
        ).fetchall():
            seen[no] = clock.now() - occurred_at
            last = no
    close_database()


if __name__ == "__main__":
    main()
