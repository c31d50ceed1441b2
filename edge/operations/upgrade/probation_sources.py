"""Inputs for the probation of a release: answers of the service, its systemd unit, and the ledger."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

from edge.errors import Unavailable
from edge.operations import stats
from edge.operations.doctor.machine import run
from edge.operations.upgrade.probation import Observation, Tally

_PATHS = ("/healthz", "/sign-in", "/api/openapi.json")
_ERRORS = re.compile(r'^edge_http_request_seconds_count\{[^}]*status="500"[^}]*\} ([0-9.]+)', re.MULTILINE)
_SECONDS = 5.0
_MOST_BYTES = 4_000_000
_NO_LIMIT = 2**62
_PROPERTIES = "NRestarts,MemoryCurrent,MemoryMax,ActiveState,Result"


def observe(base: str, since_hour: int) -> Observation:
    """Take one observation. The database must be open; readers are counted from `since_hour` on."""
    unit = unit_state()
    unanswered = next((path for path in _PATHS if answer(base + path) is None), "")
    ready = answer(f"{base}/readyz")
    return Observation(
        at=time.monotonic(),
        restarts=int(unit.get("NRestarts") or 0),
        unanswered=unanswered,
        not_ready="" if ready is not None or unanswered else "see /readyz",
        errors=count_errors(answer(f"{base}/metrics") or ""),
        memory_share=memory_share(unit),
        readers=tallies(since_hour),
        is_stopped=is_stopped(unit),
    )


def tallies(since_hour: int) -> dict[str, Tally]:
    """Return the totals of all readers and formats by name. The database must be open."""
    return {name: Tally(*row) for name, *row in stats.reader_totals(since_hour)}


def answer(url: str) -> str | None:
    """Return the body of a successful answer, at most four megabytes, else None."""
    request = urllib.request.Request(url, headers={"User-Agent": "edge-upgrade/1"})  # noqa: S310  http://127.0.0.1
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310  the box's own address
            body: bytes = response.read(_MOST_BYTES)
    except (OSError, HTTPException):
        return None
    return body.decode("utf-8", "replace")


def count_errors(metrics: str) -> int:
    """Count answers with status 500 in the text of /metrics."""
    return int(sum(float(count) for count in _ERRORS.findall(metrics)))


def memory_share(unit: Mapping[str, str]) -> float:
    """Return the used share of the unit's memory limit, or 0 if it is unlimited or unknown."""
    used, limit = (unit.get(name, "") for name in ("MemoryCurrent", "MemoryMax"))
    if not (used.isdigit() and limit.isdigit()) or int(limit) > _NO_LIMIT or int(used) > _NO_LIMIT or not int(limit):
        return 0.0
    return int(used) / int(limit)


def is_stopped(unit: Mapping[str, str]) -> bool:
    """True if systemd was asked to stop the service. A service that ended by itself is restarted or has failed."""
    return unit.get("ActiveState") in ("inactive", "deactivating") and unit.get("Result") == "success"


def unit_state() -> dict[str, str]:
    """Ask systemd about the service. Returns an empty dict without systemd."""
    try:
        shown = run(["systemctl", "show", "edge.service", f"--property={_PROPERTIES}"])
    except Unavailable:
        return {}
    return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
