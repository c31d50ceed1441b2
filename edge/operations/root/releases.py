"""Releases on this box: one is built in addition to others, and the link, units and commands name the one that runs.

Each of these is replaced as a whole, and complete after a power cut.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edge.operations.root.places import COMMANDS, PROGRAM, RELEASES, ROOT_COMMANDS, UNITS, VENV
from edge.operations.root.programs import fail, last_line, result, sync, works

NO_ROOM = f"is there room in {PROGRAM}?"
_PYTHON = 'import sys; print("python%d.%d" % sys.version_info[:2])'


def build(checkout: Path) -> Path:
    """Return the folder of the new release, which nothing uses yet."""
    if checkout.parent == RELEASES:  # its programs start with the Python of that folder
        fail(f"{checkout} is installed already, and nothing was changed: give the checkout or bundle it came from")
    is_package = (checkout / "pyvenv.cfg").is_file()
    if not is_package and not (checkout / "pyproject.toml").is_file():
        fail(f"{checkout} is not a checkout of edge: pyproject.toml is missing")
    release = _new_folder()
    with removed_on_failure(release):
        try:
            for folder in (PROGRAM, RELEASES):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o755)
            why = _take_package(checkout, release) if is_package else _install_checkout(checkout, release)
        except OSError as error:
            why = f"{error.strerror}: {NO_ROOM}"
        if why:
            fail(f"the release cannot be installed, and nothing was changed: {why}")
    return release


@contextmanager
def removed_on_failure(release: Path) -> Iterator[None]:
    """Remove a release if the block fails or is interrupted. A first installation leaves nothing behind."""
    try:
        yield
    except BaseException:
        shutil.rmtree(release, ignore_errors=True)
        with suppress(OSError):  # there are others
            RELEASES.rmdir()
            PROGRAM.rmdir()
        raise


def _new_folder() -> Path:
    release = RELEASES / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return release.with_name(f"{release.name}-2") if release.exists() else release  # second build within a second


def _install_checkout(checkout: Path, release: Path) -> str:
    """Make a virtual environment of the checkout. Returns why that failed, or an empty string."""
    for step in _steps(checkout, release):
        done = result(*step)
        if done.returncode:
            return reason_of_pip(done.stdout + done.stderr)
    return "" if _copy_scripts(checkout, release) else NO_ROOM


def _steps(checkout: Path, release: Path) -> Iterator[tuple[object, ...]]:
    pip = (release / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir")
    # Only files with known hashes, including those that build the package; nothing is downloaded later.
    known = ("--require-hashes", "--only-binary", ":all:", "--requirement", checkout / "systemd/requirements.txt")
    yield "python3", "-I", "-m", "venv", release
    yield *pip, *known
    yield *pip, "--no-deps", "--no-index", "--no-build-isolation", checkout
    yield release / "bin/edge", "--version"


def _copy_scripts(checkout: Path, release: Path) -> bool:
    """Copy units and scripts completely: half a unit of a full disk must never be installed."""
    if not works("cp", "-r", checkout / "systemd", release / "systemd"):
        return False
    if (checkout / "release").is_file() and not works("cp", checkout / "release", release / "release"):
        return False
    (release / "systemd/answers").unlink(missing_ok=True)
    return works("chmod", "-R", "go=u-w", release / "systemd")


def reason_of_pip(output: str) -> str:
    """Return the sentence in pip's output that says why it failed. Details follow in the same line."""
    errors = re.findall(r"^ERROR: ([^.\n]*)", output, re.MULTILINE)
    why = (errors[-1] if errors else "") or last_line(output)
    if "No matching distribution" in why:
        return f"{why}; without internet give a bundle, or: systemd/install.sh --offline BUNDLE"
    if "DO NOT MATCH THE HASHES" not in why:
        return why
    names = " ".join(re.findall(r"^ *([^ \n]*==[^ \n]*) from ", output, re.MULTILINE))
    return f"{names} is not the file this release was made with; it was damaged in transfer or modified"


def _take_package(package: Path, release: Path) -> str:
    """Use hard links if possible: dpkg --verify then covers the files that run. Returns why that failed, or "".

    dpkg replaces files by new ones, so a release stays as it is when apt installs the next one.
    """
    python = result("python3", "-I", "-c", _PYTHON).stdout.strip()
    if not (package / "lib" / python).is_dir():
        packaged = " ".join(sorted(folder.name for folder in (package / "lib").glob("python*")))
        fail(
            f"the package is for {packaged}, this Debian has {python}, and nothing was changed: "
            "install the package for this Debian"
        )
    if result("cp", "-al", package, release).returncode:
        shutil.rmtree(release, ignore_errors=True)
        if not works("cp", "-a", package, release):
            return NO_ROOM
    compiled = result("python3", "-I", "-W", "ignore", "-m", "compileall", "-q", "-j", "0", release / "lib" / python)
    return NO_ROOM if compiled.returncode or result(release / "bin/edge", "--version").returncode else ""


SCRIPTS = ("edge-https", "edge-mdns", "edge-upgrade", "edge-disaster", "edge-verify")  # in ROOT_COMMANDS


def install_units(release: Path) -> bool:
    """Install the commands and units of a release. Returns False if the disk is full."""
    folder = release / "systemd"
    units = [file for kind in ("service", "timer", "path") for file in sorted(folder.glob(f"edge*.{kind}"))]
    try:
        _put(folder / "edge", COMMANDS, 0o755)
        for file in (folder / name for name in SCRIPTS):
            if file.is_file():
                _put(file, ROOT_COMMANDS, 0o755)
        for file in units:
            _put(file, UNITS, 0o644)
    except OSError:
        return False
    return works("systemctl", "daemon-reload")


def _put(file: Path, folder: Path, mode: int) -> None:
    new = folder / f"{file.name}.new"
    try:
        shutil.copyfile(file, new)
        new.chmod(mode)
        sync(new)
        new.replace(folder / file.name)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def point_to(release: Path) -> bool:
    """Make a release the one that runs. Returns False if the disk is full."""
    new = PROGRAM / "venv.new"
    try:
        new.unlink(missing_ok=True)
        new.symlink_to(release)
        new.replace(VENV)
    except OSError:
        return False
    return True


def flush(*more: Path) -> None:
    """Write the changes of an upgrade to the disk."""
    works("sync", "--file-system", *more, PROGRAM, UNITS, COMMANDS)
