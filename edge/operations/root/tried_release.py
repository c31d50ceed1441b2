"""Steps of an upgrade while the installed release keeps running: signature, room, backup, build and trial."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from edge.operations.root.places import (
    DATA,
    DATABASE,
    EDGE,
    PROGRAM,
    PUBLISHER,
    READS,
    VENV,
    is_backup,
    pin,
    program_of,
    unpin,
)
from edge.operations.root.programs import AS_EDGE, as_edge, fail, last_line, read, result, say, works
from edge.operations.root.releases import build, removed_on_failure

_LEAST_MB = 200
_START_LIMIT = 90
_SANDBOX = (
    "RuntimeMaxSec=1h",
    "MemoryMax=512M",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    f'ReadWritePaths="{DATA}"',
    "PrivateTmp=yes",
    "ProtectHome=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
    "UMask=0077",
    f"WorkingDirectory={DATA}",
)


class Trial(NamedTuple):
    """Report of `edge trial`."""

    schema_before: int
    schema_after: int
    start_limit: int  # seconds

    @property
    def migrates(self) -> bool:
        return self.schema_before != self.schema_after


class Tried(NamedTuple):
    """A release that passed its trial, and the backup made before."""

    release: Path
    backup: str
    trial: Trial


def forecast(trial: Trial) -> str:
    """Return the effects of an upgrade, for `--check`."""
    if not trial.migrates:
        return "It would work; the database stays as it is."
    return f"It would work; the database would be changed from schema {trial.schema_before} to {trial.schema_after}."


def try_release(checkout: Path, *, is_check: bool, is_watched: bool) -> Tried:
    """Back up, build and test. A failure leaves nothing behind. `is_watched`: another release is on probation."""
    for folder, needed in rooms(DATABASE.stat().st_size, int(os.environ.get("EDGE_UPGRADE_LEAST_MB", _LEAST_MB))):
        _check_room(folder, needed)
    say("Backup")
    backup = _back_up(is_watched=is_watched)
    say(f"  {backup}")
    with _unpinned_on_failure(backup):
        say("Installing the new release (the current one keeps running)")
        release = build(checkout)
        with removed_on_failure(release):
            if not is_check:
                as_edge("rm", "-f", READS)
                result(*AS_EDGE, *program_of(release, "note-reads", READS))
            say("Testing it on a copy of the site")
            return Tried(release, backup, _try_out(release, backup))


@contextmanager
def _unpinned_on_failure(backup: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        unpin(backup)
        raise


@contextmanager
def opened(given: Path, verify: Path, *, is_older: bool, is_unsigned: bool) -> Iterator[Path]:
    """Yield the checkout in a bundle that `verify` accepts, or a folder, which needs no signature."""
    if given.is_dir():
        if PUBLISHER.is_file() and not is_unsigned:
            fail(
                f"{given} is a folder, which has no signature, and this site accepts only what {PUBLISHER} signed: "
                "give the bundle itself, or --unsigned if you trust the folder. Nothing was changed"
            )
        yield given
        return
    with tempfile.TemporaryDirectory() as scratch:
        _unpack(given, Path(scratch), verify, is_older=is_older)
        yield Path(scratch, "edge")


def _unpack(bundle: Path, folder: Path, verify: Path, *, is_older: bool) -> None:
    """Unpack a bundle into a folder that only root can write, verifying each file. pip then uses its wheels only."""
    options = ("--first", "--installed", VENV / "release", *["--older"] * is_older, "--unpack", folder)
    if not works(verify, *options, bundle):
        fail("nothing was changed")
    shutil.copyfile(folder / "release", folder / "edge/release")
    folder.chmod(0o755)
    os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder / "wheels"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        os.environ.pop(name, None)


def accept_publisher(checkout: Path) -> None:
    """Accept the key in the first bundle. A release that failed must not decide which bundles this site accepts."""
    key = checkout.with_name("publisher.pub")
    if not PUBLISHER.is_file():
        works("install", "-m", "0644", key, PUBLISHER)


def rooms(database_bytes: int, least: int) -> list[tuple[Path, int]]:
    """Return the folders that an upgrade fills and the megabytes it needs. `least`: of a release, 0 for no check."""
    if not least:
        return []
    return [(PROGRAM, least), (DATA, least // 4 + 3 * database_bytes // 2**20)]


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free // 2**20
    if free < needed:
        fail(
            f"only {free} MB are free in {folder} and the upgrade needs about {needed} MB. "
            "Nothing was changed: free disk space there, then run it again"
        )


def _back_up(*, is_watched: bool) -> str:
    """Make a backup that rotation keeps until the probation ends. Those of killed upgrades are unpinned."""
    wrote = re.search(r"^Wrote (.*?\.gz(?:\.age)?) ", read(EDGE, "backup") or "", re.MULTILINE)
    if not wrote:
        fail("the backup failed, so the installed release was not changed")
    backup = wrote[1]
    if not is_backup(backup):
        fail(f"an upgrade does not accept the path of the backup, and nothing was changed: {last_line(backup)}")
    if not is_watched:
        as_edge("find", Path(backup).parent, "-maxdepth", "1", "-name", "*.pinned", "-delete")
    if not pin(backup):
        fail(f"the backup could not be kept, and nothing was changed: is there room in {DATA}?")
    return backup


def _try_out(release: Path, backup: str) -> Trial:
    """Run the trial in the sandbox of the service. systemd removes all its processes when it ends."""
    unit = ("systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--unit=edge-trial", "--uid=edge", "--gid=edge")
    limits = [word for limit in _SANDBOX for word in ("-p", limit)]
    variables = ("-E", "EDGE_CONFIG=/etc/edge/edge.toml", "-E", f"PATH={os.environ.get('PATH', os.defpath)}")
    command = (release / "bin/edge", "trial", backup, DATA / "trial", "--before", VENV.resolve())
    done = result(*unit, *limits, *variables, *command)
    trial = None if done.returncode else parse_trial(done.stdout)
    if not trial:
        why = last_line(done.stderr) or "it was ended after an hour, or out of memory"
        fail(f"the trial failed, and nothing was changed: {why}")
    served = re.sub(r'[{}"]', "", done.stdout).rstrip("\n")
    say(f"  a read became a position, and the pages are served: {served}")
    return trial


def parse_trial(output: str) -> Trial | None:
    """Read the report of a trial, None without schemas. Releases that report no start limit get a fixed one."""
    values = {name: int(value) for name, value in re.findall(r'"(\w+)": (\d+)', output)}
    if not {"schema_before", "schema_after"} <= values.keys():
        return None
    return Trial(values["schema_before"], values["schema_after"], values.get("start_limit", _START_LIMIT))
