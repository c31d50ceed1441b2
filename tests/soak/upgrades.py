"""Another release, and another drive, under load: `python -m tests.soak.upgrades --box TOOL --folder DIR`.

Upgrades that work, that are broken, and whose power is cut off at the switch; the continuous backup on a drive that is
filled up, pulled out and plugged in again, and what comes back from it. The table is that of site.py.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.soak.box import Box
from tests.soak.site import ROOT, Ports, Row, Site, install, show, wait_for

NEW = "/root/edge-new"


def fresh_release(box: Box, version: str, change: str = "true") -> None:
    """The checkout once more, as another version, with a change made to it."""
    box.run(
        f"rm -rf {NEW}; cp -a /root/edge {NEW}; cd {NEW};"
        f" sed -i 's/__version__ = .*/__version__ = \"{version}\"/' edge/__init__.py; {change}"
    )


def upgrade(site: Site) -> str:
    fresh_release(site.box, "9.1")
    site.box.run(f"edge upgrade {NEW}")
    return site.box.run("edge --version").strip()


def broken(site: Site, change: str) -> str:
    fresh_release(site.box, "9.2", change)
    said = site.box.run(f"edge upgrade {NEW} 2>&1 && echo WENT THROUGH", check=False)
    assert "WENT THROUGH" not in said, said
    assert "9.1" in site.box.run("edge --version")
    return said.strip().splitlines()[-1]


def power_cut_at_switch(site: Site) -> str:
    """As soon as there is something to go back from."""
    fresh_release(site.box, "9.3")
    site.box.run(f"systemd-run --quiet --unit=the-upgrade /usr/local/bin/edge upgrade {NEW}")
    wait_for(site.box, "test -e /opt/edge/upgrade", 180)
    site.box.power_cut()
    site.box.boot()
    wait_for(site.box, "test ! -e /opt/edge/upgrade && systemctl is-active -q edge", 90)
    return site.box.run("edge --version").strip() + " runs"


def plug_in_drive(site: Site) -> str:
    site.box.run(
        "for n in $(seq 0 7); do [ -e /dev/loop$n ] || mknod -m 660 /dev/loop$n b 7 $n; done;"
        " truncate -s 300M /root/usb.img; mkfs.ext4 -q -m 0 /root/usb.img; mkdir -p /mnt/usb;"
        " mount -o loop /root/usb.img /mnt/usb; install -d -o edge -g edge /mnt/usb/edge;"
        " sed -i 's|^\\[backup\\]|[backup]\\ncontinuous_dir = \"/mnt/usb/edge\"|' /etc/edge/edge.toml;"
        " systemctl restart edge"
    )
    return follows(site, True)


def follows(site: Site, wanted: bool) -> str:
    """Waits until the doctor says so, and returns what it says."""
    began = time.monotonic()
    sign = "ok" if wanted else "PROBLEM"
    wait_for(site.box, f"edge doctor | grep -q '^{sign} *backup-continuous'", 90)
    said = site.box.run("edge doctor | grep backup-continuous").strip()
    return f"{said} ({time.monotonic() - began:.0f} s)"


def fill_drive(site: Site) -> str:
    fill = "dd if=/dev/zero of=/mnt/usb/filler bs=1M 2>/dev/null || true"
    return without_drive(site, fill, mended_by="rm /mnt/usb/filler")


def pull_out_drive(site: Site) -> str:
    return without_drive(site, "umount -l /mnt/usb", mended_by="mount -o loop /root/usb.img /mnt/usb")


def without_drive(site: Site, fault: str, *, mended_by: str) -> str:
    """What the doctor says meanwhile; afterwards every change follows again."""
    site.box.run(fault)
    said = follows(site, False)
    site.box.run(mended_by)
    follows(site, True)
    return said


def restore_newest(site: Site) -> str:
    """The disk with the database is lost at once; what was acknowledged seconds before is on the drive."""
    time.sleep(3)
    site.box.run("systemctl stop mosquitto; sleep 3; systemctl kill -s KILL edge; systemctl stop edge")
    site.box.run("rm -rf /var/lib/edge/edge.db* /var/lib/edge/.edge.db-litestream")
    said = site.box.run("edge restore --yes; systemctl start edge mosquitto")
    return said.strip().splitlines()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", type=int, default=18700, help="the first of five free ports")
    parser.add_argument("--source", type=Path, default=ROOT)
    options = parser.parse_args()
    site = Site(Box(options.box, options.folder / "upgrades"), Ports(options.port))
    print("| what | reads sent | found | twice | down (s) | |\n|---|---|---|---|---|---|")

    def under_load(what: str, act: Callable[[Site], str]) -> None:
        try:
            site.under_load(what, lambda: act(site))
        except (RuntimeError, TimeoutError, AssertionError, subprocess.CalledProcessError) as error:
            show(Row(what, None, None, None, None, f"FAILED: {str(error)[-600:]}"))

    try:
        show(Row("install", None, None, None, None, install(site.box, site.ports, options.source)))
        site.watch.wait_until_up()
        site.set_up()
        under_load("drive plugged in", plug_in_drive)
        under_load("drive full", fill_drive)
        under_load("drive pulled out", pull_out_drive)
        under_load("database lost, newest point restored", restore_newest)
        under_load("upgrade", upgrade)
        under_load("upgrade with a syntax error", lambda it: broken(it, "echo 'def' >>edge/runtime.py"))
        under_load("upgrade whose page fails", lambda it: broken(it, "echo '{{ 1/0 }}' >web/templates/board.html"))
        under_load("upgrade, power cut at the switch", power_cut_at_switch)
    finally:
        site.close()
        if site.box.is_enabled:
            site.box.power_cut()


if __name__ == "__main__":
    main()
