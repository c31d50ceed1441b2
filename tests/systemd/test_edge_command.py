"""The command and the scripts run programs as the service's user, and never in root's terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.security.test_changed_wheel import ALONE

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "systemd" / "edge"
LOOK = """#!/bin/sh
echo "arguments: $*"
if ( : >/dev/tty ) 2>/dev/null; then echo "terminal: $(ps -o tty= -p $$)"; else echo "terminal: none"; fi
exit 7
"""


def prepared(tmp_path: Path, run: str) -> list[str]:
    """Return a command that runs a script with a program that reports its terminal. The user edge is nobody."""
    if os.geteuid() or subprocess.run([*ALONE, "mount -t tmpfs none /opt"], capture_output=True).returncode:
        lacks("root, and a namespace of its own for mounts")
    users = tmp_path / "passwd"
    users.write_text(Path("/etc/passwd").read_text() + "edge:x:65534:65534::/:/usr/sbin/nologin\n")
    groups = tmp_path / "group"
    groups.write_text(Path("/etc/group").read_text() + "edge:x:65534:\nsystemd-journal:x:65533:\n")
    (tmp_path / "look").write_text(LOOK)
    script = (
        f"mount -t tmpfs none /opt; mkdir -p /opt/edge/venv/bin;"
        f" install -m 755 {tmp_path}/look /opt/edge/venv/bin/edge;"
        f" chmod 755 /opt; mount --bind {users} /etc/passwd; mount --bind {groups} /etc/group;"
        f" echo mine: $(ps -o tty= -p $$); cd /; {run}"
    )
    return ["unshare", "--mount", "sh", "-uc", script]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    return prepared(tmp_path, f"{SCRIPT} status --json 'a b'")


def in_a_terminal(command: list[str]) -> str:
    said = b""

    def read(descriptor: int) -> bytes:
        nonlocal said
        chunk = os.read(descriptor, 10_000)
        said += chunk
        return chunk

    code = os.waitstatus_to_exitcode(pty.spawn(command, read, lambda _: b""))
    return f"{said.decode()}\ncode {code}"


def test_in_a_terminal_it_has_another_one(command: list[str]) -> None:
    said = in_a_terminal(command)
    lines = dict(line.strip().split(": ", 1) for line in said.splitlines() if ": " in line)
    assert lines["arguments"] == "status --json a b"
    assert lines["mine"].startswith("pts/")
    assert lines["terminal"].startswith("pts/")
    assert lines["terminal"] != lines["mine"]
    assert said.endswith("code 7")


def test_with_redirected_output_in_a_terminal_it_has_none(command: list[str]) -> None:
    said = in_a_terminal([*command[:-1], f"({command[-1]}) | cat"])
    assert "terminal: none" in said


def test_a_script_gets_its_output_unchanged(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.stdout.splitlines()[1:] == ["arguments: status --json a b", "terminal: none"]
    assert done.returncode == 7


@pytest.mark.parametrize("name", ["edge-disaster", "install.sh"])
def test_scripts_run_nothing_as_the_service_in_the_terminal_of_root(tmp_path: Path, name: str) -> None:
    text = SCRIPT.with_name(name).read_text()
    (function,) = [line for line in text.splitlines() if line.startswith("as_edge() ")]
    said = in_a_terminal(prepared(tmp_path, f"{function}; as_edge /opt/edge/venv/bin/edge 'a b'"))
    assert "arguments: a b" in said
    assert "terminal: none" in said
    assert said.endswith("code 7")


def test_python_of_root_runs_nothing_as_the_service_in_the_terminal_of_root(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); from edge.operations.root.programs import as_edge;"
        " sys.exit(3 + as_edge(*sys.argv[2:]))"
    )
    look = f"python3 -I -S -c '{code}' {SCRIPT.parents[1]} /opt/edge/venv/bin/edge"
    said = in_a_terminal(prepared(tmp_path, f"{look} 'a b'"))
    assert "arguments: a b" in said
    assert "terminal: none" in said
    assert said.endswith("code 3")


def test_no_other_command_runs_as_the_service_in_the_terminal_of_root() -> None:
    scripts = [*SCRIPT.parent.iterdir(), *(SCRIPT.parents[1] / "edge/operations/root").glob("*.py")]
    for script in scripts:
        for line in script.read_text("utf-8").splitlines():
            if "--reuid=edge" in line:
                assert re.search(r'setsid"?,? "?--wait"?,? "?setpriv', line), script.name
            if "runuser" in line and not line.startswith("#"):
                assert line.startswith("exec runuser $pty "), script.name
