"""A power cut right after the first installation.

    python -m tests.soak.first_cut --box TOOL --folder DIR [--times 3]

As `forgetful`, but the whole system is on the disk that loses everything that was not flushed. The power is cut as
soon as install.sh has ended. Afterwards the site must work with its authority, accounts and first administrator.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from tests.soak.disk import mounted
from tests.soak.forgetful import Forgetful
from tests.soak.installed_site import EMAIL, PASSWORD, ROOT, Ports, Site, add_sudo, of_manual, put_checkout

MEGABYTES = 2_500
SETTLED = "systemctl is-active edge mosquitto caddy"
# What the installer has made: all of it must be there and complete, and work.
CHECKS = {
    "authority": "openssl x509 -in /etc/edge/authority.crt -noout -checkend 0"
    " && openssl pkey -in /etc/edge/authority.key -noout",
    "secrets": "test $(stat -c %s /etc/edge/signing.key) = 64 && test -s /etc/edge/mqtt.password",
    "units": SETTLED,
    "timers": "systemctl is-enabled edge edge-backup.timer edge-doctor.timer edge-https.timer caddy mosquitto",
    "empty files": "! find /etc/edge /etc/caddy /etc/mosquitto /opt/edge/releases/*/systemd -type f -empty"
    " ! -name '*.uncovered' ! -name edge.acl | grep .",
    "doctor": "edge backup >/dev/null && ! edge doctor | grep ^PROBLEM",
    "again": "cd /root/edge && systemd/install.sh --check --answers systemd/answers | grep -q ok",
}


def cut(tool: str, folder: Path, port: int, source: Path) -> list[str]:
    """Install, cut the power, and return what is missing afterwards."""
    below, disk_folder = folder / "below", folder / "disk"
    for one in (below, disk_folder):
        one.mkdir(parents=True)
    with mounted(disk_folder, below, MEGABYTES) as disk:
        box = Forgetful(tool, disk_folder / "box", disk)
        box.build()
        subprocess.run(["sync", "--file-system", str(disk_folder)], check=True)
        box.boot()
        answers = f"ORGANIZATION=Acme\nEMAIL={EMAIL}\nPASSWORD={PASSWORD}\n{Ports(port).answers()}"
        put_checkout(box, source, "/root/edge", answers)
        add_sudo(box)
        subprocess.run(["sync", "--file-system", str(disk_folder)], check=True)
        box.run("cd /root/edge && " + of_manual("install"))
        box.power_cut()
        site = Site(box, Ports(port))
        try:
            box.boot()
            problems = [
                f"{name}: {said.strip()[-300:]}"
                for name, check in CHECKS.items()
                if not (said := box.run(f"({check}) 2>&1 && echo DONE", check=False)).rstrip().endswith("DONE")
            ]
            if not problems:
                site.watch.wait_until_up()
                site.set_up()
            return problems
        finally:
            site.close()
            box.power_cut()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--port", type=int, default=18850, help="the first of five free ports")
    parser.add_argument("--source", type=Path, default=ROOT)
    options = parser.parse_args()
    for number in range(options.times):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            problems = cut(options.box, Path(folder), options.port, options.source)
        print(f"cut {number + 1}: {'; '.join(problems) or 'the site works'}", flush=True)


if __name__ == "__main__":
    main()
