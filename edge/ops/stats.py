"""The numbers of /metrics that are looked up at the moment somebody asks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from edge.clock import SECOND
from edge.ops import last_findings
from edge.ops.backup import list_backups
from edge.store.database import FILE_NAME
from edge.store.stats import reader_figures


def sample(data_dir: Path, backup_dir: Path, ingest: Callable[[], Mapping[str, float]]) -> Iterable[Metric]:
    """`ingest` gives what the running subscriber knows of itself, by name."""
    for name, value in ingest().items():
        yield GaugeMetricFamily(f"edge_ingest_{name}", "Of the connection to the broker", value)
    yield from _files(data_dir, backup_dir)
    yield from last_findings.sample(data_dir)
    yield from _readers()


def _files(data_dir: Path, backup_dir: Path) -> Iterable[Metric]:
    for name, path in (("database", data_dir / FILE_NAME), ("wal", data_dir / f"{FILE_NAME}-wal")):
        size = path.stat().st_size if path.exists() else 0
        yield GaugeMetricFamily(f"edge_{name}_bytes", f"Size of {path.name}", size)
    yield GaugeMetricFamily("edge_disk_free_bytes", "Free space beside it", shutil.disk_usage(data_dir).free)
    newest = next(iter(list_backups(backup_dir)), None)
    if newest:
        yield GaugeMetricFamily("edge_backup_timestamp_seconds", "Time of the newest", newest.made_at.timestamp())
        yield GaugeMetricFamily("edge_backup_bytes", "Size of the newest", newest.size)


def _readers() -> Iterable[Metric]:
    info = GaugeMetricFamily("edge_reader_info", "Names of readers", labels=["reader", "name", "organization"])
    heard = GaugeMetricFamily("edge_reader_last_heard_timestamp_seconds", "Newest sign of life", labels=["reader"])
    for reader in reader_figures():
        info.add_metric([str(reader.reader_id), reader.name, reader.organization], 1)
        if reader.last_heard_at is not None:
            heard.add_metric([str(reader.reader_id)], reader.last_heard_at / SECOND)
    yield info
    yield heard
