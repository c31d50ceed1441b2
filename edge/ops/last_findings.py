"""What the doctor found the last time it ran by its timer, kept beside the database for /metrics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from edge import clock
from edge.ops.files import replace_text

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
