"""systemd/edge-mdns: the service file for avahi, readable by avahi."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.security.test_changed_wheel import ALONE

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "systemd" / "edge-mdns"


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """Return /etc of a computer with avahi and unusual ports in `edge config`."""
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
    subprocess.run([*ALONE, f"{mounts} {before} {SCRIPT} on"], check=True, env=quiet(etc))
    return etc / "avahi/services/edge.service"


def rename(etc: Path, name: str) -> subprocess.CompletedProcess[str]:
    mounts = f"mount --bind {etc} /etc; mount --bind {etc.parent}/local /usr/local; "
    command = [*ALONE, f"{mounts} {SCRIPT} name {name}"]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=quiet(etc))


def quiet(etc: Path) -> dict[str, str]:
    """Return an environment without systemd."""
    programs = etc.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "systemctl").write_text("#!/bin/sh\n")
    (programs / "systemctl").chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}


def test_a_site_has_a_name_of_its_own_which_is_kept(etc: Path) -> None:
    conf = etc / "avahi/avahi-daemon.conf"
    for name in ("edge-hall7", "edge-hall8.local", "Edge-Hall8.Local"):
        assert rename(etc, name).returncode == 0
        assert f"\nhost-name={name.lower().removesuffix('.local')}\n" in conf.read_text()
    announce(etc)
    assert re.findall("^#?host-name=.*", conf.read_text(), re.MULTILINE) == ["host-name=edge-hall8"]


def test_a_new_name_is_in_the_address_that_labels_carry(etc: Path) -> None:
    rename(etc, "hall7")
    (etc / "edge").mkdir()
    toml = etc / "edge/edge.toml"
    for before, after in (
        ("https://hall7.local", "https://hall8.local"),
        ("https://hall7.local:8443", "https://hall8.local:8443"),
        ("https://edge.example.com", "https://edge.example.com"),
        ("https://hall7.localdomain", "https://hall7.localdomain"),
    ):
        (etc / "avahi/avahi-daemon.conf").write_text("[server]\nhost-name=hall7\n")
        toml.write_text(f'[http]\npublic_url = "{before}"\n')
        done = rename(etc, "hall8")
        assert toml.read_text() == f'[http]\npublic_url = "{after}"\n', done.stderr
        assert ("no longer work" in done.stdout) == (before != after)


@pytest.mark.parametrize("name", ["hall_7", "-hall", "hallé", "a.b"])
def test_what_cannot_be_a_name_is_refused(etc: Path, name: str) -> None:
    before = (etc / "avahi/avahi-daemon.conf").read_text()
    done = rename(etc, name)
    assert (done.returncode, "is not a name" in done.stderr) == (1, True)
    assert (etc / "avahi/avahi-daemon.conf").read_text() == before


def test_pages_and_broker_are_announced_with_their_ports(etc: Path) -> None:
    ads = re.findall(r"<type>(.*?)</type><port>(.*?)</port>", announce(etc).read_text())
    assert ads == [("_http._tcp", "8081"), ("_mqtt._tcp", "1884")]
    assert "\nhost-name=edge\n" in (etc / "avahi/avahi-daemon.conf").read_text()


def test_with_https_the_secure_ports_are_announced_too(etc: Path) -> None:
    (etc / "edge").mkdir()
    (etc / "edge/https.conf").write_text("PORT=444\nREDIRECT_PORT=81\nMQTT_PORT=8884\n")
    ads = re.findall(r"<type>(.*?)</type><port>(.*?)</port>", announce(etc).read_text())
    assert ads == [
        ("_https._tcp", "444"),
        ("_http._tcp", "81"),
        ("_secure-mqtt._tcp", "8884"),
        ("_mqtt._tcp", "1884"),
    ]


def test_avahi_can_read_the_file_with_any_umask(etc: Path) -> None:
    """edge-https, which calls the script, has a umask that would make the file unreadable for avahi."""
    assert announce(etc, "umask 077;").stat().st_mode & 0o777 == 0o644
