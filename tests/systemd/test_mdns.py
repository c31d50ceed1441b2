"""systemd/edge-mdns: what avahi is told, in a file that it can read."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.security.test_changed_wheel import ALONE

SCRIPT = Path(__file__).parents[2] / "systemd" / "edge-mdns"


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """Of a computer with avahi, where `edge config` tells ports that are not the usual ones."""
    if (
        not shutil.which("unshare")
        or subprocess.run([*ALONE, "mount -t tmpfs none /opt"], capture_output=True).returncode
    ):
        lacks("a namespace of its own for mounts")
    (tmp_path / "etc/avahi/services").mkdir(parents=True)
    (tmp_path / "etc/avahi/avahi-daemon.conf").write_text("[server]\n#host-name=foo\n")
    (tmp_path / "local/bin").mkdir(parents=True)
    edge = tmp_path / "local/bin/edge"
    edge.write_text("#!/bin/sh\necho http.listen = 0.0.0.0:8081\necho mqtt.broker = mqtt://edge@127.0.0.1:1884\n")
    edge.chmod(0o755)
    return tmp_path / "etc"


def announce(etc: Path, before: str = "") -> Path:
    mounts = f"mount --bind {etc} /etc; mount --bind {etc.parent}/local /usr/local; "
    quiet = "systemctl() { :; }; export -f systemctl; "
    subprocess.run([*ALONE, f"{mounts} exec bash -c '{quiet} {before} {SCRIPT} on'"], check=True)
    return etc / "avahi/services/edge.service"


def test_pages_and_broker_are_announced_with_their_ports(etc: Path) -> None:
    told = re.findall(r"<type>(.*?)</type><port>(.*?)</port>", announce(etc).read_text())
    assert told == [("_http._tcp", "8081"), ("_mqtt._tcp", "1884")]
    assert "\nhost-name=edge\n" in (etc / "avahi/avahi-daemon.conf").read_text()


def test_with_https_the_secure_ports_are_announced_too(etc: Path) -> None:
    (etc / "edge").mkdir()
    (etc / "edge/https.conf").write_text("PORT=444\nREDIRECT_PORT=81\nMQTT_PORT=8884\n")
    told = re.findall(r"<type>(.*?)</type><port>(.*?)</port>", announce(etc).read_text())
    assert told == [("_https._tcp", "444"), ("_http._tcp", "81"), ("_secure-mqtt._tcp", "8884"), ("_mqtt._tcp", "1884")]


def test_avahi_can_read_it_whoever_asks_for_it(etc: Path) -> None:
    """edge-https keeps what it makes from everybody else: switched on later, it hid the box from its network."""
    assert announce(etc, "umask 077;").stat().st_mode & 0o777 == 0o644
