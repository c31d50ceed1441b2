"""Root scripts import nothing from the caller's working directory."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.security.test_changed_wheel import ALONE, checkout

pytestmark = pytest.mark.slow

__all__ = ["checkout"]

SYSTEMD = Path(__file__).parents[2] / "systemd"
OF_ROOT = (
    "install.sh",
    "check-machine",
    "edge-upgrade",
    "edge-https",
    "edge-mdns",
    "edge-broker-check",
)
MODULES = ("venv", "urllib", "json", "ssl", "pip", "ensurepip", "sitecustomize", "subprocess", "logging", "shutil")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'imported')!r}, 'a').write({name + chr(10)!r})\n")
    return folder


@pytest.mark.parametrize("command", ["edge-upgrade --build {checkout}", "check-machine --offline --ports ''"])
def test_a_helper_imports_nothing_from_a_hostile_folder(hostile: Path, checkout: Path, command: str) -> None:
    """A venv.py in the caller's folder must not run as root."""
    script = f"mount -t tmpfs none /opt; cd {hostile}; {SYSTEMD}/{command.format(checkout=checkout)} || true"
    done = subprocess.run([*ALONE, script], capture_output=True, text=True)
    assert done.returncode == 0
    assert not (hostile / "imported").exists(), (hostile / "imported").read_text()


@pytest.mark.parametrize("name", OF_ROOT)
def test_every_helper_leaves_the_folder_and_isolates_python(name: str) -> None:
    script = (SYSTEMD / name).read_text("utf-8")
    assert re.search(r"^ *cd / #", script, re.M)
    calls = re.findall(r"python3 (-\w*) ", script)
    assert calls == ["-I"] * len(calls)


def test_a_relative_checkout_is_looked_up_where_the_technician_is(tmp_path: Path) -> None:
    done = subprocess.run([*ALONE, f"cd {tmp_path}; {SYSTEMD}/edge-upgrade missing"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "missing does not exist, and nothing was changed" in done.stderr
