"""Commands, units and the link to the running release: each is replaced as a whole, and complete after a power cut."""

from __future__ import annotations

import shutil
from pathlib import Path

from edge.operations.root.places import COMMANDS, PROGRAM, ROOT_COMMANDS, UNITS, VENV
from edge.operations.root.programs import sync, works

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
