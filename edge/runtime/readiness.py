"""Health checks of the running service, for /healthz, /readyz, the Status page and the watchdog.

`runtime.serve` registers them, together with checks from other packages.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from edge import clock, conversations
from edge.database.connection import execute
from edge.events import destinations
from edge.events.worker import EventsWorker
from edge.ingest.pipeline import Pipeline
from edge.ingest.subscriber import PING_LOST_SECONDS, Subscriber
from edge.operations.health import Check
from edge.people import organizations
from edge.readers import sign_ins
from edge.rules.channels import channels
from edge.rules.outputs import outputs
from edge.rules.outputs.worker import OutputsWorker
from edge.sync.store.state import site_trouble
from edge.texts import N_, fill, joined
from edge.tracking import history_engine
from edge.upstream import standby
from edge.upstream.standby import UpstreamStandby

WRITER_STUCK_SECONDS = 30.0
HTTP_STUCK_SECONDS = 60.0
ROUND_TRIP_LOST_SECONDS = 120.0  # the subscriber itself reconnects much earlier

AHEAD = N_(
    "this box's clock is %(duration)s ahead of all its readers, so their time is used; set the clock with timedatectl, "
    "and synchronize it with timedatectl set-ntp true"
)
BEHIND = N_(
    "this box's clock is %(duration)s behind all its readers, so their time is used; set the clock with timedatectl, "
    "and synchronize it with timedatectl set-ntp true"
)

WAITS = N_(
    "edge ended unexpectedly while it was connected to %(partner)s, perhaps because of its messages; it connects again "
    "in %(seconds)s s. See: journalctl -u edge"
)
WAITS_FOR_UPGRADE = Check("ingest", True, N_("reads wait at the broker until the upgrade is complete"))


def check_database() -> Check:
    execute("SELECT one FROM instance").fetchone()
    return Check("database", True, N_("answers"))


def check_pages(stuck_seconds: float, *, is_alive: bool) -> Check:
    if not is_alive:
        return Check("pages", False, N_("the thread has stopped; restart the service"))
    if stuck_seconds > HTTP_STUCK_SECONDS:
        stuck = fill(N_("no request has started for %(seconds)s s; restart the service"), seconds=round(stuck_seconds))
        return Check("pages", False, stuck)
    return Check("pages", True, N_("served"))


def check_ingest(subscriber: Subscriber) -> Check:
    state = subscriber.state()
    if not state.is_running:
        return Check("ingest", False, N_("a thread has stopped; restart the service"))
    if state.seconds_since_commit_progress > WRITER_STUCK_SECONDS:
        return Check("ingest", False, N_("the writer is stuck; restart the service"))
    if state.store_problem:
        return Check("ingest", True, fill(N_("messages wait at the broker: %(problem)s"), problem=state.store_problem))
    return Check(
        "ingest",
        True,
        fill(N_("%(received)s messages received, %(queued)s queued"), received=state.received, queued=state.queued),
    )


def check_round_trip(subscriber: Subscriber) -> Check:
    """Fail if the connection to the broker is up but delivers nothing. An unreachable broker is not fatal."""
    state = subscriber.state()
    since = state.seconds_since_round_trip
    if state.is_connected and since is not None and since > ROUND_TRIP_LOST_SECONDS:
        return Check(
            "round_trip",
            False,
            fill(N_("connected to the broker, but the last ping returned %(seconds)s s ago"), seconds=round(since)),
        )
    return Check("round_trip", True, N_("pings return, or the broker is not connected"))


def check_broker(subscriber: Subscriber) -> Check:
    state = subscriber.state()
    since = state.seconds_since_round_trip
    if state.problem or not state.is_connected:
        return Check("broker", False, state.problem or N_("not connected"))
    if since is None or since > PING_LOST_SECONDS:
        return Check("broker", False, N_("connected, but pings do not return; check the broker"))
    return Check("broker", True, fill(N_("last ping %(seconds)s s ago"), seconds=round(since)))


def check_sign_ins() -> Check:
    """Fail if the broker refuses clients, or if another program signs in as edge."""
    since = clock.now() - sign_ins.RECENT
    if others := sign_ins.SIGN_INS.others(since):
        text = fill(
            N_("another program signs in at the broker as edge, and interrupts it: stop it at %(addresses)s"),
            addresses=", ".join(others),
        )
        return Check("sign_ins", False, text, is_outside=True)
    if refused := sign_ins.SIGN_INS.refused(since):
        return Check("sign_ins", False, _of_organizations([sign_ins.refusals(refused)]), is_outside=True)
    if unheard := sign_ins.SIGN_INS.unheard:
        return Check("sign_ins", False, _of_organizations(unheard), is_outside=True)
    return Check("sign_ins", True, N_("the broker refuses nobody"))


def check_encryption(*, is_accepted: bool) -> Check:
    """Fail if readers sign in without encryption where the broker offers it, unless that is accepted."""
    port, accounts = sign_ins.SIGN_INS.tls_port, sign_ins.SIGN_INS.in_clear()
    if not accounts:
        return Check("reader_encryption", True, N_("no reader signs in without encryption"))
    text = sign_ins.unencrypted(accounts, port)
    if len(organizations.list_organizations()) > 1:
        text = fill(N_("%(number)s readers without encryption; see their pages"), number=len(accounts))
    return Check("reader_encryption", is_accepted or not port, text, is_outside=True)


def check_disk(folder: Path, low_mb: int) -> Check:
    free = shutil.disk_usage(folder).free >> 20
    if free < low_mb:
        return Check(
            "disk",
            False,
            fill(N_("only %(megabytes)s MB free; the oldest history is being deleted. Free up space"), megabytes=free),
        )
    return Check("disk", True, fill(N_("%(megabytes)s MB free"), megabytes=free))


def check_clock(pipeline: Pipeline) -> Check:
    ahead = pipeline.timekeeper.box_ahead
    if ahead:
        return Check(
            "clock",
            False,
            fill(AHEAD if ahead > 0 else BEHIND, duration=clock.span(abs(ahead))),
        )
    if pipeline.timekeeper.is_trusted:
        return Check("clock", True, N_("correct"))
    return Check(
        "clock",
        False,
        N_(
            "the clock is behind the newest scan or more than a year ahead of it, so it is not trusted; "
            "set it with timedatectl or, if it is correct, confirm it with edge trust-clock"
        ),
    )


def check_sync() -> Check:
    """An unreachable hub is not fatal; changes are queued."""
    trouble = site_trouble()
    return Check("sync", not trouble, trouble or N_("up to date, or no hub"))


def check_history() -> Check:
    """Fail if PostgreSQL could not be reached or used last, for a hub with its history there."""
    reason = history_engine.why_away()
    if reason and len(organizations.list_organizations()) > 1:
        reason = N_("PostgreSQL cannot be used; run sudo edge doctor")  # the reason may name its machine
    return Check("history", not reason, reason or N_("PostgreSQL can be used"))


def check_destinations(name: str, worker: EventsWorker | OutputsWorker | None = None) -> Check:
    """Fail if a thread has ended, or a destination of a family has failed for some time; what is sent waits."""
    family, fine = _FAMILIES[name]
    trouble = (worker.trouble() if worker else "") or _of_organizations(family.troubles())
    return Check(name, not trouble, trouble or fine)


_FAMILIES = {
    "events": (destinations.KIND, N_("all destinations accept events, or there are none")),
    "channels": (channels.KIND, N_("all channels send, or there are none")),
    "outputs": (outputs.KIND, N_("all outputs can be switched, or there are none")),
}


def check_partners() -> Check:
    """Fail while edge does not connect to a partner because it ended unexpectedly during a conversation with it."""
    conversations.close_marks()
    waits = [fill(WAITS, partner=partner, seconds=left) for partner, left in sorted(conversations.waiting().items())]
    return Check("partners", not waits, _of_organizations(waits) or N_("edge connects to all of them"))


def check_upstream(worker: UpstreamStandby) -> Check:
    """Fail if a service has not been usable for an hour. Changes wait meanwhile."""
    trouble = worker.trouble() or _of_organizations(standby.troubles())
    return Check("upstream", not trouble, trouble or N_("the service takes records, or there is none"))


def _of_organizations(troubles: Sequence[str]) -> str:
    """Join troubles that name records. If several organizations use the box, give only their number.

    Editors of all organizations see the checks, and rules send them.
    """
    if troubles and len(organizations.list_organizations()) > 1:
        return fill(N_("%(number)s failing; see their pages, or run sudo edge doctor"), number=len(troubles))
    return joined(troubles)
