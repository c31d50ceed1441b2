"""Power cuts of a booted Debian whose data disk loses everything that was not flushed.

    python -m tests.soak.forgetful --box TOOL --folder DIR [--cuts 20] [--rate 100] [--up 8]

As `flushes`, but at full speed: with the box of TOOL (see box.py), not an emulated machine. The folders of edge and
mosquitto are on ext4 on a disk in user space (see disk.py). A cut stops the disk first, then kills all processes, then
loses a random part of the unflushed writes. `--up` is the longest time between a boot and the next cut: mosquitto saves
its queue every 30 s only. Prints how long before the cut the newest flush began and each missing read was acknowledged:
what mosquitto acknowledged is durable with the next commit of edge. `--flush` makes each flush slow.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.soak.box import Box
from tests.soak.disk import Disk, mounted
from tests.soak.emulated import DATA, FSTAB
from tests.soak.flushes import LOW_DISK, check_sound
from tests.soak.installed_site import (
    COMMIT_MS,
    EMAIL,
    GATHER_MS,
    PASSWORD,
    ROOT,
    Ports,
    Row,
    Site,
    install,
    is_installed,
    show,
)

ENDLESS_MS = 1_000_000
BUFFERED_MS = 1_000  # an acknowledgement may wait that long in a socket; none was sent after the cut


class Forgetful(Box):
    """A box with its data on `disk`, which is mounted at `mnt/data` of its folder."""

    def __init__(self, tool: str, folder: Path, disk: Disk) -> None:
        super().__init__(tool, folder)
        self._disk = disk
        self.flush_began_at = 0  # the newest one before the last cut, in milliseconds

    def slow_down(self, seconds: float) -> None:
        self._disk.tell(f"slow {seconds}")

    def power_cut(self) -> None:
        init = _init_of(self.folder)
        self._disk.tell("drop")
        self.cuts.append(time.time_ns() // 1_000_000)  # nothing is flushed any more
        os.kill(init, signal.SIGKILL)  # ends all processes of the box
        self._do("power-cut")
        self.is_enabled = False
        self.flush_began_at = self._disk.newest_flush()[0]
        self._disk.tell("slow 0")
        self._disk.lose_cache()


def _init_of(folder: Path) -> int:
    """Return the process that is init in the box, a child of systemd-nspawn."""
    pid = folder.with_name(f"{folder.name}.nspawn.pid").read_text().strip()
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def prepare(box: Box, ports: Ports, source: Path) -> Site:
    """Install on a fresh Debian, or use what an earlier run installed, and shut it down."""
    site = Site(box, ports)
    if is_installed(box):
        (box.folder / "etc/fstab").unlink(missing_ok=True)
        box.boot()
        site.watch.wait_until_up()
        said = box.run("edge account dock1")
        site.account = (re.findall(r"user +(\S+)", said)[0], re.findall(r"password +(\S+)", said)[0])
        site.api.mint_key(EMAIL, PASSWORD)
    else:
        install(box, ports, source)
        site.watch.wait_until_up()
        site.set_up()
        box.run(LOW_DISK)
    site.close()
    box.stop()
    return site


def move_data(root: Path) -> None:
    """Copy the data to the disk, and have the box use it there."""
    for name in DATA:
        subprocess.run(["cp", "-a", str(root / "var/lib" / name), str(root / "mnt/data")], check=True)
    subprocess.run(["sync", "--file-system", str(root / "mnt/data")], check=True)
    (root / "etc/fstab").write_text("".join(line for line in FSTAB.splitlines(keepends=True) if " bind," in line))


class Cut(NamedTuple):
    missing: list[int]  # ms before the cut, when each missing read was acknowledged
    flush: int  # ms before the cut, when the newest flush began

    def is_lossy(self, flush_seconds: float) -> bool:
        """Return True if a missing read was acknowledged long before the newest flush. A commit may need two."""
        limit = self.flush + GATHER_MS + COMMIT_MS + 2_000 * flush_seconds
        return max(self.missing, default=0) > limit


def cut_power(site: Site, box: Forgetful, up_seconds: float, rate: float, flush_seconds: float) -> Cut:
    """Cut the power while reads arrive."""
    assert site.reader
    site.reader.wait_until_acknowledged()
    known, began = site.reader.acknowledged(), time.time_ns() // 1_000_000
    site.watch.begin()
    box.slow_down(flush_seconds)
    with site.reader.publishing(rate):
        time.sleep(random.uniform(0.5, 1) * up_seconds)
        box.power_cut()
        time.sleep(0.5)
    site.reader.acknowledged()
    acknowledged_at = dict(site.reader.acknowledged_at)
    box.boot()
    site.watch.wait_until_up()
    site.reader.wait_until_acknowledged()
    cut_at = box.cuts[-1]
    sent = site.reader.acknowledged() - known
    present = site.present(sent, began)
    ages = {read: cut_at - acknowledged_at.get(read, cut_at + 60_000) for read in sent - set(present)}
    early = sorted(max(age, 0) for age in ages.values() if age > -BUFFERED_MS)
    late = len(ages) - len(early)
    cut = Cut(early + [ENDLESS_MS] * late, cut_at - box.flush_began_at)
    before = sum(1 for read in sent if read in acknowledged_at)
    note = f"{before} acknowledged before the cut, newest flush {cut.flush} ms before it, missing {early}"
    oldest = cut_at - max(early, default=0)
    later = sum(1 for read in present if oldest < acknowledged_at.get(read, 0) <= cut_at)
    note += f", {later} acknowledged later are present"  # reads are committed in their order
    if late:
        note += f", LOST {late} acknowledged after the restart"
    twice = sum(1 for read in sent if present[read] > 1)
    note = f"{note}; {check_sound(box)}"
    show(Row("power cut", len(sent), len(sent) - len(ages), twice, site.watch.downtime(), note))
    return cut


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", type=int, default=18950, help="the first of five free ports")
    parser.add_argument("--source", type=Path, default=ROOT)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--rate", type=float, default=100, help="reads per second")
    parser.add_argument("--up", type=float, default=8, help="seconds from a boot to the next cut, at most")
    parser.add_argument("--flush", type=float, default=0, help="seconds that each flush takes")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # the disk must not end before its file system
    root = options.folder / "forgetful"
    ports = Ports(options.port)
    prepared = prepare(Box(options.box, root), ports, options.source)
    (root / "mnt/data").mkdir(exist_ok=True)
    print("| what | reads sent | found | twice | down (s) | |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as below, mounted(root / "mnt/data", Path(below)) as disk:
        move_data(root)
        box = Forgetful(options.box, root, disk)
        box.boot()
        site = Site(box, ports)
        try:
            site.account = prepared.account
            site.api.use_key_of(prepared.api)
            site.watch.wait_until_up()
            site.connect()
            cuts = [cut_power(site, box, options.up, options.rate, options.flush) for _ in range(options.cuts)]
        finally:
            site.close()
            if box.is_enabled:
                box.power_cut()
    missing = [age for cut in cuts for age in cut.missing]
    oldest = max(missing, default=0)
    print(f"{len(cuts)} cuts, {len(missing)} reads missing, oldest acknowledged {oldest} ms before the cut")
    if any(cut.is_lossy(options.flush) for cut in cuts):
        sys.exit("reads were lost outside of the limits")


if __name__ == "__main__":
    main()
