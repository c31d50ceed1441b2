"""Let a tried release take over. Each failure, also a power cut, leads back to the previous one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NoReturn

from edge.operations.root import kept_database
from edge.operations.root.installed_files import flush, install_units, point_to
from edge.operations.root.places import (
    COPY,
    COPY_NEW,
    DATA,
    PROBATION,
    PROGRAM,
    READS,
    STATE,
    VENV,
    Previous,
    note,
    program_of,
    unpin,
    warn,
)
from edge.operations.root.programs import AS_EDGE, as_edge, fail, ignore_signals, result, works
from edge.operations.root.rollback import go_back, remove_releases_except
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
