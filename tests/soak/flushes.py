"""Power cuts on a disk that forgets unflushed writes, and slow flushes.

    python -m tests.soak.flushes --box TOOL --folder DIR

edge is installed on a Debian of TOOL (see box.py), which then runs as a whole machine in qemu (see emulated.py). A
reader publishes numbered reads and records each acknowledgement of mosquitto, also over the cuts. After each cut the
database must be sound, and only reads of the last moments may be missing: those that were in mosquitto's memory, or in
a group that edge had not committed.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from tests.soak.box import Box
from tests.soak.emulated import Emulated, add_kernel
from tests.soak.installed_site import ROOT, Ports, Row, Site, install, show

SOUND = ("permissions", "disk-errors", "database", "schema", "records", "broker-accounts")
UP_SECONDS = 600
LOW_DISK = "printf '\\n[retention]\\nlow_disk_mb = 10\\n' >>/etc/edge/edge.toml"


def prepare(box: Box, ports: Ports, source: Path) -> Site:
    """Install on a fresh Debian with a kernel of its own, and shut it down."""
    install(box, ports, source)
    site = Site(box, ports)
    site.watch.wait_until_up()
    site.set_up()
    site.close()
    add_kernel(box)
    box.run(LOW_DISK)
    box.stop()
    return site


def start(machine: Emulated, prepared: Site) -> Site:
    machine.build()
    machine.boot()
    site = Site(machine, prepared.ports)
    site.account = prepared.account
    site.api.use_key_of(prepared.api)
    site.watch.wait_until_up(UP_SECONDS)
    site.connect()
    return site


def cut_power(site: Site, machine: Emulated, rate: float) -> Row:
    """Cut the power at a random moment while reads arrive. The reader goes on by itself afterwards."""
    assert site.reader
    known, began = site.reader.acknowledged(), time.time_ns() // 1_000_000
    with site.reader.publishing(rate):
        time.sleep(random.uniform(10, 20))
        cut_at = time.time_ns() // 1_000_000
        machine.power_cut()
        before_cut = site.reader.acknowledged() - known
    site.watch.begin()
    machine.boot()
    site.watch.wait_until_up(UP_SECONDS)
    site.reader.wait_until_acknowledged(UP_SECONDS)
    sent = site.reader.acknowledged() - known
    present = site.present(sent, began)
    missing = {moment for moment in sent if not present[moment]}
    if later := missing - before_cut:
        raise AssertionError(f"{len(later)} reads that were acknowledged after the cut are missing")
    oldest = "none missing"
    if missing:  # when the reader sent it is no measure: this machine acknowledges late
        age = cut_at - min(site.reader.acknowledged_at[moment] for moment in missing)
        oldest = f"missing ones acknowledged at most {age} ms before the cut"
    twice = sum(1 for moment in sent if present[moment] > 1)
    note = f"{len(before_cut)} acknowledged before the cut, {oldest}; {check_sound(machine)}"
    return show(Row("power cut", len(sent), len(sent) - len(missing), twice, None, note))


def check_sound(box: Box) -> str:
    """Raise AssertionError if the doctor has a problem with the data."""
    findings = json.loads(box.run("edge doctor --json || true"))["checks"]
    bad = [f"{one['id']}: {one['text']}" for one in findings if one["id"] in SOUND and one["level"] != "ok"]
    assert not bad, bad
    return "database sound"


def flush_slowly(site: Site, machine: Emulated, seconds: float, rate: float) -> Row:
    """Let each flush take long. Nothing may be lost, and the watchdog must not end the service."""
    restarts = "systemctl show -P NRestarts edge mosquitto | paste -sd' '"
    before = machine.run(restarts)

    def act() -> str:
        machine.tell(f"slow {seconds}")
        time.sleep(60)
        machine.tell("slow 0")
        return ""

    row = site.under_load(f"each flush takes {seconds} s", act, rate=rate)
    assert machine.run(restarts) == before, "the service was restarted"
    assert row.sent == row.present, row
    assert not row.twice, row
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", type=int, default=18900, help="the first of five free ports")
    parser.add_argument("--source", type=Path, default=ROOT)
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--rate", type=float, default=20, help="reads per second")
    options = parser.parse_args()
    ports = Ports(options.port)
    prepared = prepare(Box(options.box, options.folder / "installed"), ports, options.source)
    machine = Emulated(options.folder / "installed", options.folder / "machine", ports.http, (ports.mqtt,))
    run(machine, prepared, options.cuts, options.rate)


def run(machine: Emulated, prepared: Site, cuts: int, rate: float) -> None:
    print("| what | reads sent | found | twice | down (s) | |\n|---|---|---|---|---|---|")
    site = None
    try:
        site = start(machine, prepared)
        for seconds in (0.3, 2.0):
            flush_slowly(site, machine, seconds, rate)
        for _ in range(cuts):
            cut_power(site, machine, rate)
    finally:
        if site:
            site.close()
        machine.close()


if __name__ == "__main__":
    main()
