"""Gauges of /metrics that are computed on request."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

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
from edge.sync.store.state import SiteStatus
from edge.tracking import asset_values, history_engine


def sample(data_dir: Path, backup_dir: Path, ingest: Callable[[], Mapping[str, float]]) -> Iterable[Metric]:
    """Yield all gauges. `ingest` returns the figures of the running MQTT subscriber by name."""
    for name, value in ingest().items():
        yield GaugeMetricFamily(f"edge_ingest_{name}", "Of the connection to the broker", value)
    yield from _files(data_dir, backup_dir)
    yield from findings.sample(data_dir)
    yield from _readers()
    yield from _sync()
    yield from _events()
    yield from _channels()
    yield from _outputs()
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


def _readers() -> Iterable[Metric]:
    info = GaugeMetricFamily("edge_reader_info", "Names of readers", labels=["reader", "name", "organization"])
    seen = GaugeMetricFamily("edge_reader_last_heard_timestamp_seconds", "Time of the last message", labels=["reader"])
    for reader in reader_figures():
        info.add_metric([str(reader.reader_id), reader.name, reader.organization], 1)
        if reader.last_received_at is not None:
            seen.add_metric([str(reader.reader_id)], reader.last_received_at / SECOND)
    yield info
    yield seen


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
    reported = state.site_statuses(None)
    if reported:
        contact = GaugeMetricFamily("edge_site_heard_timestamp_seconds", "Last contact; 0: never", labels=["site"])
        waiting = GaugeMetricFamily("edge_site_waiting_changes", "Reported by the site", labels=["site"])
        unsettled = GaugeMetricFamily("edge_site_unsettled", "Conflicts and items set aside", labels=["site"])
        for row in reported:
            contact.add_metric([row.site.code], (row.site.last_contact_at or 0) / SECOND)
            waiting.add_metric([row.site.code], row.waiting)
            unsettled.add_metric([row.site.code], row.conflicts + row.set_aside)
        yield from (contact, waiting, unsettled)
        yield from _sites_health(reported)


def _sites_health(reported: list[SiteStatus]) -> Iterable[Metric]:
    """Yield what the sites report of themselves. Unknown values are left out."""
    label = ["site"]
    info = GaugeMetricFamily("edge_site_info", "Releases of the sites", labels=["site", "version"])
    silent = GaugeMetricFamily("edge_site_silent", "1 if the site should have reported", labels=label)
    by_level = GaugeMetricFamily("edge_site_doctor_findings", "Findings of its doctor", labels=["site", "level"])
    gauges = {
        "certificate_ends_at": (
            "edge_site_certificate_end_timestamp_seconds",
            "End of its first certificate to expire",
        ),
        "backup_at": ("edge_site_backup_timestamp_seconds", "Time of its newest backup"),
        "disk_free_mb": ("edge_site_disk_free_megabytes", "Free space on its disk"),
        "reads_per_minute": ("edge_site_reads_per_minute", "Average of the last hour or two"),
    }
    figures = {name: GaugeMetricFamily(of, text, labels=label) for name, (of, text) in gauges.items()}
    for row in reported:
        silent.add_metric([row.site.code], row.is_silent)
        if row.received is None:
            continue
        health = row.received.health
        info.add_metric([row.site.code, health.version], 1)
        for name, level in (("warning", WARNING), ("problem", PROBLEM)):
            by_level.add_metric([row.site.code, name], len(health.checks(level)))
        for name, family in figures.items():
            if (value := getattr(health, name)) is not None:
                family.add_metric([row.site.code], value)
    yield from (info, silent, by_level, *figures.values())


def _is_on(mode: str) -> int:
    return int(mode in ("running", "trying"))


def _events() -> Iterable[Metric]:
    labels = ["destination", "name", "organization"]
    gauges = {
        "delivered": GaugeMetricFamily("edge_events_delivered", "Events a destination accepted", labels=labels),
        "waiting": GaugeMetricFamily("edge_events_waiting", "Events not delivered yet", labels=labels),
        "lost": GaugeMetricFamily("edge_events_lost", "Events expired before delivery", labels=labels),
        "enabled": GaugeMetricFamily("edge_events_enabled", "1 while enabled, 0 once disabled", labels=labels),
    }
    for row in destinations.all_destinations():
        if row.url:
            named = [str(row.no), row.name, str(row.organization_id)]
            gauges["delivered"].add_metric(named, row.delivered)
            gauges["waiting"].add_metric(named, destinations.count_waiting(row))
            gauges["lost"].add_metric(named, row.lost)
            gauges["enabled"].add_metric(named, row.disabled_at is None)
    yield from gauges.values()


def _batteries() -> Iterable[Metric]:
    known = GaugeMetricFamily("edge_asset_batteries", "Assets that send their battery", labels=["organization"])
    low = GaugeMetricFamily("edge_asset_batteries_low", "Assets with a low battery", labels=["organization"])
    for organization_id, number, low_number in asset_values.count_low():
        known.add_metric([str(organization_id)], number)
        low.add_metric([str(organization_id)], low_number)
    yield from (known, low)


def _outputs() -> Iterable[Metric]:
    labels = ["output", "name", "organization"]
    gauges = {
        "on": GaugeMetricFamily("edge_output_on", "1 while an output is switched on", labels=labels),
        "failing": GaugeMetricFamily("edge_output_failing", "1 while it cannot be switched", labels=labels),
    }
    for row in outputs.all_outputs():
        named = [str(row.no), row.name, str(row.organization_id)]
        gauges["on"].add_metric(named, row.is_on)
        gauges["failing"].add_metric(named, row.failing_since is not None)
    yield from gauges.values()


def _upstreams() -> Iterable[Metric]:
    """Yield the gauges of services with copies of the records; none without one, which then also loads nothing."""
    if not change_feed.has_upstream():
        return
    from edge.upstream import counterparts, upstreams

    labels = ["organization"]
    gauges = {
        "waiting": GaugeMetricFamily("edge_upstream_waiting_changes", "At most 10,000 are counted", labels=labels),
        "written": GaugeMetricFamily("edge_upstream_written", "Records written so far", labels=labels),
        "records": GaugeMetricFamily("edge_upstream_records", "Records there", labels=labels),
        "failing": GaugeMetricFamily("edge_upstream_failing", "1 while attempts fail", labels=labels),
        "success": GaugeMetricFamily(
            "edge_upstream_success_timestamp_seconds", "Last completed round; 0: never", labels=labels
        ),
    }
    differing = GaugeMetricFamily("edge_upstream_differences", "Not equal there", labels=["organization", "kind"])
    for row in upstreams.all_upstreams():
        organization = [str(row.organization_id)]
        number, troubles = counterparts.count(row.no)
        gauges["waiting"].add_metric(organization, upstreams.count_waiting(row))
        gauges["written"].add_metric(organization, row.written)
        gauges["records"].add_metric(organization, number)
        gauges["failing"].add_metric(organization, row.failing_since is not None)
        gauges["success"].add_metric(organization, (row.last_success_at or 0) / SECOND)
        for kind in counterparts.TroubleKind:
            differing.add_metric([*organization, kind.value.replace(" ", "_")], troubles.get(kind, 0))
    yield from (*gauges.values(), differing)


def _channels() -> Iterable[Metric]:
    labels = ["channel", "name", "organization"]
    gauges = {
        "sent": GaugeMetricFamily("edge_channel_sent", "Messages a channel accepted", labels=labels),
        "waiting": GaugeMetricFamily("edge_channel_waiting", "Messages not sent yet", labels=labels),
        "lost": GaugeMetricFamily("edge_channel_lost", "Messages given up", labels=labels),
        "failing": GaugeMetricFamily("edge_channel_failing", "1 while attempts fail", labels=labels),
    }
    for row in channels.all_channels():
        named = [str(row.no), row.name, str(row.organization_id)]
        gauges["sent"].add_metric(named, row.sent)
        gauges["waiting"].add_metric(named, outbox.count_waiting(row.no))
        gauges["lost"].add_metric(named, row.lost)
        gauges["failing"].add_metric(named, row.failing_since is not None)
    yield from gauges.values()
