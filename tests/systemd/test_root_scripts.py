"""Scripts of root find their Python in a checkout, a package, or an installed release, and nowhere else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.security.test_changed_wheel import ALONE

pytestmark = pytest.mark.slow

SYSTEMD = Path(__file__).parents[2] / "systemd"
SCRIPTS = ("edge-upgrade", "edge-https", "edge-mdns", "edge-broker-check")
LIBRARY = "lib/python3.11/site-packages"
MODULE = """
import os, sys
def main():
    print(__file__, os.getcwd(), sys.flags.isolated, sys.flags.no_site, *sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def _alone() -> None:
    if (
        not shutil.which("unshare")
        or subprocess.run([*ALONE, "mount -t tmpfs none /opt"], capture_output=True).returncode
    ):
        lacks("a namespace of its own for mounts")


def code(folder: Path, script: str) -> Path:
    """Make the Python of a script in a folder. Returns its file."""
    file = folder / f"edge/operations/root/{script.replace('-', '_')}.py"
    file.parent.mkdir(parents=True)
    file.write_text(MODULE)
    return file


def put(script: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SYSTEMD / script, folder)
    return folder / script


def run(command: str, opt: Path, here: Path) -> subprocess.CompletedProcess[str]:
    opt.mkdir(exist_ok=True)
    return subprocess.run(
        [*ALONE, f"mount --bind {opt} /opt; cd {here}; {command}"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("library", [".", LIBRARY])
def test_a_script_of_a_checkout_or_a_package_runs_its_own_code(tmp_path: Path, script: str, library: str) -> None:
    """Also if it is started by a link or from another folder, and another release is installed."""
    own = code(tmp_path / "release" / library, script)
    program = put(script, tmp_path / "release/systemd")
    (tmp_path / "link").symlink_to(program)
    code(tmp_path / "opt/edge/venv" / LIBRARY, script)
    for command in (f"{program} a 'b c'", f"{tmp_path}/link a 'b c'", f"release/systemd/{script} a 'b c'"):
        done = run(command, tmp_path / "opt", tmp_path)
        assert done.stderr == ""
        file, *rest = done.stdout.split()
        assert Path(file).samefile(own)
        assert rest == ["/", "1", "1", str(program.parent), str(tmp_path), "a", "b", "c"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_installed_script_runs_the_code_of_the_installed_release(tmp_path: Path, script: str) -> None:
    code(tmp_path / "opt/edge/releases/2" / LIBRARY, script)
    (tmp_path / "opt/edge/venv").symlink_to("/opt/edge/releases/2")
    done = run(f"{put(script, tmp_path / 'sbin')}", tmp_path / "opt", tmp_path)
    assert done.stdout.startswith(f"/opt/edge/venv/{LIBRARY}/edge/operations/root/"), done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_code_in_the_folder_of_the_caller_is_never_run(tmp_path: Path, script: str) -> None:
    code(tmp_path, script)
    code(tmp_path / LIBRARY, script)
    program = put(script, tmp_path / "sbin")
    done = run(f"PYTHONPATH={tmp_path} sbin/{program.name}", tmp_path / "opt", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "/opt/edge/venv is incomplete, and nothing was changed: run install.sh of the release" in done.stderr


def test_an_upgrade_is_rolled_back_by_the_code_of_a_release_that_does_not_run_yet(tmp_path: Path) -> None:
    """A power cut left the script of the new release, and the previous release has no such code."""
    (tmp_path / "opt/edge/releases/1" / LIBRARY / "edge").mkdir(parents=True)
    (tmp_path / "opt/edge/venv").symlink_to("/opt/edge/releases/1")
    code(tmp_path / "opt/edge/releases/2" / LIBRARY, "edge-upgrade")
    done = run(f"{put('edge-upgrade', tmp_path / 'sbin')} --resume", tmp_path / "opt", tmp_path)
    assert done.stdout.startswith("/opt/edge/releases/2/"), done.stderr
    assert done.stdout.endswith("--resume\n")


@pytest.mark.parametrize("script", SCRIPTS)
def test_only_root_runs_them(script: str) -> None:
    command = ["unshare", "--user", str(SYSTEMD / script), "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"run it as root: sudo {script} x\n")
