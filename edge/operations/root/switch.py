"""Let a tried release take over, watch it for ten minutes, and return to the previous one.

Each failure, also a power cut, leads back to the previous release, as does a release that performs worse.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import NoReturn

from edge.operations.root import kept_database
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
    made_at,
    note,
    noted,
    program_of,
    unpin,
    warn,
)
from edge.operations.root.programs import AS_EDGE, alone, as_edge, fail, ignore_signals, last_line, result, say, works
from edge.operations.root.releases import flush, install_units, point_to
from edge.operations.root.service import PAGES, address, reason, save_reads, unanswered
from edge.operations.root.tried_release import Trial, Tried

_READY_SECONDS = 45
_ANSWER_SECONDS = 5
_TIMERS = ("edge-backup.timer", "edge-drill.timer", "edge-doctor.timer")


def switch(tried: Tried) -> None:
    """Switch and put the release on probation, or roll back.

    All slow steps run while the previous release still serves. Until it stops, only files that it does not use change,
    and they are synced to disk.
    """
    release, trial = tried.release, tried.trial
    previous, base = Previous(VENV.readlink(), tried.backup), address()
    was_ready = not unanswered(base, 0, "/readyz")
    _prepare(tried, previous)
    if not works("systemctl", "stop", "edge"):
        go_back("the service did not stop", release)
    if trial.migrates and not kept_database.keep_database():
        go_back("the database could not be copied", release)
    result(*AS_EDGE, *program_of(release, "note-reads", "--at-switch", READS))
    _start(release, trial, base)
    if was_ready and unanswered(base, _READY_SECONDS, "/readyz"):
        if trial.migrates:
            fail(
                "the new release runs, but is not ready: see edge doctor. It has already recorded reads, so it is kept."
            )
        go_back(f"it was not ready after {_READY_SECONDS} s: {reason()}", release)
    _put_on_probation(release, previous, trial)
    remove_releases_except(release, previous.release)


def _prepare(tried: Tried, previous: Previous) -> None:
    """Do everything that does not need the service to stop."""
    as_edge("rm", "-f", COPY, COPY_NEW)  # leftovers of a failed upgrade
    if tried.trial.migrates and not kept_database.copy_database():
        _abandon(tried, f"the database could not be copied, and nothing was changed: is there room in {DATA}?")
    ignore_signals()
    # From here on a power cut causes a rollback.
    if not note(STATE, previous):
        _abandon(tried, f"cannot write {STATE}, and nothing was changed: is there room in {PROGRAM}?")
    if not install_units(tried.release):
        go_back("the units of the release could not be installed", tried.release)
    flush()
    result(*AS_EDGE, *program_of(tried.release, "note-reads", READS))
    save_reads()


def _start(release: Path, trial: Trial, base: str) -> None:
    """Start the release and let the waiting reads in, or roll back."""
    if not point_to(release):
        go_back("the release could not be put in place", release)
    if not works("timeout", trial.start_limit, "systemctl", "start", "edge"):
        go_back(f"the service did not start: {reason()}", release)
    failed = unanswered(base, _ANSWER_SECONDS, *PAGES)
    if failed:
        go_back(f"{failed} is not served: {reason()}", release)
    if trial.migrates:
        kept_database.release_reads()


def _put_on_probation(release: Path, previous: Previous, trial: Trial) -> None:
    if not note(PROBATION, previous):
        if not trial.migrates:
            go_back(f"there is no room in {PROGRAM} to watch the release", release)
        warn(f"The new release is not watched, because there was no room in {PROGRAM}.")
    STATE.unlink(missing_ok=True)
    enable(*_TIMERS, "edge-probation")
    works("systemctl", "start", *_TIMERS)
    works("systemctl", "start", "--no-block", "edge-probation")


def enable(*units: str) -> None:
    """Enable the units that are not enabled yet.

    systemctl then reloads systemd, which meanwhile misses changes of files. The service has just started and may write
    the accounts of readers, which edge-accounts.path waits for.
    """
    missing = [unit for unit in units if not works("systemctl", "is-enabled", "--quiet", unit)]
    if missing:
        works("systemctl", "enable", "--quiet", *missing)


def _abandon(tried: Tried, why: str) -> NoReturn:
    """Give up before the switch."""
    shutil.rmtree(tried.release, ignore_errors=True)
    unpin(tried.backup)
    as_edge("rm", "-f", COPY_NEW)
    fail(why)


_BY_SIGNAL = range(129, 144)  # exit codes of a shell for a program that a signal ended


def watch_seconds() -> str:
    return os.environ.get("EDGE_WATCH_SECONDS", "600")


def version() -> str:
    """Return name, version and date of the running release. Builds of one version differ in the date only."""
    made = made_at(VENV)
    return result(VENV / "bin/edge", "--version").stdout.strip() + (f" of {made}" if made else "")


def watch() -> None:
    """Watch the new release. Roll back if it performs worse than the previous one."""
    if not PROBATION.is_file():
        return
    done = result(*AS_EDGE, *program_of(VENV, "watch-upgrade", READS, "--seconds", watch_seconds()))
    if was_interrupted(done.returncode):
        fail("the watch was interrupted. Restart it: systemctl start edge-probation")
    if done.returncode == 0:
        end_probation()
        say("The new release performs as well as the previous one and is kept.")
        return
    alone()
    _replace(last_line(done.stdout + done.stderr), noted(PROBATION))


def was_interrupted(code: int) -> bool:
    """True for a watch that an administrator or a shutdown ended by a signal, which is no verdict."""
    return code < 0 or code in _BY_SIGNAL


def _replace(why: str, previous: Previous) -> NoReturn:
    """Return to the previous release. If it cannot read the database, the new one is kept with a warning."""
    left = ""
    if not kept_database.reads_database(previous.release):
        left = kept_database.downgrade(previous.release)
        if not left:
            end_probation()
            warn(
                f"The new release performs worse than the previous one: {why}. It changed the database, so it is kept."
            )
            fail(f"{why}. The new release changed the database, so it is kept. See edge doctor")
    warn(f"The release {version()} was replaced by the previous release: {why}.{left and f' {left}.'}")
    return_from_probation(previous, is_watching=True)
    fail(f"{why}. The previous release runs again{left and f'. {left}'}.")


def end_probation() -> None:
    """Keep the present release. `--back` still returns to the previous one."""
    unpin(noted(PROBATION).backup)
    PROBATION.replace(PREVIOUS)
    as_edge("rm", "-f", READS)


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
