"""Sync status for pages, commands and monitoring, on a site and on a hub."""

from __future__ import annotations

import json
from typing import NamedTuple

from edge import clock
from edge.database.change_log import Kind
from edge.database.connection import execute, scalar
from edge.sync.store import change_feed, hub_link, site_health, sites
from edge.sync.store.exchange import HUB
from edge.sync.store.hub_link import Target
from edge.sync.store.site_health import OK, PROBLEM, WARNING, ReceivedHealth
from edge.sync.store.sites import Site
from edge.texts import N_, fill
from edge.validation import times

_MINUTE = 60 * clock.SECOND
BEHIND = 15 * _MINUTE  # warn after this time without an answer
CLOCK_OFF = 60 * clock.SECOND
_RATE_OVER = 2 * _MINUTE
RIVAL_AT_SITE = N_(
    "another box, perhaps a copy of this one's disk, also reports as this site; the hub rejects it. Turn it off or "
    "run `edge sync leave` there"
)
RIVAL_AT_HUB = N_(
    "two boxes report as this site, perhaps from copies of one disk; the second one is rejected. Turn it off or run "
    "`edge sync leave` there"
)


class SiteState(NamedTuple):
    """Status of this machine as a site.

    `rate`: changes per second recently acknowledged; `history_until`: None if unknown.
    """

    here: Target
    mode: str  # running, trying, paused, stopped, recovering
    waiting: int
    history_until: int | None
    rate: float
    sent_today: int
    received_today: int
    set_aside: int


class SiteStatus(NamedTuple):
    """Status of a site at its hub. `trouble` is a text, empty if there is none."""

    site: Site
    waiting: int
    board_at: int | None
    history_until: int | None
    received_today: int
    conflicts: int
    set_aside: int
    trouble: str
    is_silent: bool = False
    received: ReceivedHealth | None = None

    @property
    def site_problems(self) -> str:
        """Return the checks with problems that the site's doctor reports, empty if there are none."""
        return ", ".join(self.received.health.checks(PROBLEM)) if self.received else ""

    @property
    def level(self) -> int:
        """Worst level of the site: 0 ok, 1 warning, 2 problem."""
        reported = self.received.health.level() if self.received else OK
        return max(reported, PROBLEM if self.trouble else WARNING if self.conflicts or self.set_aside else OK)


def site_state() -> SiteState | None:
    """Return the status of this machine as a site, or None if it reports to no hub."""
    here = hub_link.find()
    if here is None:
        return None
    waiting = change_feed.count_after(here.acked_seq)
    is_today = here.day == clock.now() // clock.DAY
    return SiteState(
        here,
        _mode(here),
        waiting,
        history_until(here),
        _rate(),
        here.bytes_sent if is_today else 0,
        here.bytes_received if is_today else 0,
        count_set_aside(HUB),
    )


def _mode(here: Target) -> str:
    if here.stopped:
        return "stopped"
    if here.recovering:
        return "recovering"
    if here.paused_at:
        return "paused"
    return "trying" if here.last_error else "running"


def history_until(here: Target) -> int | None:
    """Return the time up to which the hub has all history: the first waiting stay, or the last answer."""
    if change_feed.count_after(here.acked_seq) == 0:
        return here.board_at
    row = execute(
        "SELECT b FROM (SELECT kind, b FROM change WHERE seq > ? ORDER BY seq LIMIT 10000) WHERE kind = ? LIMIT 1",
        (here.acked_seq, Kind.STAY),
    ).fetchone()
    return row[0] if row else here.board_at


def _rate() -> float:
    """Return the rate of acknowledged changes in the last minutes."""
    row = execute(
        "SELECT max(seq) - min(seq), max(at) - min(at) FROM checkpoint WHERE at > ?", (clock.now() - _RATE_OVER,)
    ).fetchone()
    return row[0] * clock.SECOND / row[1] if row[1] else 0.0


def waiting(count: int) -> str:
    return "1 change waits" if count == 1 else f"{count} changes wait"


def site_trouble() -> str:
    """Return a warning for people, or an empty text."""
    state = site_state()
    if state is None or state.mode == "paused":
        return ""
    here = state.here
    if here.stopped:
        return here.stopped
    if here.recovering:
        return "records and history are being recovered from the hub; `edge sync recover` resumes it"
    if here.rival_at is not None and 0 <= clock.now() - here.rival_at < sites.RIVAL_SHOWN:
        return here.last_error or RIVAL_AT_SITE
    if here.history_waits:
        return f"{waiting(state.waiting)}: {here.history_waits}"
    since = clock.now() - (here.last_commit_at or here.joined_at)
    if state.waiting and since > BEHIND:
        why = here.last_error or "no error"
        return f"{waiting(state.waiting)}, the last transfer was {since // _MINUTE} minutes ago: {why}"
    if abs(here.clock_offset or 0) > CLOCK_OFF:
        return f"this box's clock and the hub's are {abs(here.clock_offset or 0) // clock.SECOND} s apart"
    return ""


def site_statuses(organization_id: int | None) -> list[SiteStatus]:
    """Return the status of the sites of one organization; of all if `organization_id` is None."""
    return [_site_status(site) for site in sites.list_sites(organization_id)]


def worst_first(statuses: list[SiteStatus]) -> list[SiteStatus]:
    """Sort sites: silent ones, then by level and number of problems and warnings, then by code."""

    def rank(status: SiteStatus) -> tuple[bool, int, int, int, str]:
        levels = [*status.received.health.findings.values()] if status.received else []
        return not status.is_silent, -status.level, -levels.count(PROBLEM), -levels.count(WARNING), status.site.code

    return sorted(statuses, key=rank)


def _site_status(site: Site) -> SiteStatus:
    report = json.loads(site.report)
    conflicts = execute("SELECT count(*) FROM conflict WHERE peer = ?", (site.no,)).fetchone()[0]
    aside = count_set_aside(site.no)
    return SiteStatus(
        site,
        max(report.get("waiting", 0), 0),
        _moment(report.get("board_at")),
        _moment(report.get("history_until")),
        site.bytes_received if site.day == clock.now() // clock.DAY else 0,
        conflicts,
        aside,
        _trouble_of(site, report.get("clock_offset", 0)),
        is_silent(site),
        site_health.find(site.no),
    )


def _moment(reported: int | None) -> int | None:
    """Return a time from a site's report, or None if it has no calendar date: it would break the page of all sites."""
    return reported if reported and times.is_representable(reported) else None


def _trouble_of(site: Site, clock_offset: int) -> str:
    if site.retired_at is not None:
        return ""
    if sites.has_rival(site) and (site.last_contact_at or 0) > (site.rival_at or 0):
        return RIVAL_AT_HUB
    if site.last_error:
        return site.last_error
    if site.history_waits:
        return site.history_waits
    if _is_revoked(site):
        return N_("its key was revoked: create a new code and run `edge sync join` with it at the site")
    if site.last_contact_at is None:
        return "" if site.api_key_id is None else N_("it has joined but not reported yet")
    silence = clock.now() - site.last_contact_at
    if is_silent(site):
        text = N_("no contact for %(number)s minutes: see `edge sync status` at the site")
        return fill(text, number=silence // _MINUTE)
    if abs(clock_offset) > CLOCK_OFF:
        text = N_("its clock and this box's clock are %(number)s s apart")
        return fill(text, number=abs(clock_offset) // clock.SECOND)
    return ""


def is_silent(site: Site) -> bool:
    """Return True if the site has reported before and is overdue."""
    return site.last_contact_at is not None and clock.now() - site.last_contact_at > max(BEHIND, site.silent_after)


def _is_revoked(site: Site) -> bool:
    row = execute("SELECT revoked_at FROM api_key WHERE id = ?", (site.api_key_id,)).fetchone()
    return row is not None and row[0] is not None


def count_set_aside(peer: int) -> int:
    return scalar("SELECT count(*) FROM set_aside WHERE peer = ?", (peer,))
