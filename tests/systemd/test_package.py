"""The Debian package: systemd/edge-upgrade installs the program that it contains, without pip."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import lacks
from tests.security.test_changed_wheel import ALONE

pytestmark = pytest.mark.slow

SYSTEMD = Path(__file__).parents[2] / "systemd"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return the content of a package with a program that prints the folder of its Python."""
    if (
        not shutil.which("unshare")
        or subprocess.run([*ALONE, "mount -t tmpfs none /opt"], capture_output=True).returncode
    ):
        lacks("a namespace of its own for mounts")
    python = "/usr/bin/python3"
    version = "import sys; print('python%d.%d' % sys.version_info[:2])"
    named = subprocess.run([python, "-I", "-c", version], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "package"
    library = folder / "lib" / named / "site-packages"
    library.mkdir(parents=True)
    (library / "said.py").write_text("import sys\nprint(sys.prefix, __cached__)\n")
    (folder / "bin").mkdir()
    (folder / "bin/python3").symlink_to(python)
    start = re.search(r"cat <<'START'\n(.*?)START\n", (SYSTEMD / "make-deb.sh").read_text(), re.DOTALL)
    assert start
    (folder / "bin/edge").write_text(f"{start[1]}import said\n")
    (folder / "bin/edge").chmod(0o755)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    (folder / "systemd").mkdir()
    return folder


def build(package: Path, then: str = "true") -> subprocess.CompletedProcess[str]:
    """Install the package in a private /opt on the disk of the package, as on a computer with one disk."""
    opt = package.parent / "opt"
    opt.mkdir(exist_ok=True)
    script = (
        f"mount --bind {opt.parent} /opt; cd /opt; mkdir -p edge; {SYSTEMD}/edge-upgrade --build /opt/package; {then}"
    )
    return subprocess.run([*ALONE, script], capture_output=True, text=True, check=False)


def test_the_program_runs_from_its_own_folder_also_through_a_link(package: Path) -> None:
    """A service that runs while /opt/edge/venv is switched must not load modules of the next release."""
    done = build(package, "ln -s /opt/edge/releases/* /opt/edge/venv; /opt/edge/venv/bin/edge")
    assert done.returncode == 0, done.stderr
    release, said = done.stdout.splitlines()
    assert re.fullmatch(r"/opt/edge/releases/\d{8}T\d{6}Z", release)
    assert said.split()[0] == release
    assert list((package.parent / "edge").glob("releases/*/lib/*/site-packages/__pycache__/said.*"))
    assert not list(package.rglob("__pycache__"))


def test_the_files_that_run_are_those_that_dpkg_knows(package: Path) -> None:
    assert build(package).returncode == 0
    [release] = (package.parent / "edge/releases").iterdir()
    assert (release / "bin/edge").samefile(package / "bin/edge")
    (package / "bin/edge").unlink()  # as dpkg does before it writes the next version
    assert (release / "bin/edge").exists()


def test_a_package_for_another_debian_is_refused_in_words(package: Path) -> None:
    [library] = (package / "lib").iterdir()
    library.rename(library.with_name("python3.4"))
    done = build(package)
    assert done.returncode != 0
    assert "the package is for python3.4, this Debian has python3." in done.stderr
    assert "nothing was changed: install the package for this Debian" in done.stderr
    assert not list((package.parent / "edge").glob("releases/*"))


def test_a_program_that_does_not_start_is_not_installed(package: Path) -> None:
    (package / "bin/edge").write_text("#!/bin/sh\nexit 1\n")
    done = build(package)
    assert "the release cannot be installed, and nothing was changed" in done.stderr
    assert not list((package.parent / "edge").glob("releases/*"))
