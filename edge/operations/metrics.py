"""Gauges of /metrics that are computed on request."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from edge.clock import SECOND
from edge.database.connection import FILE_NAME
from edge.events import destinations
from edge.operations.backup import newest_backup
from edge.operations.doctor import findings
from edge.operations.stats import reader_figures
from edge.rules.channels import channels, outbox
from edge.rules.outputs import outputs
from edge.sync.store import change_feed, state
from edge.sync.store.site_health import PROBLEM, WARNING
from edge.tracking import asset_values, history_engine


def sample(data_dir: Path, backup_dir: Path, ingest: Callable[[], Mapping[str, float]]) -> Iterable[Metric]:
    """Yield all gauges. `ingest` returns the figures of the running MQTT subscriber by name."""
    for name, value in ingest().items():
        yield GaugeMetricFamily(f"edge_ingest_{name}", "Of the connection to the broker", value)
    yield from _files(data_dir, backup_dir)
    yield from findings.sample(data_dir)
    yield from _readers()
    yield from _sync()
    yield from _deliveries()
    yield from _upstreams()
    yield from _batteries()
    for name, value in history_engine.figures().items():
        yield GaugeMetricFamily(f"edge_history_postgresql_{name}", "Of the connections to the history", value)


def _files(data_dir: Path, backup_dir: Path) -> Iterable[Metric]:
    for name, path in (("database", data_dir / FILE_NAME), ("wal", data_dir / f"{FILE_NAME}-wal")):
        size = path.stat().st_size if path.exists() else 0
        yield GaugeMetricFamily(f"edge_{name}_bytes", f"Size of {path.name}", size)
    yield GaugeMetricFamily("edge_disk_free_bytes", "Free space on its disk", shutil.disk_usage(data_dir).free)
    newest = newest_backup(backup_dir)
    if newest:
        yield GaugeMetricFamily("edge_backup_timestamp_seconds", "Time of the newest", newest.made_at.timestamp())
        yield GaugeMetricFamily("edge_backup_bytes", "Size of the newest", newest.size)


# Gauges of one kind of row by the end of their names: the description, and the value, None if it is unknown.
Gauges = Mapping[str, tuple[str, Callable[[Any], float | None]]]


def _families(
    prefix: str, labels: Sequence[str], gauges: Gauges, rows: Iterable[tuple[list[str], Any]]
) -> list[Metric]:
    """Return a family for each gauge. `rows`: values of the labels, and the row itself."""
    families = {name: GaugeMetricFamily(prefix + name, text, labels=labels) for name, (text, _) in gauges.items()}
    for named, row in rows:
        for name, (_, value_of) in gauges.items():
            if (value := value_of(row)) is not None:
                families[name].add_metric(named, value)
    return [*families.values()]


def _of(attribute: str) -> Callable[[Any], float | None]:
    """Return a function for an attribute that is a number or unknown."""
    return attrgetter(attribute)


def _seconds(attribute: str) -> Callable[[Any], float]:
    """Return a function for an attribute in µs as seconds; 0: never."""
    return lambda row: (getattr(row, attribute) or 0) / SECOND


def _named(rows: Iterable[Any]) -> Iterator[tuple[list[str], Any]]:
    """Yield rows of organizations with their number, name and organization."""
    return (([str(row.no), row.name, str(row.organization_id)], row) for row in rows)


def _is_failing(row: Any) -> bool:
    return row.failing_since is not None


def _readers() -> Iterable[Metric]:
    rows = reader_figures()
    info: Gauges = {"info": ("Names of readers", lambda _: 1)}
    heard: Gauges = {"last_heard_timestamp_seconds": ("Time of the last message", _seconds("last_received_at"))}
    named = (([str(row.reader_id), row.name, row.organization], row) for row in rows)
    yield from _families("edge_reader_", ["reader", "name", "organization"], info, named)
    known = (([str(row.reader_id)], row) for row in rows if row.last_received_at is not None)
    yield from _families("edge_reader_", ["reader"], heard, known)


def _sync() -> Iterable[Metric]:
    """Yield the gauges of sync; none without a hub and without sites."""
    current = state.site_state()
    if current:
        here = current.here
        yield GaugeMetricFamily("edge_sync_running", "1 unless paused, stopped or recovering", _is_on(current.mode))
        yield GaugeMetricFamily("edge_sync_waiting_changes", "Changes the hub does not have yet", current.waiting)
        yield GaugeMetricFamily("edge_sync_set_aside", "Changes the hub cannot accept", current.set_aside)
        for name, moment in (("board", here.board_at), ("commit", here.last_commit_at), ("error", here.last_error_at)):
            at = (moment or 0) / SECOND
            yield GaugeMetricFamily(f"edge_sync_{name}_timestamp_seconds", "See `edge sync status`; 0: never", at)
        traffic = GaugeMetricFamily("edge_sync_bytes_today", "Since midnight UTC", labels=["direction"])
        traffic.add_metric(["sent"], current.sent_today)
        traffic.add_metric(["received"], current.received_today)
        yield traffic
    reported = [([row.site.code], row) for row in state.site_statuses(None)]
    if reported:
        yield from _families("edge_site_", ["site"], _SITES, reported)
        known = [(code, row.received.health) for code, row in reported if row.received]
        info = (([*code, health.version], health) for code, health in known)
        yield from _families("edge_site_", ["site", "version"], {"info": ("Releases of the sites", lambda _: 1)}, info)
        yield from _families("edge_site_", ["site"], _HEALTH, known)
        levels = {"warning": WARNING, "problem": PROBLEM}
        found = (([*code, name], len(health.checks(level))) for code, health in known for name, level in levels.items())
        findings: Gauges = {"doctor_findings": ("Findings of its doctor", float)}
        yield from _families("edge_site_", ["site", "level"], findings, found)


_SITES: Gauges = {
    "heard_timestamp_seconds": ("Last contact; 0: never", lambda row: (row.site.last_contact_at or 0) / SECOND),
    "waiting_changes": ("Reported by the site", _of("waiting")),
    "unsettled": ("Conflicts and items set aside", lambda row: row.conflicts + row.set_aside),
    "silent": ("1 if the site should have reported", _of("is_silent")),
}
_HEALTH: Gauges = {  # as the sites report it
    "certificate_end_timestamp_seconds": ("End of its first certificate to expire", _of("certificate_ends_at")),
    "backup_timestamp_seconds": ("Time of its newest backup", _of("backup_at")),
    "disk_free_megabytes": ("Free space on its disk", _of("disk_free_mb")),
    "reads_per_minute": ("Average of the last hour or two", _of("reads_per_minute")),
}


def _is_on(mode: str) -> int:
    return int(mode in ("running", "trying"))


_EVENTS: Gauges = {
    "delivered": ("Events a destination accepted", _of("delivered")),
    "waiting": ("Events not delivered yet", destinations.count_waiting),
    "lost": ("Events expired before delivery", _of("lost")),
    "enabled": ("1 while enabled, 0 once disabled", lambda row: row.disabled_at is None),
}
_OUTPUTS: Gauges = {
    "on": ("1 while an output is switched on", _of("is_on")),
    "failing": ("1 while it cannot be switched", _is_failing),
}
_CHANNELS: Gauges = {
    "sent": ("Messages a channel accepted", _of("delivered")),
    "waiting": ("Messages not sent yet", outbox.count_waiting),
    "lost": ("Messages given up", _of("lost")),
    "failing": ("1 while attempts fail", _is_failing),
}


def _deliveries() -> Iterable[Metric]:
    to_urls = (row for row in destinations.KIND.all() if row.url)
    yield from _families("edge_events_", ["destination", "name", "organization"], _EVENTS, _named(to_urls))
    yield from _families("edge_channel_", ["channel", "name", "organization"], _CHANNELS, _named(channels.KIND.all()))
    yield from _families("edge_output_", ["output", "name", "organization"], _OUTPUTS, _named(outputs.KIND.all()))


def _batteries() -> Iterable[Metric]:
    known = GaugeMetricFamily("edge_asset_batteries", "Assets that send their battery", labels=["organization"])
    low = GaugeMetricFamily("edge_asset_batteries_low", "Assets with a low battery", labels=["organization"])
    for organization_id, number, low_number in asset_values.count_low():
        known.add_metric([str(organization_id)], number)
        low.add_metric([str(organization_id)], low_number)
    yield from (known, low)


def _upstreams() -> Iterable[Metric]:
    """Yield the gauges of services with copies of the records; none without one, which then also loads nothing."""
    if not change_feed.has_upstream():
        return
    from edge.upstream import counterparts, upstreams

    rows = [([str(row.organization_id)], row) for row in upstreams.all_upstreams()]
    counts = {row.no: counterparts.count(row.no) for _, row in rows}
    gauges: Gauges = {
        "waiting_changes": ("At most 10,000 are counted", upstreams.count_waiting),
        "written": ("Records written so far", _of("written")),
        "records": ("Records there", lambda row: counts[row.no][0]),
        "failing": ("1 while attempts fail", _is_failing),
        "success_timestamp_seconds": ("Last completed round; 0: never", _seconds("last_success_at")),
    }
    yield from _families("edge_upstream_", ["organization"], gauges, rows)
    kinds = ((named, row, kind) for named, row in rows for kind in counterparts.TroubleKind)
    numbers = (([*named, kind.value.replace(" ", "_")], counts[row.no][1].get(kind, 0)) for named, row, kind in kinds)
    differing: Gauges = {"differences": ("Not equal there", float)}
    yield from _families("edge_upstream_", ["organization", "kind"], differing, numbers)
