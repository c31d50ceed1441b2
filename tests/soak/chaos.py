"""Random faults on a site in use. Afterwards all acknowledged data must be present and correct.

    python -m tests.soak.chaos [--faults 40] [--seed N] [--minutes N]

Each client keeps a record of its acknowledged data. Lost, doubled, misplaced and out-of-order rows must be zero, and
the ledger must add up. Messages that mosquitto acknowledged just before it was killed, and neither delivered nor saved,
are counted separately. Reads that arrived while the box's clock was wrong may have its time: of these the number and
the locations must match. A service that ends by itself is restarted, as by systemd, and counted. faults.py has the list
of faults; it is complete when run as root with python3-fusepy and a C compiler.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.service import LedgerReader, wait_for
from tests.soak import clock, disk
from tests.soak.clients import Seen
from tests.soak.faults import Faults
from tests.soak.used_site import BARCODE, PATIENCE, UsedSite

PAUSES = (0.1, 0.5, 0.3)  # between two reads, between two assets, between two scans: seconds
EVERY_READ_A_ROW = {"ingest__sighting_gap_seconds": 0, "ingest__smoothing": "off"}


class Outcome(NamedTuple):
    faults: dict[str, int]
    reads: int
    made: int
    scans: int
    lost: int
    doubled: int
    misplaced: int
    out_of_order: int
    in_window: int  # lost with the memory of a killed broker
    by_count: int  # present with a time from the box; see _with_other_time
    ledger_differs: int
    ended_by_itself: dict[str, int]  # unexpected ends of the service, by cause

    def is_clean(self) -> bool:
        by_signal = any(how.startswith("SIG") for how in self.ended_by_itself)
        amiss = self.lost or self.doubled or self.misplaced or self.out_of_order or self.ledger_differs
        return not (amiss or by_signal)


def run(folder: Path, faults: int, seed: int, minutes: float) -> Outcome:
    (folder / "data").mkdir()
    with ExitStack() as stack:
        own_disk = None
        if disk.can_be_had():
            (folder / "below").mkdir()
            own_disk = stack.enter_context(disk.mounted(folder / "data", folder / "below"))
        site = UsedSite(folder, seed, PAUSES, **EVERY_READ_A_ROW)
        stack.enter_context(site.service)
        stack.callback(site.close)
        possible = Faults(site, own_disk, clock.Clock(folder) if clock.can_be_had() else None)
        stack.enter_context(_kept_when_it_fails(site, folder / "data-kept"))
        site.begin()
        with site.used():
            done = _break(site, possible, faults, time.monotonic() + minutes * 60)
        _settle(site)
        outcome = _judge(site, possible, done)
        if not outcome.is_clean():
            _keep(site, folder / "data-kept")
        return outcome


@contextmanager
def _kept_when_it_fails(site: UsedSite, target: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _keep(site, target)
        raise


def _keep(site: UsedSite, target: Path) -> None:
    """Copy the site while nobody writes: its disk disappears with the process that serves it."""
    site.service.kill()
    shutil.copytree(site.data_dir, target)


def _break(site: UsedSite, possible: Faults, faults: int, until: float) -> dict[str, int]:
    """Inject each fault once, in random order, as far as the number allows; none after the time `until`."""
    every = possible.all()
    done: Counter[str] = Counter()
    while done.total() < faults:
        names = site.chance.sample(list(every), len(every))
        for name in names[: faults - done.total()]:
            if time.monotonic() > until:
                return dict(done)
            time.sleep(site.chance.random())
            print(f"{time.monotonic() - possible.began:7.1f} s, fault {done.total() + 1}: {name}", flush=True)
            every[name]()
            done[name] += 1
            if site.service.has_given_up():
                raise RuntimeError(site.service.read_log())
    return dict(done)


def _settle(site: UsedSite) -> None:
    """Wait until all requests are answered and the broker's queue is empty."""
    wait_for(lambda: not sum(publisher.settle() for publisher in site.publishers), PATIENCE, site.service.read_log)
    wait_for(lambda: not site.handheld.send(), PATIENCE, site.service.read_log)
    with closing(LedgerReader(site.data_dir)) as reader:
        last, since = -1, time.monotonic()
        while time.monotonic() - since < 3:
            if reader.messages() != last:
                last, since = reader.messages(), time.monotonic()
            time.sleep(0.2)


def _judge(site: UsedSite, faults: Faults, done: dict[str, int]) -> Outcome:
    record: dict[Seen, float] = {}
    for publisher in site.publishers:
        record |= publisher.acknowledged
    record |= dict.fromkeys(site.handheld.acknowledged, 0.0)
    rows = {tag: site.api.rows(asset_id) for tag, asset_id in site.assets.items()}
    counts = Counter(Seen(tag, location, at) for tag, listed in rows.items() for at, location, _ in listed)
    moments = {(seen.tag, seen.at) for seen in counts}
    missing = [seen for seen in record if not counts[seen]]
    at_other_time = _with_other_time(missing, record, counts, faults.other_times)
    missing = [seen for seen in missing if seen not in at_other_time]
    gone = [seen for seen in missing if (seen.tag, seen.at) not in moments]
    in_window = [seen for seen in gone if _is_in(record[seen], faults.windows)]
    for seen in set(gone) - set(in_window):
        print(f"lost: {seen}, acknowledged at {record[seen] - faults.began:.3f} s", flush=True)
    made = {asset_id for asset_id in site.creator.acknowledged if not site.api.has_asset(asset_id)}
    with closing(LedgerReader(site.data_dir)) as reader:
        recorded = reader.ledger().get("recorded", (0, 0))[1]
    by_readers = sum(len(listed) for tag, listed in rows.items() if tag != BARCODE)
    return Outcome(
        done, sum(len(one.acknowledged) for one in site.publishers), len(site.creator.acknowledged),
        len(site.handheld.acknowledged), len(gone) - len(in_window) + len(made),
        counts.total() - (len(record) - len(gone)),
        len(missing) - len(gone), sum(_disorder(listed) for listed in rows.values()),
        len(in_window), len(at_other_time), abs(recorded - by_readers), dict(site.service.ended_by_itself),
    )  # fmt: skip


def _with_other_time(
    missing: list[Seen], record: dict[Seen, float], counts: Counter[Seen], other_times: list[tuple[float, float]]
) -> set[Seen]:
    """Return the expected rows that match a row nobody else claims, with another time.

    They were acknowledged while the clock was wrong, or are handheld scans in a request of more than two seconds,
    which looks like a wrong clock.
    """
    unclaimed: Counter[tuple[str, str]] = Counter()
    for seen, count in counts.items():
        unclaimed[seen.tag, seen.location] += count - (seen in record)
    matched = set()
    for seen in missing:
        if (seen.tag == BARCODE or _is_in(record[seen], other_times)) and unclaimed[seen.tag, seen.location]:
            unclaimed[seen.tag, seen.location] -= 1
            matched.add(seen)
    return matched


def _is_in(moment: float, spans: list[tuple[float, float]]) -> bool:
    return any(began <= moment <= ended for began, ended in spans)


def _disorder(listed: list[tuple[int, str, int | None]]) -> int:
    """Count rows, oldest first, that are not later than the previous row, or have a wrong duration of its stay."""
    wrong = 0
    for (before, _, _), (at, _, lasted) in pairwise(listed):
        # Milliseconds here, microseconds in the service.
        wrong += at < before or lasted not in {(at - before + inexact) // 1000 for inexact in (-1, 0, 1)}
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--minutes", type=float, default=1e6, help="ends earlier, with what was done until then")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp())
    try:
        outcome = run(folder, options.faults, options.seed, options.minutes)
    except BaseException:
        print(f"for whoever looks why: {folder}", flush=True)
        raise
    print(outcome)
    if outcome.is_clean():
        shutil.rmtree(folder, ignore_errors=True)
        print("nothing amiss")
    else:
        print(f"AMISS; for whoever looks why: {folder}")
    sys.exit(not outcome.is_clean())


if __name__ == "__main__":
    main()
