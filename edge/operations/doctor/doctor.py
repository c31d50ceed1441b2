"""`edge doctor`: runs all checks of a site. Each returns one line with the fault and its remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from typing import NamedTuple

from edge.errors import EdgeError, SetupError
from edge.operations.doctor.checks import CHECKS as KNOWN
from edge.operations.doctor.findings import LEVELS, Finding, Subject, ok, problem, some

_FUNCTIONS = {name: known.function.split(".") for name, known in KNOWN.items() if known.function}
CHECKS: dict[str, Callable[[Subject], Finding]] = {
    name: getattr(import_module(f"edge.operations.doctor.{module}"), function)
    for name, (module, function) in _FUNCTIONS.items()
}

# These read the whole database and the newest backup; the hourly timer leaves them out.
SLOW = {"database", "backup-sound"}
WITHOUT_DATA = {"https", "certificates", "broker", "broker-tls", "time-zone", "http-listen", "version", "settings"}
ON_SITES = {"time-zone", "units", "restarts", "settings", "name", "broker-reachable"}  # that install.sh has made
WITHOUT_SETTINGS = {"memory", "clock-kept", "journal", "units", "restarts", "upgrade", "name"}


class Examined(NamedTuple):
    name: str
    finding: Finding


def examine(
    subject: Subject, without: Collection[str] = (), cause: Examined | None = None, possible: Collection[str] = CHECKS
) -> Iterator[Examined]:
    """Yield the finding of each check. A `cause` comes first, and checks that fail by one cause share one line.

    `possible`: the checks that can run in spite of the cause.
    """
    if cause:
        yield cause
    failed: dict[str, list[str]] = {}
    for name in CHECKS:
        if name in without or (cause and name == cause.name):
            continue
        result = _run_check(name, subject) if name in possible else SetupError()
        if isinstance(result, Finding):
            yield Examined(name, result)
        elif cause or isinstance(result, EdgeError):
            failed.setdefault("the cause above" if cause else str(result), []).append(name)
        else:
            advice = "if the cause is unclear, send a support bundle: edge doctor --bundle FILE"
            yield Examined(name, problem(f"check failed: {result!r}", advice))
    if failed:
        text = "; ".join(f"{some(names)}, because of {why}" for why, names in failed.items())
        yield Examined("unchecked", problem(f"not checked: {text}", "fix that first"))


def exit_code(examined: list[Examined]) -> int:
    """Return the exit code for monitoring: 0 ok, 1 warning, 2 problem."""
    return max((LEVELS[item.finding.level] for item in examined), default=0)


def as_json(examined: list[Examined]) -> str:
    worst = list(LEVELS)[exit_code(examined)]
    checks = [{"id": item.name, **item.finding._asdict()} for item in examined]
    return json.dumps({"status": worst, "checks": checks}, indent=2, ensure_ascii=False)


def _run_check(name: str, subject: Subject) -> Finding | Exception:
    """Run a check. One that breaks does not hide the others."""
    if name in ON_SITES and not subject.machine.is_site:
        return ok("not installed by systemd/install.sh")
    try:
        return CHECKS[name](subject)
    except Exception as error:  # noqa: BLE001  any error is reported
        return error
