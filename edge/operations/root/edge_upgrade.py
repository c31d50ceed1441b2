"""Install another release of edge on this box. Any step may fail or be interrupted without leaving the site down.

  edge-upgrade [--older] BUNDLE         back up, test on a copy of the site, switch, verify; roll back on failure
  edge-upgrade [--unsigned] CHECKOUT    the same with a folder, which has no signature
  edge-upgrade --check ...              back up and test only; nothing is changed
  edge-upgrade --back                   return to the previous release

A bundle of make-bundle.sh must be signed by the publisher in /etc/edge/publisher.pub, and not be older than the
present release; it is verified by edge-verify before any of it runs. If no publisher is known, the key in the first
bundle is accepted.

Used by others: --build CHECKOUT installs one more release and prints its folder; --use FOLDER switches to
one without a trial, for the first installation; --resume rolls back an interrupted switch at boot; --watch
compares the new release with the previous one for ten minutes, and rolls back if it performs worse.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from edge.operations.root.places import PENDING, PROBATION, SETTINGS_FAULT, STATE, TOML, VENV, unpin
from edge.operations.root.programs import alone, as_edge, begin, fail, say, works
from edge.operations.root.releases import build, flush, install_units, point_to
from edge.operations.root.switch import (
    back,
    end_probation,
    remove_unused_releases,
    resume,
    switch,
    version,
    watch,
    watch_seconds,
)
from edge.operations.root.tried_release import accept_publisher, forecast, opened, try_release

_USAGE_LINES = 10
_FLAGS = {"--check", "--older", "--unsigned"}


def main() -> None:
    """Run with the folder of systemd/edge-upgrade, the caller's folder, and the arguments."""
    begin("edge-upgrade")
    scripts, here, *words = sys.argv[1:]
    if SETTINGS_FAULT:  # without data_dir, the database of another folder could be taken for the site's
        fail(f"{TOML} cannot be read ({SETTINGS_FAULT}), and nothing was changed: fix it, then run this again")
    try:
        _act(words, Path(scripts), Path(here))
    except OSError as error:
        fail(str(error))


def _act(words: list[str], scripts: Path, here: Path) -> None:
    flags: set[str] = set()
    while words and words[0] in _FLAGS:
        flags.add(words.pop(0))
    match words:
        case ["--build", checkout, *_]:
            say(build(_path_of(checkout, here)))
        case ["--use", release, *_]:
            _use(Path(release))
        case ["--resume", *_]:
            alone()
            resume()
        case ["--watch", *_]:
            watch()
        case ["--back", *_]:
            alone()
            back()
            say(f"Back to {version()}")
        case [given] if not given.startswith("-"):
            _upgrade(_path_of(given, here), scripts, flags)
        case _:
            _refuse()


def _refuse() -> NoReturn:
    say("\n".join((__doc__ or "").splitlines()[:_USAGE_LINES]))
    sys.exit(2)


def _path_of(given: str, here: Path) -> Path:
    try:
        return (here / given).resolve(strict=True)
    except OSError:
        fail(f"{given} does not exist, and nothing was changed")


def _upgrade(given: Path, scripts: Path, flags: set[str]) -> None:
    verify, is_check = scripts / "edge-verify", "--check" in flags
    if not os.access(verify, os.X_OK):
        verify = VENV / "systemd/edge-verify"  # earlier releases did not install it
    with opened(given, verify, is_older="--older" in flags, is_unsigned="--unsigned" in flags) as checkout:
        _upgrade_to(checkout, is_check=is_check)
        if given.is_file() and not is_check:
            accept_publisher(checkout)


def _upgrade_to(checkout: Path, *, is_check: bool) -> None:
    alone()
    if STATE.is_file() or as_edge("test", "-e", PENDING):
        fail("an upgrade was interrupted. Finish it: systemctl start edge-upgrade")
    if PROBATION.is_file() and not is_check:
        works("systemctl", "stop", "edge-probation")
        end_probation()
    remove_unused_releases()
    tried = try_release(checkout, is_check=is_check, is_watched=PROBATION.is_file())
    if is_check:
        shutil.rmtree(tried.release)
        unpin(tried.backup)
        say(forecast(tried.trial))
        return
    switch(tried)
    works("systemctl", "reset-failed", "edge-upgrade")  # an earlier upgrade that was rolled back is settled
    say(f"Upgraded to {version()}. It is watched for {watch_seconds()} s. "
        "If it performs worse than the previous release,")  # fmt: skip
    say("it is rolled back automatically: journalctl -u edge-probation. Manual rollback: edge upgrade --back")


def _use(release: Path) -> None:
    if not install_units(release):
        fail(f"the units of {release} could not be installed")
    if not point_to(release):
        fail(f"{release} could not be put in place")
    flush()
