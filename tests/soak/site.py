"""Operations and accidents at a site on a real Debian: `python -m tests.soak.site --box TOOL --folder DIR`.

TOOL is a program that makes and runs a whole computer (see box.py), DIR a folder for its computers. The commands are
those of the manual. Prints a table: operation, sent reads, reads present, longest time without an answer.
"""

from __future__ import annotations

import argparse
import re
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from tests.soak.box import Box
from tests.soak.installed_site import (
    RATE,
    ROOT,
    Ports,
    Row,
    Site,
    attempt,
    install,
    main_pid,
    of_manual,
    show,
    wait_for,
)
from tests.soak.watching import Api

CURL_NOT_CONNECTED = "7"


def kill(site: Site) -> str:
    _signal(site, "KILL")
    return "started anew by systemd"


def freeze(site: Site) -> str:
    _signal(site, "STOP")
    return "started anew by the watchdog"


def _signal(site: Site, name: str) -> None:
    before = main_pid(site.box)
    site.box.run(f"systemctl kill -s {name} edge")
    wait_for(site.box, f"systemctl is-active -q edge && [ $(systemctl show -P MainPID edge) != {before} ]", 90)


def cut_power(site: Site) -> str:
    site.box.power_cut()
    site.box.boot()
    return ""


def reboot(site: Site) -> str:
    site.box.stop()
    site.box.boot()
    return ""


def spoil_queue_file(site: Site) -> str:
    """Cut the power with half of the broker's file written."""
    site.box.run("systemctl kill -s USR1 mosquitto; sleep 1; sync")
    site.box.power_cut()
    site.box.boot()
    site.box.run(
        "systemctl kill -s KILL mosquitto; systemctl stop mosquitto;"
        " f=/var/lib/mosquitto/mosquitto.db; head -c 30 $f >/tmp/half; head -c 4000 /dev/urandom >>/tmp/half;"
        " cat /tmp/half >$f;"
        " systemctl start mosquitto"
    )
    wait_for(site.box, "ls /var/lib/mosquitto/mosquitto.db.corrupt-* >/dev/null 2>&1")
    output = site.box.run("journalctl -u mosquitto --no-pager | grep -c 'queue file of the broker was damaged'").strip()
    site.box.run("edge doctor | grep -q 'WARNING warnings' && rm /var/lib/edge/warnings/*")
    return f"moved aside, {output} line in the journal, warned by doctor"


def put_garbage_into_queue(site: Site) -> str:
    """Damage the queue while edge is away: mosquitto skips unreadable messages, or refuses the file."""
    began = site.box.run("date +%s").strip()
    site.box.run(
        "rm -f /var/lib/mosquitto/mosquitto.db.corrupt-*; systemctl stop edge; sleep 5;"
        " systemctl kill -s USR1 mosquitto; sleep 1; systemctl stop mosquitto;"
        " f=/var/lib/mosquitto/mosquitto.db;"
        " dd if=/dev/urandom of=$f bs=1 seek=$(($(stat -c %s $f) / 2)) count=600 conv=notrunc status=none;"
        " systemctl start mosquitto edge"
    )
    output = site.box.run(f"journalctl -u mosquitto --since=@{began} -o cat --no-pager").splitlines()
    report = next(line for line in output if line.startswith("The queue file of the broker was damaged"))
    is_skipped = any("Unsupported chunk" in line for line in output)
    assert is_skipped == ("A copy is" in report), output
    assert site.box.run("ls /var/lib/mosquitto | grep -c corrupt-").strip() == "1"
    site.box.run("edge doctor | grep -q 'WARNING warnings.*was damaged' && rm /var/lib/edge/warnings/*")
    how = "mosquitto read a part, a copy was kept" if is_skipped else "mosquitto refused it, moved aside"
    return f"{how}, in the journal, warned by doctor; reads in the queue are lost"


def repair_database(site: Site) -> str:
    """Damage header, schema and secrets: undamaged pages are kept, the rest comes from the backup."""
    site.box.run("edge backup")
    output = site.box.run(
        "systemctl stop edge; cd /var/lib/edge;"
        " dd if=/dev/urandom of=edge.db bs=4096 count=3 conv=notrunc status=none; edge repair --yes;"
        " systemctl start edge; rm edge.db.before-*"
    )
    return " ".join(line for line in output.splitlines() if "rows" in line)


def install_again(site: Site) -> str:
    return install(site.box, site.ports)


def fill_disk(site: Site) -> Row:
    """Fill the file system of the data, 64 MB, to the last block."""
    assert site.reader
    box = site.box
    box.run("command -v mkfs.ext4 || apt-get install -y -qq --no-install-recommends e2fsprogs >/dev/null")
    box.run(
        "systemctl stop edge-probation edge;"
        " for n in $(seq 0 7); do [ -e /dev/loop$n ] || mknod -m 660 /dev/loop$n b 7 $n; done;"
        " truncate -s 64M /root/small.img; mkfs.ext4 -q -m 0 -b 4096 /root/small.img; mkdir -p /mnt/small;"
        " mount -o loop /root/small.img /mnt/small; cp -a /var/lib/edge/. /mnt/small/; umount /mnt/small;"
        " mount -o loop /root/small.img /var/lib/edge; chown edge:edge /var/lib/edge; chmod 750 /var/lib/edge;"
        " printf '\\n[retention]\\nlow_disk_mb = 0\\n' >>/etc/edge/edge.toml; systemctl start edge"
    )
    site.watch.wait_until_up()
    known, began = site.reader.acknowledged(), time.time_ns() // 1_000_000
    before = main_pid(box)
    with site.reader.publishing(RATE):
        time.sleep(2)
        create, read = _while_full(site)
        time.sleep(2)
    site.reader.wait_until_acknowledged()
    same = "the same process" if main_pid(box) == before else "another process"
    row = site.row(
        "disk full for 5 s",
        site.reader.acknowledged() - known,
        began,
        f"create {create}, read {read}, {same} afterwards",
    )
    box.run(
        "systemctl stop edge-probation edge; mkdir -p /root/kept; cp -a /var/lib/edge/. /root/kept/;"
        " umount /var/lib/edge; cp -a /root/kept/. /var/lib/edge/;"
        " sed -i '/^.retention.$/,$d' /etc/edge/edge.toml; systemctl start edge"
    )
    site.watch.wait_until_up()
    return row


def _while_full(site: Site) -> tuple[int, int]:
    """Return the status codes of a write and a read while the disk is full."""
    for name, block in (("filler", "64K"), ("rest", "512")):
        site.box.run(f"dd if=/dev/zero of=/var/lib/edge/{name} bs={block} 2>/dev/null || true")
    site.watch.begin()
    time.sleep(5)
    create = site.api.ask("POST", "/api/v1/assets", {"name": "x", "metadata": {"x": "y" * 50_000}})[0]
    read = site.api.ask("GET", "/api/v1/reports/asset-locations")[0]
    site.box.run("rm /var/lib/edge/filler /var/lib/edge/rest")
    return create, read


def back_up(site: Site) -> str:
    site.box.run(of_manual("backup"))
    return "taken, checked and compressed meanwhile"


def move_to(first: Site, second: Site) -> Row:
    """Restore the newest backup on a fresh box: all its data is present, and the reader's account works."""
    assert first.reader
    name = first.box.run("ls /var/lib/edge/backups | grep gz$ | tail -1").strip()  # without marks that pin backups
    sent = first.reader.acknowledged()
    until = int(first.box.run(f"date -d @$(stat -c %Y /var/lib/edge/backups/{name}) +%s%3N"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(bytes.fromhex(first.box.run(f"od -An -v -tx1 /var/lib/edge/backups/{name} | tr -d ' \\n'")))
        second.box.put(file, f"/var/lib/edge/backups/{name}")
    second.box.run(
        f"chown -R edge:edge /var/lib/edge/backups; FILE=/var/lib/edge/backups/{name}\n" + of_manual("restore")
    )
    second.watch.wait_until_up()
    second.api.use_key_of(first.api)
    second.account = first.account
    second.connect()
    due = {moment for moment in sent if moment < until - 2000}
    due &= set(first.api.history(first.asset_id, min(due) - 1, max(due)))  # earlier steps lost reads on purpose
    second.watch.begin()
    second.row("restore on a second box: reads of before", due, min(due) - 1)
    return second.under_load("... the reader goes on there", lambda: None)


def use_https(site: Site) -> str:
    """Connect with the authority from /certificate, after comparing its fingerprint."""
    port = site.ports.https
    certificate = site.box.run(f"curl -fsS http://127.0.0.1:{port + 1}/certificate/edge-authority.crt")
    digest = sha256(ssl.PEM_cert_to_DER_cert(certificate)).digest().hex(":").upper()
    assert digest in site.box.run(of_manual("https"))
    context = ssl.create_default_context(cadata=certificate)
    secure = Api(f"https://127.0.0.1:{port}", context)
    secure.use_key_of(site.api)
    key = secure.get(f"/api/v1/assets/{site.asset_id}")["data"]["external_key"]
    assert "only for this box" in _of_another_address(site)
    with socket.create_connection(("127.0.0.1", port + 2)) as plain:
        tls = context.wrap_socket(plain, server_hostname="127.0.0.1").version()
    return f"{key} read with the authority of /certificate alone; the broker speaks {tls}"


def _of_another_address(site: Site) -> str:
    """Check that the service behind Caddy answers no other address."""
    code = site.box.run(
        'address=$(ip -o -4 addr show scope global | awk \'{ sub("/.*", "", $4); print $4; exit }\');'
        f" curl -s -o /dev/null --max-time 3 http://$address:{site.ports.http}/healthz || echo $?"
    ).strip()
    return "only for this box" if code == CURL_NOT_CONNECTED else f"curl ended with {code}"


def plant_links(site: Site) -> str:
    """Plant links as an attacker who controls the service or the broker, to become root."""
    box = site.box
    state = "stat -c '%a %U %n' /etc /etc/passwd /etc/hostname; md5sum /etc/shadow /etc/passwd /etc/hostname"
    before = box.run(state)
    box.run("runuser -u edge -- sh -c 'cd /var/lib/edge; mv broker broker.was; ln -s /etc broker'")
    box.run("cd /root/edge && systemd/install.sh", check=False)
    box.run(
        "runuser -u edge -- sh -c 'cd /var/lib/edge; rm broker; mv broker.was broker; ln -sf /etc/shadow broker/passwd'"
    )
    box.run("systemctl start edge-accounts", check=False)
    assert "root:" not in box.run("cat /etc/mosquitto/edge.passwd")
    box.run(
        "rm /var/lib/edge/broker/*; edge accounts; systemctl reset-failed edge-accounts; systemctl stop mosquitto;"
        " setpriv --reuid=mosquitto --regid=mosquitto --clear-groups sh -c"
        " 'cd /var/lib/mosquitto; rm -f mosquitto.db*; ln -s /etc/hostname mosquitto.db';"
        " systemctl start mosquitto; rm -f /var/lib/mosquitto/*.corrupt-* /var/lib/edge/warnings/*"
    )
    assert box.run(state) == before
    return "nothing of root's was read, written or given away"


def run_low(site: Site) -> str:
    """Set a limit below the free space: the oldest slice is dropped and reported, and positions are kept."""

    def rows() -> int:
        return int(site.api.get(f"/api/v1/assets/{site.asset_id}/history?limit=1")["total_count"])

    before = rows()
    site.box.run("printf '\\n[retention]\\nlow_disk_mb = 1000000\\n' >>/etc/edge/edge.toml; systemctl restart edge")
    wait_for(site.box, "edge doctor | grep -q 'WARNING history'")
    left = rows()
    assert 0 < left < before
    assert site.api.get("/api/v1/reports/asset-locations")["data"][0]["location_external_key"] == "DOCK-1"
    site.box.run("sed -i '/^.retention.$/,$d' /etc/edge/edge.toml; systemctl restart edge")
    return f"{before - left} of {before} rows of history dropped and told, the position stays"


def log_volume(site: Site, seconds: float, rate: float) -> str:
    assert site.reader
    count = "journalctl -u edge -o cat --no-pager | wc -c"
    before = int(site.box.run(count))
    with site.reader.publishing(rate):
        time.sleep(seconds)
    day = (int(site.box.run(count)) - before) * 86400 / seconds
    return f"{day / 1e6:.2f} MB of log a day at {rate:.0f} messages a second"


def uninstall(site: Site) -> str:
    site.box.run("cd /root/edge && " + of_manual("uninstall"))
    left = site.box.run("ls /opt /etc/edge /var/lib/edge; ls /etc/systemd/system; command -v edge || true")
    assert "edge.db" in left, left
    assert "edge.service" not in left, left
    assert "/usr/local/bin/edge" not in left, left
    return "program gone, settings, database and backups kept"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", type=int, default=18500, help="the first of ten free ports")
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--only", default="", help="pattern of the operations that run")
    parser.add_argument("--source", type=Path, default=ROOT, help="the repository that is installed")
    options = parser.parse_args()
    port = options.port
    first = Site(Box(options.box, options.folder / "first"), Ports(port))
    second = Site(Box(options.box, options.folder / "second"), Ports(port + 5))
    print("| what | reads sent | found | twice | down (s) | |\n|---|---|---|---|---|---|")
    try:
        show(Row("install", None, None, None, None, install(first.box, first.ports, options.source)))
        first.watch.wait_until_up()
        first.set_up()
        for what, act in acts(first, second, options.cuts, options.source).items():
            if re.search(options.only, what):
                attempt(what, act)
    finally:
        for site in (first, second):
            site.close()
            if site.box.is_enabled:
                site.box.power_cut()
    if first.lost or second.lost:
        sys.exit("reads were lost outside of the limits")


def acts(first: Site, second: Site, cuts: int, source: Path) -> dict[str, Callable[[], Row]]:
    def load(
        what: str, act: Callable[[Site], str | None], seconds: float = 2, times: int = 1, is_lossy: bool = False
    ) -> Callable[[], Row]:
        return lambda: first.under_load(
            what, lambda: act(first), before=seconds, after=seconds, times=times, is_lossy=is_lossy
        )

    def alone(what: str, act: Callable[[], str]) -> Callable[[], Row]:
        return lambda: show(Row(what, None, None, None, None, act()))

    loads: dict[str, Callable[[Site], str | None]] = {
        "corrupt queue file of mosquitto": spoil_queue_file,
        "garbage inside mosquitto's file": put_garbage_into_queue,
        "header, schema and secrets damaged, repaired": repair_database,
        "install again": install_again,
        "backup": back_up,
    }
    return {
        "nothing happens": load("nothing happens", lambda _: None, seconds=5),
        "boot": load("boot", reboot),
        "kill -9": load("kill -9", kill),
        "SIGSTOP": load("SIGSTOP", freeze),
        "power cuts": load(f"power cut, {cuts} times", cut_power, times=cuts),
        **{what: load(what, act, is_lossy=act is put_garbage_into_queue) for what, act in loads.items()},
        "disk full for 5 s": lambda: fill_disk(first),
        "second box": alone("install on a second box", lambda: install(second.box, second.ports, source)),
        "second box: restore": lambda: move_to(first, second),
        "HTTPS": load("HTTPS", use_https),
        "links to root's files": alone("links to root's files", lambda: plant_links(first)),
        "log": alone("log", lambda: log_volume(first, 30, 20)),
        "disk low": alone("disk low", lambda: run_low(first)),
        "uninstall": alone("uninstall", lambda: uninstall(first)),
    }


if __name__ == "__main__":
    main()
