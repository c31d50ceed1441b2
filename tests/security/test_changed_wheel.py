"""edge-upgrade rejects a library that differs from the published file of the release."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.conftest import lacks

pytestmark = pytest.mark.slow

SYSTEMD = Path(__file__).parents[2] / "systemd"
# The script runs in its own mount namespace, because /opt of the machine must not change.
ALONE = ["unshare", "--map-root-user", "--mount", "sh", "-euc"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A release with one library. Its wheel in the folder `wheels` is not the published one."""
    if (
        not shutil.which("unshare")
        or subprocess.run([*ALONE, "mount -t tmpfs none /opt"], capture_output=True).returncode
    ):
        lacks("a namespace of its own for mounts")
    entry = re.search(
        r"^blinker==(\S+)(?: \\\n +--hash=\S+)+\n", (SYSTEMD / "requirements.txt").read_text("utf-8"), re.M
    )
    assert entry
    version = entry[1]
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd" / "requirements.txt").write_text(entry[0], "utf-8")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / f"blinker-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("blinker/__init__.py", "print('somebody else was here')")
        wheel.writestr(
            f"blinker-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: blinker\nVersion: {version}\n"
        )
        wheel.writestr(f"blinker-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    return tmp_path


def test_a_changed_wheel_is_named_and_nothing_is_left(checkout: Path) -> None:
    script = (
        f"mount -t tmpfs none /opt; {SYSTEMD}/edge-upgrade --build {checkout} || code=$?; ls -A /opt; exit ${{code-0}}"
    )
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{checkout}/wheels"}
    done = subprocess.run([*ALONE, script], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert done.stdout == ""  # /opt is still empty
    assert "nothing was changed: blinker==" in done.stderr
    assert "is not the file this release was made with" in done.stderr
