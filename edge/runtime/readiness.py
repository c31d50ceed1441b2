"""Health checks of the running service, for /healthz, /readyz, the Status page and the watchdog.

`runtime.serve` registers them, together with checks from other packages.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from edge import clock
from edge.database.connection import execute
from edge.events import destinations
from edge.events.stream import Streams
from edge.events.worker import EventsWorker
from edge.ingest.pipeline import Pipeline
from edge.ingest.subscriber import PING_LOST_SECONDS, Subscriber
from edge.operations.health import Check
from edge.people import organizations
from edge.rules.channels import channels
from edge.rules.channels.worker import ChannelsWorker
from edge.rules.outputs import outputs
from edge.rules.outputs.worker import OutputsWorker
from edge.sync.store.state import site_trouble
from edge.sync.worker import SyncWorker

WRITER_STUCK_SECONDS = 30.0
ROUND_TRIP_LOST_SECONDS = 120.0  # the subscriber itself reconnects much earlier

WAITS_FOR_UPGRADE = Check("ingest", True, "reads wait at the broker until the upgrade is complete")


def check_database() -> Check:
    execute("SELECT one FROM instance").fetchone()
    return Check("database", True, "answers")


def check_ingest(subscriber: Subscriber) -> Check:
    state = subscriber.state()
    if not state.is_running:
        return Check("ingest", False, "a thread has stopped; restart the service")
    if state.seconds_since_commit_progress > WRITER_STUCK_SECONDS:
        return Check("ingest", False, "the writer is stuck; restart the service")
    if state.store_problem:
        return Check("ingest", True, f"messages wait at the broker: {state.store_problem}")
    return Check("ingest", True, f"{state.received} messages received, {state.queued} queued")


def check_round_trip(subscriber: Subscriber) -> Check:
    """Fail if the connection to the broker is up but delivers nothing. An unreachable broker is not fatal."""
    state = subscriber.state()
    since = state.seconds_since_round_trip
    if state.is_connected and since is not None and since > ROUND_TRIP_LOST_SECONDS:
        return Check("round_trip", False, f"connected to the broker, but the last ping returned {since:.0f} s ago")
    return Check("round_trip", True, "pings return, or the broker is not connected")


def check_broker(subscriber: Subscriber) -> Check:
    state = subscriber.state()
    since = state.seconds_since_round_trip
    if state.problem or not state.is_connected:
        return Check("broker", False, state.problem or "not connected")
    if since is None or since > PING_LOST_SECONDS:
        return Check("broker", False, "connected, but pings do not return; check the broker")
    return Check("broker", True, f"last ping {since:.0f} s ago")


def check_disk(folder: Path, low_mb: int) -> Check:
    free = shutil.disk_usage(folder).free >> 20
    if free < low_mb:
        return Check("disk", False, f"only {free} MB free; the oldest history is being deleted. Free up space")
    return Check("disk", True, f"{free} MB free")


def check_clock(pipeline: Pipeline) -> Check:
    ahead = pipeline.timekeeper.box_ahead
    if ahead:
        return Check(
            "clock",
            False,
            f"this box's clock is {clock.span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} all its readers, so "
            "their time is used; set the clock with timedatectl, and synchronize it with timedatectl set-ntp true",
        )
    if pipeline.timekeeper.is_trusted:
        return Check("clock", True, "correct")
    return Check(
        "clock",
        False,
        "the clock is behind the newest scan or more than a year ahead of it, so it is not trusted; "
        "set it with timedatectl or, if it is correct, confirm it with edge trust-clock",
    )


def check_sync(worker: SyncWorker) -> Check:
    """Fail only if the thread has ended. An unreachable hub is not fatal; changes are queued."""
    if not worker.is_alive():
        return Check("sync", False, "the thread has stopped; restart the service")
    trouble = site_trouble()
    return Check("sync", not trouble, trouble or "up to date, or no hub")


def check_events(worker: EventsWorker, streams: Streams) -> Check:
    """Fail only if the thread has ended. An unreachable receiver is not fatal; events are queued."""
    if not streams.is_alive():
        return Check("events", False, "the thread of the live streams has stopped; restart the service")
    trouble = worker.trouble() or _of_organizations(destinations.troubles())
    return Check("events", not trouble, trouble or "all destinations accept events, or there are none")


def check_channels(worker: ChannelsWorker) -> Check:
    """Fail if a channel has failed for an hour; its messages wait meanwhile."""
    trouble = worker.trouble() or _of_organizations(channels.troubles())
    return Check("channels", not trouble, trouble or "all channels send, or there are none")


def check_outputs(worker: OutputsWorker) -> Check:
    """Fail if an output could not be switched for a minute."""
    trouble = worker.trouble() or _of_organizations(outputs.troubles())
    return Check("outputs", not trouble, trouble or "all outputs can be switched, or there are none")


def _of_organizations(troubles: Sequence[str]) -> str:
    """Join troubles that name records. If several organizations use the box, give only their number.

    Editors of all organizations see the checks, and rules send them.
    """
    if troubles and len(organizations.list_organizations()) > 1:
        return f"{len(troubles)} failing; see their pages, or run sudo edge doctor"
    return "; ".join(troubles)
