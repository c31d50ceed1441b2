"""The input and the result of a check of `edge doctor`.

What the doctor found the last time it ran by its timer, kept beside the database for /metrics.
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
from edge.formats.reads import Guess
from edge.operations.doctor.machine import NO_SITE, Machine
from edge.operations.files import replace_text


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"  # it works, and may not go on working
    PROBLEM = "problem"


class Finding(NamedTuple):
    level: Level
    text: str
    advice: str = ""


class Subject(NamedTuple):
    """The installation that is examined, in plain values."""

    version: str
    data_dir: Path
    backup_dir: Path
    second_dir: Path | None
    low_disk_bytes: int
    http_listen: str
    public_url: str  # empty where none is set
    authority_file: Path | None  # of this box's own certificates
    broker_url: str
    broker_settings: Path  # folder of mosquitto's settings; it need not exist
    # Values of topics below $SYS, or whatever EdgeError says why there are none.
    ask_broker: Callable[[], Mapping[str, str]]
    recognise: Callable[[str, bytes], Guess]  # the format of a message, by its topic and bytes
    proposed_filter: Callable[[str, bytes], str]  # what a reader of such messages would listen to
    continuous_dir: Path | None = None  # where the continuous backup goes
    accounts_dir: Path | None = None  # where edge writes the accounts of readers for mosquitto
    tls_port: int = 0  # of the broker, for readers with TLS; 0: none
    machine: Machine = NO_SITE


def ok(text: str) -> Finding:
    return Finding(Level.OK, text)


def warning(text: str, advice: str) -> Finding:
    return Finding(Level.WARNING, text, advice)


def problem(text: str, advice: str) -> Finding:
    return Finding(Level.PROBLEM, text, advice)


def some(names: list[str], most: int = 5) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


FILE_NAME = "doctor.json"
LEVELS = {"ok": 0, "warning": 1, "problem": 2}


def keep(data_dir: Path, findings: str) -> None:
    """`findings` as the doctor writes them for machines."""
    replace_text(data_dir / FILE_NAME, json.dumps({"at": clock.now(), **json.loads(findings)}))


def sample(data_dir: Path) -> Iterable[Metric]:
    """One number for each check: 0 ok, 1 warning, 2 problem."""
    with suppress(FileNotFoundError, ValueError):
        kept = json.loads((data_dir / FILE_NAME).read_text("utf-8"))
        levels = GaugeMetricFamily("edge_doctor_check", "0 ok, 1 warning, 2 problem", labels=["check"])
        for check in kept["checks"]:
            levels.add_metric([check["id"]], LEVELS[check["level"]])
        yield levels
        yield GaugeMetricFamily("edge_doctor_timestamp_seconds", "When the doctor last ran", kept["at"] / clock.SECOND)
