"""Sandboxes of broker and web server equal that of the service, and only root can read an installer's answers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SYSTEMD = Path(__file__).parents[2] / "systemd"
# The web server needs ports below 1024, which rules out PrivateUsers.
EXCEPTIONS = {
    "mosquitto-check.conf": set(),
    "caddy.conf": {"CapabilityBoundingSet=", "AmbientCapabilities=", "PrivateUsers=yes"},
}


def confinement(name: str) -> set[str]:
    """Return the sandbox settings of a unit; address families by name only."""
    lines = (SYSTEMD / name).read_text("utf-8").partition("[Service]")[2].splitlines()
    prefixes = (
        "Protect",
        "Private",
        "Restrict",
        "SystemCall",
        "Capability",
        "Ambient",
        "NoNew",
        "Lock",
        "MemoryDeny",
        "Device",
    )
    settings = {
        line for line in lines if line.startswith(prefixes) and not line.startswith("Restrict" + "AddressFamilies")
    }
    return {line for line in settings if not line.startswith("RestartPrevent")}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_broker_and_web_server_have_the_sandbox_of_the_service(name: str) -> None:
    assert confinement("edge.service") - confinement(name) == EXCEPTIONS[name]
    assert "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX" in (SYSTEMD / name).read_text("utf-8")


def test_the_check_of_the_queue_file_keeps_the_powers_that_it_needs() -> None:
    text = (SYSTEMD / "mosquitto-check.conf").read_text("utf-8")
    assert "ExecStartPre=+/opt/edge/venv/systemd/edge-broker-check" in text
    assert "User=mosquitto" in text


def test_answers_are_for_root_alone_once_they_were_read(tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    answers.write_text("ORGANIZATION=Acme\nPASSWORD=correct horse battery\n")
    answers.chmod(0o644)
    functions = f"sed -n '/^read_answers/,/^}}/p; /^password_fault/,/^}}/p' {SYSTEMD}/install.sh"
    settings = f"least=12 data={tmp_path} checkout={SYSTEMD.parent}"
    script = f'eval "$({functions})"; {settings}; read_answers "$1"; printf "%s" "$organization"'
    done = subprocess.run(["bash", "-euc", script, "bash", str(answers)], capture_output=True, text=True, check=True)
    assert done.stdout == "Acme"
    assert answers.stat().st_mode & 0o777 == 0o600


def test_the_package_removes_the_answers_that_it_used(tmp_path: Path) -> None:
    """Run the package's script with replaced commands and folders."""
    text = (SYSTEMD / "make-deb.sh").read_text("utf-8")
    script = text.partition("<<'POSTINST'\n")[2].partition("\nPOSTINST\n")[0]
    answers = tmp_path / "answers"
    answers.write_text("PASSWORD=correct horse battery\n")
    setup = tmp_path / "edge-setup"
    setup.write_text("#!/bin/sh\ntest -f " + str(answers) + "\n")
    setup.chmod(0o755)
    here = script.replace("/etc/edge/answers", str(answers)).replace("/var/lib/edge/edge.db", str(tmp_path / "none"))
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", here, "postinst", "configure"], check=True, env=environment)
    assert not answers.exists()


@pytest.mark.parametrize("unit", sorted(path.name for path in SYSTEMD.glob("*.service")))
def test_every_service_starts_something(unit: str) -> None:
    """systemd refuses a unit without it, and nobody notices until the unit is needed."""
    assert "\nExecStart=/" in (SYSTEMD / unit).read_text()
