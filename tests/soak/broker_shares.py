"""Shares of the broker's queue on a booted box: `python -m tests.soak.broker_shares --box TOOL --folder DIR`.

Fifteen readers have an account and a session of edge each. Prints how many acknowledged reads are recorded while one
account floods the broker, during an upgrade and across a restart of mosquitto, and the processor time of edge and of
mosquitto with sixteen sessions and with one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.readers import readers
from edge.readers.broker_accounts import set_account
from edge.readers.broker_files import new_hash
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.security.flooding_reader import Reader, publishing
from tests.service import LedgerReader, wait_for
from tests.soak.box import Box
from tests.soak.crash import epc_of
from tests.soak.installed_site import ROOT, Ports, Site, data_dir, install, is_installed, opened
from tests.soak.upgrades import fresh_release, keep_release, version

HONEST = 14
READS_A_SECOND = 10
FLOODER = "flooder"
TOPICS = {"own": "site/{}", "one": "+/one/{}"}  # a reader with a topic that begins with + stays in session 0
PUBLISHED = {"own": "site/{}", "one": "site/one/{}"}
BACKLOG = 4_000  # messages for each reader, queued while edge is offline
PATIENCE = 300.0


def make_readers(box: Box) -> None:
    """Create the readers, each with an account with this password."""
    with opened(box):
        who = shell(execute("SELECT min(id) FROM organization").fetchone()[0])
        dock = locations.create(who, name="Shares").id
        for number, name in enumerate(names_of("own") + names_of("one") + [FLOODER]):
            assets.create(
                who,
                name=f"Pallet {number}",
                tags=[NewTag("rfid", epc_of(number % (HONEST + 1)))] if number <= HONEST else [],
            )
            topic = TOPICS["one" if name.startswith("one") else "own"].format(name)
            reader = readers.add_reader(who, name=name, topic=topic, format="csl", location_id=dock)
            set_account(who, reader.id, new_hash("password"))


def names_of(kind: str) -> list[str]:
    return [f"{kind}-{number:02}" for number in range(HONEST)]


def connect(port: int, kind: str = "own") -> list[Reader]:
    return [Reader(name, port, PUBLISHED[kind].format(name)) for name in names_of(kind)]


def payload(number: int, count: int) -> bytes:
    return json.dumps({"tags": [{"epc": epc_of(number), "rssi": -count / 10}]}).encode()


def recorded(box: Box, kind: str = "own") -> list[int]:
    ledger = LedgerReader(data_dir(box))
    try:
        rows = ledger.all(
            "SELECT r.name, ifnull(sum(l.messages), 0) FROM reader r LEFT JOIN ledger l ON l.reader_id = r.id "
            f"AND l.bucket IN ('recorded', 'repeat') WHERE r.name GLOB '{kind}-*' GROUP BY r.name ORDER BY r.name"
        )
        return [count for _, count in rows]
    finally:
        ledger.close()


def settle(site: Site) -> str:
    """Wait until each reader has its own session. mosquitto restarts once for it."""
    began = time.monotonic()
    wait_for(lambda: _has_sessions(site.box), PATIENCE)
    shares = site.box.run("cat /var/lib/edge/broker/shares; cat /etc/mosquitto/conf.d/edge_share.conf")
    return f"{time.monotonic() - began:.0f} s, {' '.join(shares.split())}"


def _has_sessions(box: Box) -> bool:
    time.sleep(0.5)
    ledger = LedgerReader(data_dir(box))
    try:
        sql = "SELECT min(is_settled), max(session) FROM broker_account WHERE name NOT LIKE 'one%'"
        settled, most = ledger.one(sql)
        return bool(settled and most >= HONEST)
    finally:
        ledger.close()


def under(site: Site, what: str, act: Callable[[], str], before: float = 2, after: float = 3) -> bool:
    """Publish before, during and after an action, and compare acknowledged with recorded reads."""
    known = recorded(site.box)
    group = connect(site.ports.mqtt)
    with publishing(group):
        time.sleep(before)
        note = act()
        time.sleep(after)
    wait_until_quiet(group)
    acknowledged = [reader.acknowledged for reader in group]

    def counts() -> list[int]:
        return [new - old for new, old in zip(recorded(site.box), known, strict=True)]

    deadline = time.monotonic() + 60
    while counts() != acknowledged and time.monotonic() < deadline:
        time.sleep(0.5)
    for reader in group:
        reader.close()
    lost = sum(max(0, sent - came) for sent, came in zip(acknowledged, counts(), strict=True))
    print(
        f"{what}: {lost} of {sum(acknowledged)} acknowledged reads lost, {sum(counts())} recorded; {note}", flush=True
    )
    return not lost


def wait_until_quiet(group: list[Reader]) -> None:
    """Wait until no acknowledgement arrives for two seconds."""
    quiet, known = time.monotonic(), -1
    while time.monotonic() < quiet + 2:
        now = sum(reader.acknowledged for reader in group)
        if now != known:
            quiet, known = time.monotonic(), now
        time.sleep(0.1)


def flood(site: Site, seconds: float = 8) -> str:
    """Flood while edge is offline."""
    flooder = Reader(FLOODER, site.ports.mqtt)
    try:
        site.box.run("systemctl stop edge")
        flooder.flood(time.monotonic() + seconds)
        site.box.run("systemctl start edge")
        site.watch.wait_until_up()
    finally:
        flooder.close()
    return f"the flooder sent {flooder.acknowledged // 10} MB"


def upgrade(site: Site) -> str:
    number = "9.01" if version(site) != "9.01" else "9.02"
    fresh_release(site.box, number)
    site.box.run("edge upgrade /root/edge-new")
    site.watch.wait_until_up()
    keep_release(site.box)
    assert version(site) == number
    return f"{number} runs"


def broker_restart(site: Site) -> str:
    site.box.run("systemctl restart mosquitto")
    return "restarted"


def seconds_of(site: Site, unit: str) -> float:
    """Return the processor time of a unit."""
    pid = site.box.run(f"systemctl show -P MainPID {unit}").strip()
    fields = site.box.run(f"cat /proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def throughput(site: Site, kind: str) -> str:
    """Queue messages while edge is offline, and measure processor time until all are recorded."""
    known = sum(recorded(site.box, kind))
    group = connect(site.ports.mqtt, kind)
    site.box.run("systemctl stop edge")
    for count in range(BACKLOG):
        for number, reader in enumerate(group):
            reader.publish(payload(number, count))
        while count > 200 and sum(reader.acknowledged for reader in group) < (count - 200) * len(group):
            time.sleep(0.01)
    wait_until_quiet(group)
    sent = sum(reader.acknowledged for reader in group)
    broker = seconds_of(site, "mosquitto")
    site.box.run("systemctl start edge")
    site.watch.wait_until_up()
    began, own = time.monotonic(), seconds_of(site, "edge")
    wait_for(lambda: sum(recorded(site.box, kind)) - known >= sent or time.monotonic() > began + 120, PATIENCE)
    took = time.monotonic() - began
    own, broker = seconds_of(site, "edge") - own, seconds_of(site, "mosquitto") - broker
    came = sum(recorded(site.box, kind)) - known
    for reader in group:
        reader.close()
    return f"{came} of {sent} messages in {took:.1f} s, edge {own:.2f} s and mosquitto {broker:.2f} s of processor time"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", type=int, default=18800, help="the first of five free ports")
    parser.add_argument("--source", type=Path, default=ROOT)
    parser.add_argument("--keep", action="store_true", help="leave the box running")
    options = parser.parse_args()
    site = Site(Box(options.box, options.folder / "shares"), Ports(options.port))
    try:
        if is_installed(site.box):
            site.box.is_enabled = True
        else:
            print("install:", install(site.box, site.ports, options.source))
            site.watch.wait_until_up()
            make_readers(site.box)
        site.watch.wait_until_up()
        print(site.box.run("mosquitto -h | head -1; cat /etc/debian_version").split("\n"))
        print("sessions:", settle(site), flush=True)
        under(site, "flood", lambda: flood(site))
        under(site, "broker restarted", lambda: broker_restart(site))
        under(site, "upgrade", lambda: upgrade(site))
        for kind in ("own", "one", "own", "one"):
            print(
                f"throughput, {'16 sessions' if kind == 'own' else '1 session'}: {throughput(site, kind)}", flush=True
            )
    finally:
        site.close()
        if site.box.is_enabled and not options.keep:
            site.box.power_cut()


if __name__ == "__main__":
    main()
