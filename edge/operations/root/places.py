"""Files of an installed box, and those that an upgrade leaves between its steps."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from edge.operations.root.programs import as_edge, fail, sync

TOML = Path("/etc/edge/edge.toml")
PROGRAM, UNITS = Path("/opt/edge"), Path("/etc/systemd/system")
COMMANDS, ROOT_COMMANDS = Path("/usr/local/bin"), Path("/usr/local/sbin")
EDGE = COMMANDS / "edge"
VENV, RELEASES = PROGRAM / "venv", PROGRAM / "releases"
STATE = PROGRAM / "upgrade"  # exists during a switch: after a power cut, roll back to the release it names
PROBATION = PROGRAM / "probation"  # exists while a release is watched; names the previous one
PREVIOUS = PROGRAM / "previous"  # afterwards: the release that --back returns to
PUBLISHER = Path("/etc/edge/publisher.pub")  # key of the bundles that this site accepts
_USUAL_DATA = Path("/var/lib/edge")


def data_folder(toml: Path = TOML) -> Path:
    """Return `data_dir` of the settings, which only root can write. Raises OSError or ValueError if they are broken."""
    if not toml.is_file():
        return _USUAL_DATA
    return _USUAL_DATA / str(tomllib.loads(toml.read_text("utf-8-sig")).get("data_dir", ""))


try:
    DATA, SETTINGS_FAULT = data_folder(), ""
except (OSError, ValueError) as error:  # the check of the broker must run all the same
    DATA, SETTINGS_FAULT = _USUAL_DATA, str(error)
DATABASE = DATA / "edge.db"
COPY = DATA / "edge.db.before-upgrade"  # copy of the database, made if the schema changes
COPY_NEW = DATA / "edge.db.before-upgrade.new"
PENDING = DATA / "upgrade-pending"  # while it exists, the service takes no reads and no changes
READS = DATA / "probation.json"  # messages of each reader before the switch


_BACKUP = re.compile(r"/[\w .+:@/-]+\.gz(\.age)?")


class Previous(NamedTuple):
    """Release that ran before an upgrade, and the backup made then."""

    release: Path
    backup: str


def note(file: Path, previous: Previous) -> bool:
    """Write STATE or PROBATION: complete or not at all, also on a full disk. Returns whether it was written."""
    new = file.with_name(f"{file.name}.new")
    try:
        new.write_text(f"OLD={previous.release}\nBACKUP={previous.backup}\n", "utf-8")
        new.chmod(0o644)  # the doctor reads it as the service, whatever the umask of root
        sync(new)
        new.replace(file)
        sync(file.parent)
    except OSError:
        new.unlink(missing_ok=True)
        file.unlink(missing_ok=True)
        return False
    return True


def noted(file: Path) -> Previous:
    """Return the release and the backup in STATE, PROBATION or PREVIOUS. Ends for a release outside root's folder."""
    values = dict(line.split("=", 1) for line in file.read_text("utf-8").splitlines() if "=" in line)
    release = Path(values["OLD"])
    if release.parent != RELEASES:
        fail(f"{file} names {release}, which is not in {RELEASES}, and nothing was changed")
    return Previous(release, values.get("BACKUP", ""))


def is_backup(path: str) -> bool:
    """True for the plain path of a backup: programs of the service print it, and root passes it on."""
    return bool(_BACKUP.fullmatch(path)) and ".." not in Path(path).parts


def made_at(release: Path) -> str:
    """Return when the commit of an installed release was made, or "" if it is not from a bundle or package."""
    try:
        lines = (release / "release").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("made ") for line in lines if line.startswith("made ")), "")


def pin(backup: str) -> bool:
    """Keep a backup from rotation. Returns False on a full disk."""
    return as_edge("touch", f"{backup}.pinned")


def unpin(backup: str) -> None:
    if backup:
        as_edge("rm", "-f", f"{backup}.pinned")


def program_of(release: Path, *words: object) -> tuple[object, ...]:
    """Return a command line of a release's program, to be run as the service."""
    return ("env", "EDGE_CONFIG=/etc/edge/edge.toml", release / "bin/edge", *words)


def warn(text: str) -> None:
    """Leave a warning for edge doctor until an administrator deletes the file."""
    if as_edge("mkdir", "-p", DATA / "warnings"):
        as_edge("sh", "-c", 'printf "%s\\n" "$1" >"$2"', "sh", text, DATA / "warnings/upgrade")
