"""systemd/edge-https: certificates for the names that the authority covers, and a report of the others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.security.test_changed_wheel import ALONE

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "systemd" / "edge-https"
# A user namespace has no other users and no systemd.
STUBS = """
systemctl() { :; }
install() {
  local kept=()
  while [[ $# -gt 0 ]]; do case $1 in -o | -g) shift 2 ;; *) kept+=("$1"); shift ;; esac; done
  command install "${kept[@]}"
}
hostname() { cat /etc/hostname; }
ip() { while read -r address; do echo "2: eth0 inet $address scope global"; done </etc/addresses; }
export -f systemctl install hostname ip
"""


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
        self("make_authority; make_certificate")

    def name(self, hostname: str, *addresses: str) -> None:
        (self.etc / "hostname").write_text(f"{hostname}\n")
        (self.etc / "addresses").write_text("".join(f"{address}/24\n" for address in addresses))

    def __call__(self, command: str = "renew") -> str:
        """Run a function of the script. Returns its journal output."""
        mounts = f"mount --bind {self.etc} /etc; mount --bind {self.run_folder} /run; "
        functions = self.etc / "edge-https"  # without the final dispatch on the arguments
        text = SCRIPT.read_text().split("\ncase ${1:-} in")[0].replace("/usr/local/bin/edge", "edge")
        functions.write_text(text.replace("program=/opt/edge", f"program={self.etc.parent}/program"))
        done = subprocess.run(
            [*ALONE, f'{mounts} exec bash -c "$0"', f"{STUBS}\n. /etc/edge-https\n{command}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def switch(self, public_url: str, command: str) -> str:
        """Write the settings of HTTPS, or switch it off. Returns the address of labels afterwards, and the output."""
        venv = self.etc.parent / "program/venv"
        if not venv.exists():
            venv.mkdir(parents=True)
            (venv / "systemd").symlink_to(SCRIPT.parent)
        toml = self.etc / "edge/edge.toml"
        listen = "0.0.0.0:8080" if public_url.startswith("http:") else "127.0.0.1:8080"
        toml.write_text(f'[http]\nlisten = "{listen}"\npublic_url = "{public_url}"\n')
        said = self(f"edge() {{ echo 'http.listen = {listen}'; }}; {command}")
        return toml.read_text().split('public_url = "')[1].split('"')[0] + "\n" + said

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
        assert "sudo edge-https on --as-before" in text
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
    computer("renew_days=120; renew")
    assert (computer.etc / "caddy/edge/edge.crt").read_bytes() != before
    assert computer.is_valid()
    assert (computer.etc / "mosquitto/certs/edge.crt").read_bytes() == (
        computer.etc / "caddy/edge/edge.crt"
    ).read_bytes()


def test_a_new_authority_covers_the_names_of_now(computer: Computer) -> None:
    computer.name("newbox", "192.168.4.21", "203.0.113.9")
    computer()
    computer("rm /etc/edge/authority.crt; make_authority; make_certificate; report_uncovered")
    assert {"newbox", "203.0.113.9"} <= computer.names()
    assert computer.warning is None


@pytest.mark.parametrize("name", ["authority.crt", "authority.key"])
def test_an_authority_that_a_power_cut_emptied_is_made_again(computer: Computer, name: str) -> None:
    (computer.etc / "edge" / name).write_bytes(b"")
    computer("make_authority; make_certificate")
    assert computer.is_valid()


def test_what_the_service_user_prints_is_no_script_for_root(computer: Computer) -> None:
    """The port comes from a program of the service's user, and a sed script can contain commands."""
    (computer.etc / "edge/edge.toml").touch()
    edge = computer.etc / "local/bin/edge"
    edge.parent.mkdir(parents=True)
    edge.write_text("#!/bin/sh\necho 'http.listen = 0.0.0.0:8080/;e touch /etc/owned #'\n")
    edge.chmod(0o755)
    folder = (
        "mount -t tmpfs none /opt; mkdir -p /opt/edge/venv/systemd; echo @HTTP_PORT@ >/opt/edge/venv/systemd/Caddyfile"
    )
    said = computer(f"{folder}; mount --bind /etc/local /usr/local; (write_settings) || echo refused")
    assert "the port of http.listen is not known" in said
    assert "refused\n" in said
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
    said = computer.switch(before, "write_settings")
    assert said.splitlines()[0] == after
    assert ("Print them again" in said) == (before != after)


def test_the_address_of_labels_follows_when_https_is_switched_off(computer: Computer) -> None:
    said = computer.switch("https://hall7.local", "switch_off")
    assert said.splitlines()[0] == "http://hall7.local:8080"


def test_an_address_that_is_not_of_this_box_is_kept_and_reported(computer: Computer) -> None:
    said = computer.switch("http://edge.example.com", "write_settings")
    assert said.splitlines()[0] == "http://edge.example.com"
    assert "which is not a name of this box" in said


@pytest.mark.parametrize("public_url", ["https://hall7.local", "http://hall7.local:8080"])
def test_settings_that_stay_the_same_keep_their_time(computer: Computer, public_url: str) -> None:
    """An upgrade switches HTTPS on again, and the doctor compares this time with the start of the service."""
    (computer.etc / "mosquitto/conf.d").mkdir()
    toml = computer.etc / "edge/edge.toml"
    age = "touch -d 2026-01-02T03:04:05Z /etc/edge/edge.toml"
    quiet = "install_packages() { :; }; (($(date +%Y) >= 2026)) || date() { echo 2026; }"
    said = computer.switch(public_url, f"{quiet}; {age}; switch_on --as-before")
    assert "HTTPS is on" in said
    assert (toml.stat().st_mtime == 1_767_323_045) == public_url.startswith("https:")
