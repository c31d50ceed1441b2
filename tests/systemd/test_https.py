"""systemd/edge-https: certificates for the names that the authority covers, and a report of the others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.security.test_changed_wheel import ALONE

pytestmark = pytest.mark.slow

SYSTEMD = Path(__file__).parents[2] / "systemd"
# Programs: a user namespace has no other users and no systemd.
PROGRAMS = {
    "systemctl": ":",
    "install": """kept=()
while [[ $# -gt 0 ]]; do case $1 in -o | -g) shift 2 ;; *) kept+=("$1"); shift ;; esac; done
exec /usr/bin/install "${kept[@]}"
""",
    "hostname": "cat /etc/hostname",
    "ip": 'while read -r address; do echo "2: eth0 inet $address scope global"; done </etc/addresses',
    "dpkg-query": "printf installed",
}
# Runs functions of the script in a process like that of the script.
START = """
import os, sys, time
sys.path.append(sys.argv[1])
from edge.operations.root import certificates, edge_https, programs
programs.begin("edge-https")
os.umask(0o077)
"""

WRITE = "edge_https.write_settings(edge_https.TOML.read_text(), edge_https.chosen())"


class Computer:
    """A box with changeable names and addresses; its authority was made for the first ones."""

    def __init__(self, folder: Path) -> None:
        self.etc, self.run_folder = folder / "etc", folder / "run"
        for path in ("etc/edge", "etc/caddy", "etc/mosquitto/certs", "run"):
            (folder / path).mkdir(parents=True)
        for path in ("ssl", "alternatives"):
            shutil.copytree(Path("/etc", path), self.etc / path, symlinks=True)
        (self.etc / "edge/https.conf").write_text("PORT=443\nREDIRECT_PORT=80\nMQTT_PORT=8883\nNAMES=\n")
        self.name("hall7", "192.168.4.20")
        self("edge_https.make_certificate(edge_https.chosen())")

    def name(self, hostname: str, *addresses: str) -> None:
        (self.etc / "hostname").write_text(f"{hostname}\n")
        (self.etc / "addresses").write_text("".join(f"{address}/24\n" for address in addresses))

    def __call__(self, code: str = "edge_https.renew()") -> str:
        """Run functions of the script. Returns its journal output."""
        done = self.run(code)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def run(self, code: str) -> subprocess.CompletedProcess[str]:
        programs = self.etc.parent / "programs"
        programs.mkdir(exist_ok=True)
        for name, text in PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/bash\n{text}\n")
            (programs / name).chmod(0o755)
        local = self.etc / "local"
        (local / "sbin").mkdir(parents=True, exist_ok=True)
        mounts = (
            f"mount --bind {local} /usr/local; mount --bind {self.etc} /etc; mount --bind {self.run_folder} /run;"
            f" mount -t tmpfs none /opt; mkdir -p /opt/edge/venv; ln -s {SYSTEMD} /opt/edge/venv/systemd;"
        )
        return subprocess.run(
            [*ALONE, f'{mounts} PATH={programs}:$PATH exec /usr/bin/python3 -I -S -B -c "$@"', "sh", START + code,
             SYSTEMD.parent],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def switch(self, public_url: str, code: str) -> str:
        """Write the settings of HTTPS, or switch it off. Returns the address of labels afterwards, and the output."""
        toml = self.etc / "edge/edge.toml"
        listen = "0.0.0.0:8080" if public_url.startswith("http:") else "127.0.0.1:8080"
        toml.write_text(f'[http]\nlisten = "{listen}"\npublic_url = "{public_url}"\n')
        self.answer_config(f"http.listen = {listen}")
        said = self(code)
        return toml.read_text().split('public_url = "')[1].split('"')[0] + "\n" + said

    def answer_config(self, line: str) -> None:
        edge = self.etc / "local/bin/edge"
        edge.parent.mkdir(parents=True, exist_ok=True)
        edge.write_text(f"#!/bin/sh\necho '{line}'\n")
        edge.chmod(0o755)

    def names(self) -> set[str]:
        certificate = self.etc / "caddy/edge/edge.crt"
        said = subprocess.run(
            ["openssl", "x509", "-in", certificate, "-noout", "-ext", "subjectAltName"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        return {name.split(":")[1] for name in said.splitlines()[1].split(", ")}

    def is_valid(self) -> bool:
        files = [self.etc / "edge/authority.crt", self.etc / "caddy/edge/edge.crt"]
        return (
            subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", *files], capture_output=True).returncode
            == 0
        )

    @property
    def warning(self) -> str | None:
        file = self.run_folder / "edge-https/warnings/uncovered-names"
        return file.read_text() if file.exists() else None


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    if (
        not shutil.which("unshare")
        or not shutil.which("openssl")
        or subprocess.run([*ALONE, "mount -t tmpfs none /opt"], capture_output=True).returncode
    ):
        lacks("a namespace of its own for mounts")
    return Computer(tmp_path)


def test_the_address_of_a_vpn_is_covered_from_the_beginning(computer: Computer) -> None:
    computer.name("hall7", "192.168.4.20", "100.101.102.103")
    computer()
    assert {"192.168.4.20", "100.101.102.103", "hall7"} <= computer.names()
    assert computer.warning is None


def test_the_name_in_the_network_is_covered(computer: Computer) -> None:
    (computer.etc / "avahi").mkdir()
    (computer.etc / "avahi/avahi-daemon.conf").write_text("[server]\nhost-name=edge-hall7\n")
    computer()
    assert "edge-hall7.local" in computer.names()
    assert computer.warning is None


def test_names_that_the_authority_does_not_cover_are_left_out_and_reported(computer: Computer) -> None:
    computer.name("newbox", "192.168.4.21", "203.0.113.9")
    said = computer()
    assert computer.is_valid()
    assert {"newbox.local", "192.168.4.21", "edge.local"} <= computer.names()
    assert not {"newbox", "203.0.113.9"} & computer.names()
    assert computer.warning is not None
    for text in (said, computer.warning):
        assert "HTTPS does not work at newbox, 203.0.113.9" in text
        assert "sudo edge-https renew" in text
    assert computer() == "", "it is reported once, and no certificate is made again"


def test_the_report_comes_again_after_a_boot_and_goes_when_the_name_does(computer: Computer) -> None:
    computer.name("newbox", "192.168.4.21")
    computer()
    shutil.rmtree(computer.run_folder / "edge-https")
    assert "HTTPS does not work at newbox" in computer()
    assert computer.warning is not None
    computer.name("hall7", "192.168.4.21")
    computer()
    assert computer.warning is None
    assert "hall7" in computer.names()


def test_a_certificate_of_an_earlier_release_has_no_list_of_them(computer: Computer) -> None:
    (computer.etc / "caddy/edge/edge.uncovered").unlink()
    assert computer() == ""
    computer.name("newbox", "192.168.4.21")
    assert "HTTPS does not work at newbox" in computer()


def test_an_old_certificate_is_renewed_while_a_name_is_not_covered(computer: Computer) -> None:
    computer.name("newbox", "192.168.4.21")
    computer()
    before = (computer.etc / "caddy/edge/edge.crt").read_bytes()
    computer("edge_https.RENEW_DAYS = 120; edge_https.renew()")
    assert (computer.etc / "caddy/edge/edge.crt").read_bytes() != before
    assert computer.is_valid()
    assert (computer.etc / "mosquitto/certs/edge.crt").read_bytes() == (
        computer.etc / "caddy/edge/edge.crt"
    ).read_bytes()


def test_a_new_authority_covers_the_names_of_now(computer: Computer) -> None:
    computer.name("newbox", "192.168.4.21", "203.0.113.9")
    computer()
    computer("certificates.AUTHORITY.unlink(); edge_https.make_certificate(edge_https.chosen())")
    assert {"newbox", "203.0.113.9"} <= computer.names()
    assert computer.warning is None


@pytest.mark.parametrize("name", ["authority.crt", "authority.key"])
def test_an_authority_that_a_power_cut_emptied_is_made_again(computer: Computer, name: str) -> None:
    (computer.etc / "edge" / name).write_bytes(b"")
    computer("edge_https.make_certificate(edge_https.chosen())")
    assert computer.is_valid()


def test_what_the_service_user_prints_is_no_script_for_root(computer: Computer) -> None:
    """The port comes from a program of the service's user, and a sed script can contain commands."""
    (computer.etc / "edge/edge.toml").touch()
    computer.answer_config("http.listen = 0.0.0.0:8080/;e touch /etc/owned #")
    done = computer.run(WRITE)
    assert done.returncode == 1
    assert "edge-https: the port of http.listen is not known" in done.stderr
    assert not (computer.etc / "owned").exists()


@pytest.mark.parametrize(
    ("before", "port", "after"),
    [
        ("http://hall7.local:8080", "443", "https://hall7.local"),
        ("http://192.168.4.20:8080/", "8443", "https://192.168.4.20:8443"),
        ("https://hall7.local", "443", "https://hall7.local"),
    ],
)
def test_the_address_of_labels_follows_when_https_is_switched_on(
    computer: Computer, before: str, port: str, after: str
) -> None:
    (computer.etc / "edge/https.conf").write_text(f"PORT={port}\nREDIRECT_PORT=80\nMQTT_PORT=8883\nNAMES=\n")
    said = computer.switch(before, WRITE)
    assert said.splitlines()[0] == after
    assert ("Print them again" in said) == (before != after)


def test_the_address_of_labels_follows_when_https_is_switched_off(computer: Computer) -> None:
    said = computer.switch("https://hall7.local", "edge_https.switch_off()")
    assert said.splitlines()[0] == "http://hall7.local:8080"


def test_an_address_that_is_not_of_this_box_is_kept_and_reported(computer: Computer) -> None:
    said = computer.switch("http://edge.example.com", WRITE)
    assert said.splitlines()[0] == "http://edge.example.com"
    assert "which is not a name of this box" in said


ON = 'edge_https.switch_on(edge_https.choice(["--as-before"]))'


def test_settings_that_stay_the_same_keep_their_time(computer: Computer) -> None:
    """An upgrade switches HTTPS on again, and the doctor compares this time with the start of the service."""
    (computer.etc / "mosquitto/conf.d").mkdir()
    toml = computer.etc / "edge/edge.toml"
    age = "os.utime(edge_https.TOML, (1_767_323_045, 1_767_323_045))"
    for public_url, is_new in (("http://hall7.local:8080", True), ("https://hall7.local", True)):
        assert "HTTPS is on" in computer.switch(public_url, f"{age}; {ON}")
        assert (toml.stat().st_mtime != 1_767_323_045) == is_new
    assert "HTTPS is on" in computer(f"{age}; {ON}")
    assert toml.stat().st_mtime == 1_767_323_045


def test_the_port_without_https_is_the_service_s_again_afterwards(computer: Computer) -> None:
    (computer.etc / "mosquitto/conf.d").mkdir()
    toml = computer.etc / "edge/edge.toml"
    computer.switch("http://hall7.local:8080", ON)
    assert 'listen = "127.0.0.1:18' in toml.read_text()
    assert "http://:80, http://:8080 {" in (computer.etc / "caddy/Caddyfile").read_text()
    computer("edge_https.switch_off()")
    assert 'listen = "0.0.0.0:8080"' in toml.read_text()
    assert 'public_url = "http://hall7.local:8080"' in toml.read_text()
