"""Obstacles on other people's computers: each must end the installation with one sentence and no change.

    python -m tests.soak.machines --box TOOL --folder DIR [--bundle FILE]

See box.py for TOOL. Each obstacle is added to a fresh Debian, `install.sh` is run, and the obstacle is removed. At the
end edge is installed without a time zone and with half a core. With a bundle of systemd/make-bundle.sh it is installed
without any network, after an attempt with a modified bundle.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.soak.box import Box

ROOT = Path(__file__).parents[2]
INSTALL = "systemd/install.sh --answers systemd/answers"


class Obstacle(NamedTuple):
    what: str
    put: str
    take_away: str
    expected_text: str  # required part of the sentence


def obstacles(port: int) -> list[Obstacle]:
    return [
        Obstacle(
            "a port that is taken",
            f"python3 -m http.server {port} >/dev/null 2>&1 & echo $! >/root/taker; sleep 1",
            "kill $(cat /root/taker)",
            f"Port {port}",
        ),
        Obstacle(
            "a mosquitto with settings of its own",
            "mkdir -p /etc/mosquitto/conf.d; echo 'listener 1884' >/etc/mosquitto/conf.d/mine.conf",
            "rm -r /etc/mosquitto",
            "mosquitto on this computer has settings of its own",
        ),
        Obstacle(
            "a full disk",
            "mount -t tmpfs -o size=50m none /opt",
            "umount /opt",
            "Only 50 MB are free in /opt",
        ),
        Obstacle(
            "a read-only disk",
            "mount --bind /etc /etc; mount -o remount,bind,ro /etc",
            "umount /etc",
            "/etc is read-only",
        ),
        Obstacle(
            "256 MB of memory",
            "echo 'MemTotal: 262144 kB' >/root/meminfo; mount --bind /root/meminfo /proc/meminfo",
            "umount /proc/meminfo",
            "has 256 MB",
        ),
        Obstacle("a person called edge", "useradd -m edge", "userdel -r edge 2>/dev/null", "a user called edge"),
        Obstacle("another program in /opt/edge", "mkdir /opt/edge", "rmdir /opt/edge", "belongs to another program"),
        Obstacle(
            "Debian 11",
            "cp /etc/os-release /root/; sed -i 's/^VERSION_ID=.*/VERSION_ID=11/' /usr/lib/os-release",
            "cat /root/os-release >/usr/lib/os-release",
            "This is Debian 11",
        ),
    ]


def refused(box: Box, obstacle: Obstacle) -> str:
    """Add the obstacle and install. Returns the output, which must be one sentence."""
    box.run(obstacle.put)
    before = state(box)
    try:
        check = box.run("cd /root/edge && systemd/install.sh --check --answers systemd/answers; true", check=False)
        said = box.run(
            "cd /root/edge && systemd/install.sh --answers systemd/answers 2>&1 && echo INSTALLED", check=False
        )
        changed = state(box) ^ before
    finally:
        box.run(obstacle.take_away)
    if changed:
        raise AssertionError(f"{obstacle.what}: changed {sorted(changed)[:6]}")
    lines = [line for line in said.splitlines() if line.startswith("STOP")]
    if len(lines) != 1 or obstacle.expected_text not in lines[0] or lines[0] not in check or "INSTALLED" in said:
        raise AssertionError(f"{obstacle.what}: {said}")
    return lines[0].removeprefix("STOP").strip()


def state(box: Box) -> set[str]:
    """Return every file that an installation may touch, with size and time, and every package."""
    list_files = "find /etc /usr/local /var/lib/mosquitto /var/lib/edge /etc/systemd -type f ! -name .edge-check"
    return set(box.run(f"{list_files} -printf '%p %s %T@\\n' 2>/dev/null; dpkg -l", check=False).splitlines())


def firewall(box: Box) -> str:
    """Check the firewall obstacle in a separate network namespace, because a box shares the host's network."""
    box.run("command -v nft || apt-get install -y -qq --no-install-recommends nftables >/dev/null")
    rule = "nft add table inet f; nft add chain inet f in '{ type filter hook input priority 0; policy drop; }'"
    said = box.run(f'unshare -n sh -c "{rule}; cd /root/edge; systemd/install.sh --check --answers systemd/answers"')
    note = [line for line in said.splitlines() if line.startswith("NOTE") and "firewall" in line]
    if len(note) != 1:
        raise AssertionError(said)
    return note[0].removeprefix("NOTE").strip()


def spoilt_bundle(box: Box) -> str:
    """Return a bundle with one changed byte in a wheel."""
    before = state(box)
    box.run(
        "mkdir /root/b; tar xf /root/bundle.tar -C /root/b; f=$(ls /root/b/wheels/*.whl | head -1);"
        " printf x | dd of=$f bs=1 seek=1000 conv=notrunc 2>/dev/null; tar cf /root/bad.tar -C /root/b .; rm -r /root/b"
    )
    said = box.run(
        f"cd /root/edge && {INSTALL} --offline /root/bad.tar 2>&1 && echo INSTALLED",
        check=False,
    )
    if "is damaged" not in said or "nothing was changed" not in said or "INSTALLED" in said or state(box) != before:
        raise AssertionError(said)
    return said.strip().splitlines()[-1]


def install_oddly(box: Box, is_offline: bool) -> str:
    """Install without a time zone and with half a core for the service; offline without any network."""
    box.run(
        "rm -f /etc/localtime /etc/timezone; mkdir -p /etc/systemd/system/edge.service.d;"
        " printf '[Service]\\nCPUQuota=50%%\\n' >/etc/systemd/system/edge.service.d/half.conf"
    )
    command = INSTALL
    if is_offline:
        command = f"unshare -n {command} --offline /root/bundle.tar"
    said = box.run(f"cd /root/edge && env -u PIP_FIND_LINKS -u PIP_CERT {command} 2>&1")
    if "edge runs on this box" not in said:
        raise AssertionError(said)
    return box.run("edge doctor | grep -c '^ok'; true").strip() + " checks of the doctor ok"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", type=int, default=18600, help="the first of five free ports")
    parser.add_argument("--bundle", type=Path, help="of this very checkout")
    parser.add_argument("--source", type=Path, default=ROOT)
    options = parser.parse_args()
    box = Box(options.box, options.folder / "machine")
    box.build()
    box.boot()
    try:
        put_checkout(box, options.source, options.port)
        print("| what is in the way | what is said |\n|---|---|")
        for obstacle in obstacles(options.port):
            print(f"| {obstacle.what} | {refused(box, obstacle)} |", flush=True)
        print(f"| a firewall | {firewall(box)} |", flush=True)
        if options.bundle:
            box.put(options.bundle, "/root/bundle.tar")
            print(f"| a bundle with one byte changed | {spoilt_bundle(box)} |", flush=True)
        print(f"| no time zone, half a core{', no network' if options.bundle else ''} | installed, "
              f"{install_oddly(box, bool(options.bundle))} |")  # fmt: skip
    finally:
        box.power_cut()


def put_checkout(box: Box, source: Path, port: int) -> None:
    names = ("HTTP_PORT", "MQTT_PORT", "HTTPS_PORT", "REDIRECT_PORT", "MQTTS_PORT")
    ports = "".join(f"{name}={port + number}\n" for number, name in enumerate(names))
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "edge"
        subprocess.run(["git", "clone", "-q", str(source), str(checkout)], check=True)
        (checkout / "systemd" / "answers").write_text(
            f"ORGANIZATION=Acme\nEMAIL=admin@example.com\nPASSWORD=correct horse battery\n{ports}"
        )
        box.put(checkout, "/root/edge")


if __name__ == "__main__":
    main()
