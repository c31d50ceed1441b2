"""The first ten minutes of a new release: it is kept, or replaced by the previous one."""

from __future__ import annotations

import os
from typing import NoReturn

from edge.operations.root import kept_database
from edge.operations.root.places import (
    PREVIOUS,
    PROBATION,
    READS,
    VENV,
    Previous,
    made_at,
    noted,
    program_of,
    unpin,
    warn,
)
from edge.operations.root.programs import AS_EDGE, alone, as_edge, fail, last_line, result, say
from edge.operations.root.rollback import return_from_probation

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
