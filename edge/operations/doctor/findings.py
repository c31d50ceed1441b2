"""Input and result of the checks of `edge doctor`.

Also stores the findings of the last timed run in the data directory, for /metrics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from edge import clock
from edge.config.settings import Config
from edge.operations.doctor.machine import NO_SITE, Machine
from edge.operations.files import replace_text

INSTALLER = "sudo /opt/edge/venv/systemd/install.sh"  # on each box; it repairs and keeps the site


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"  # it works, but may stop working
    PROBLEM = "problem"


class Finding(NamedTuple):
    level: Level
    text: str
    advice: str = ""


class Subject(NamedTuple):
    """The installation to check: its settings, its broker, and the computer around it."""

    config: Config
    ask_broker: Callable[[], Mapping[str, str]]  # returns topics below $SYS with their values, or raises EdgeError
    machine: Machine = NO_SITE
    firewall: str | None = None  # its rules, which only root can read; None: unknown

    @property
    def data_dir(self) -> Path:
        return self.config.data_dir


def ok(text: str) -> Finding:
    return Finding(Level.OK, text)


def warning(text: str, advice: str) -> Finding:
    return Finding(Level.WARNING, text, advice)


def problem(text: str, advice: str) -> Finding:
    return Finding(Level.PROBLEM, text, advice)


def some(names: list[str], most: int = 5) -> str:
    """Join at most `most` names and count the rest."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def listing(names: list[str], fault: str, advice: str, fine: str) -> Finding:
    """Return a warning with the fault and the first names, or that all is well without names."""
    return warning(f"{fault}: {some(names)}", advice) if names else ok(fine)


FILE_NAME = "doctor.json"
LEVELS = {"ok": 0, "warning": 1, "problem": 2}


def keep(data_dir: Path, findings: str, certificate_ends_at: int | None = None) -> None:
    """Store the findings, given in the doctor's JSON format, and the end of the first certificate (UTC seconds)."""
    kept = {"at": clock.now(), "certificate_ends_at": certificate_ends_at, **json.loads(findings)}
    replace_text(data_dir / FILE_NAME, json.dumps(kept))


class LastRun(NamedTuple):
    """Result of the last timed run. `at` is None if there was none."""

    at: int | None
    levels: dict[str, int]  # by check: 0 ok, 1 warning, 2 problem
    certificate_ends_at: int | None  # UTC seconds


def last(data_dir: Path) -> LastRun:
    """Return the stored findings."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads((data_dir / FILE_NAME).read_text("utf-8"))
        levels = {check["id"]: LEVELS[check["level"]] for check in kept["checks"]}
        return LastRun(kept["at"], levels, kept.get("certificate_ends_at"))
    return LastRun(None, {}, None)


def sample(data_dir: Path) -> Iterable[Metric]:
    """Yield one gauge for each check of the last stored run."""
    kept = last(data_dir)
    if kept.at is None:
        return
    levels = GaugeMetricFamily("edge_doctor_check", "0 ok, 1 warning, 2 problem", labels=["check"])
    for check, level in kept.levels.items():
        levels.add_metric([check], level)
    yield levels
    yield GaugeMetricFamily("edge_doctor_timestamp_seconds", "When the doctor last ran", kept.at / clock.SECOND)
    if kept.certificate_ends_at is not None:
        yield GaugeMetricFamily(
            "edge_certificate_end_timestamp_seconds", "End of the first certificate to expire", kept.certificate_ends_at
        )
