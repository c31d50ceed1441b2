"""Return to the previous release: from a failed switch, from one that a power cut interrupted, and on command."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import NoReturn

from edge.operations.root import kept_database
from edge.operations.root.installed_files import flush, install_units, point_to
from edge.operations.root.places import (
    COPY,
    COPY_NEW,
    DATA,
    DATABASE,
    EDGE,
    PENDING,
    PREVIOUS,
    PROBATION,
    PROGRAM,
    READS,
    RELEASES,
    STATE,
    VENV,
    Previous,
    note,
    noted,
    unpin,
)
from edge.operations.root.programs import as_edge, fail, ignore_signals, say, works
from edge.operations.root.service import reason, save_reads


def go_back(why: str, release: Path | None = None, *, at_boot: bool = False) -> NoReturn:
    """Roll back and end with the reason."""
    return_to_old(release, at_boot=at_boot)
    fail(f"{why}. The previous release runs again, and nothing was lost.")


def return_to_old(release: Path | None = None, *, at_boot: bool = False) -> None:
    """Let the release of STATE run again, and remove the present one and `release`, which was not switched to yet.

    At boot nothing may wait for the service, which starts after this.
    """
    failed, old = VENV.readlink(), noted(STATE)
    save_reads()
    waiting = ["--no-block"] * at_boot
    # Kill a service that does not stop: the site is offline meanwhile, and no data is lost.
    if not works("timeout", "3", "systemctl", "stop", *waiting, "edge"):
        works("systemctl", "kill", "--signal=KILL", "edge")
    install_units(old.release)  # on a full disk the present units are good enough
    _put_in_place(old.release, failed)
    if not kept_database.put_back():
        fail(f"{COPY} could not be put back. Then: systemctl start edge-upgrade")
    as_edge("rm", "-f", PENDING, COPY_NEW, READS)
    flush(DATA)
    unpin(old.backup)
    for file in (STATE, PROBATION):
        file.unlink(missing_ok=True)
    works("systemctl", "reset-failed", "edge")
    if not works("systemctl", "start", *waiting, "edge"):
        fail(f"the previous release does not start: {reason()}")
    for left in {failed, release or failed} - {old.release}:
        shutil.rmtree(left, ignore_errors=True)


def remove_releases_except(*kept: Path) -> None:
    for other in RELEASES.iterdir():
        if other not in kept:
            shutil.rmtree(other, ignore_errors=True)


def _put_in_place(old: Path, failed: Path) -> None:
    """On a full disk the failed release makes room; the site must not stay down."""
    if point_to(old):
        return
    if failed != old:
        shutil.rmtree(failed, ignore_errors=True)
    if not point_to(old):
        fail(f"{old} could not be put in place. Make room in {PROGRAM}, then: systemctl start edge-upgrade")


def resume() -> None:
    """Roll back an interrupted switch at boot, and remove leftovers of one that was complete."""
    as_edge("rm", "-rf", DATA / "trial")
    if STATE.is_file():
        if not as_edge("test", "-f", DATABASE):
            fail(f"{DATABASE} is missing. Mount the disk of {DATA}, then: systemctl start edge-upgrade")
        go_back("the upgrade was interrupted", at_boot=True)
    as_edge("rm", "-f", COPY, COPY_NEW)
    as_edge("rm", "-f", PENDING)
    remove_unused_releases()


def remove_unused_releases() -> None:
    """Remove releases of upgrades that were killed before the switch; each has hundreds of megabytes."""
    if not (VENV.is_symlink() and RELEASES.is_dir()):
        return
    used = [VENV.readlink(), *(noted(file).release for file in (PROBATION, PREVIOUS) if file.is_file())]
    remove_releases_except(*used)


def back() -> None:
    """Return on command, with everything recorded since if the database can be changed back."""
    if STATE.is_file():
        fail("an upgrade was interrupted. Finish it: systemctl start edge-upgrade")
    file = PROBATION if PROBATION.is_file() else PREVIOUS
    if not file.is_file():
        fail("there is no previous release, and nothing was changed")
    previous = noted(file)
    if not os.access(previous.release / "bin/edge", os.X_OK):
        fail(f"the previous release {previous.release} is missing, and nothing was changed")
    works("systemctl", "stop", "edge-probation")
    is_changed = not kept_database.reads_database(previous.release)
    if is_changed:
        _downgrade(previous)
    if file == PREVIOUS and not note(PROBATION, previous):
        _keep_present(is_watching=False)
    return_from_probation(previous, is_watching=False)
    if is_changed and not works(EDGE, "backup"):  # the previous release cannot read the backups of the new one
        say("The backup failed: edge backup")


def _downgrade(previous: Previous) -> None:
    say("Backup")
    if not works(EDGE, "backup"):
        _give_up_back("the backup failed, and nothing was changed")
    left = kept_database.downgrade(previous.release)
    if not left:
        _give_up_back(
            "the previous release cannot read the current database, and nothing was changed. To go back and lose "
            f"everything recorded since the upgrade: systemctl stop edge; edge-upgrade --use {previous.release}; "
            f"edge restore {shlex.quote(previous.backup)}; systemctl start edge"
        )
    say(f"  {left}")


def return_from_probation(previous: Previous, *, is_watching: bool) -> None:
    """Return from a release that has recorded reads. `is_watching`: the probation found a fault."""
    ignore_signals()
    if not note(STATE, previous):
        _keep_present(is_watching=is_watching)
    as_edge("rm", "-f", COPY, COPY_NEW)  # never restore it here: it lacks everything recorded since
    for file in (PROBATION, PREVIOUS):
        file.unlink(missing_ok=True)
    return_to_old()


def _give_up_back(why: str) -> NoReturn:
    """Give up `--back`: the release goes on under observation."""
    _watch_again()
    fail(why)


def _keep_present(*, is_watching: bool) -> NoReturn:
    """Give up a rollback that a full disk prevents. After a downgrade the service migrates the database again.

    The observation goes on, except one that ended with this rollback, which would be repeated every ten minutes.
    """
    works("systemctl", "start", "edge")
    if not is_watching:
        _watch_again()
    fail(f"cannot write to {PROGRAM}, so the present release is kept: is there room?")


def _watch_again() -> None:
    if PROBATION.is_file():
        works("systemctl", "start", "--no-block", "edge-probation")
