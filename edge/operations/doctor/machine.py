"""System state outside the data directory that the doctor reads: units, ports and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from edge.errors import Unavailable

_SECONDS = 10


def run(command: Sequence[str]) -> str:
    """Return the output of a system program. Raises Unavailable if it is missing or fails."""
    import subprocess  # the service never runs one

    try:
        done = subprocess.run(  # noqa: S603  fixed programs of the system, with fixed arguments
            command, capture_output=True, text=True, check=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{command[0]} does not respond: {error}") from error
    return done.stdout


class Machine(NamedTuple):
    """Paths on a computer set up by systemd/install.sh. On other computers none of them exists."""

    run: Callable[[Sequence[str]], str] = run
    program: Path = Path("/opt/edge")
    settings: Path = Path("/etc/edge/edge.toml")
    caddyfile: Path = Path("/etc/caddy/Caddyfile")
    mosquitto: Path = Path("/etc/mosquitto")
    avahi: Path = Path("/etc/avahi")
    devices: Path = Path("/sys/dev/block")
    file_systems: Path = Path("/sys/fs/ext4")
    control_groups: Path = Path("/sys/fs/cgroup")
    localtime: Path = Path("/etc/localtime")
    systemd: Path = Path("/etc/systemd")
    packaged_units: Path = Path("/usr/lib/systemd/system")
    upgrade_lock: Path = Path("/run/edge-upgrade.lock")

    @property
    def is_site(self) -> bool:
        """True if the installer was run here."""
        return (self.program / "venv").is_symlink()

    def caddy_port(self, scheme: str) -> int | None:
        """Return the port on which Caddy serves `scheme` for edge, or None without HTTPS."""
        try:
            text = self.caddyfile.read_text("utf-8", "replace")
        except OSError:
            return None
        match = re.search(rf"^{scheme}://:(\d+)\b", text, re.MULTILINE)
        return int(match[1]) if match and "edge-https makes" in text else None

    def network_name(self) -> str | None:
        """Return the name that avahi announces, without .local, or None if it does not announce edge."""
        if not (self.avahi / "services" / "edge.service").is_file():
            return None
        lines = (self.avahi / "avahi-daemon.conf").read_text("utf-8", "replace").splitlines()
        return next((line.partition("=")[2].strip() for line in lines if line.startswith("host-name=")), None)


FSTAB = Path("/etc/fstab")


def missing_disk(folder: Path) -> str:
    """Return the mount point in /etc/fstab that holds a folder and is not mounted, or an empty string."""
    try:
        lines = [line.split() for line in FSTAB.read_text("utf-8", "replace").splitlines()]
    except OSError:
        return ""
    points = [Path(words[1].replace("\\040", " ")) for words in lines if len(words) > 1 and words[0][0] != "#"]
    holding = [point for point in points if point.is_absolute() and folder.absolute().is_relative_to(point)]
    return next((str(point) for point in holding if not point.is_mount()), "")


NOWHERE = Path("/nonexistent")
NO_SITE = Machine(run, *[NOWHERE] * 12)
