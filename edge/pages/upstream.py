"""The Upstream page: state of the service that gets copies of the records, and decisions about conflicts.

Modules of `edge.upstream` are imported in functions, since a box without an upstream should not load them.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from flask import render_template

from edge.errors import EdgeError, NotFound, Unavailable
from edge.pages.forms import message_of
from edge.pages.guard import Answer, actor, administrators, organization_id
from edge.pages.notices import done
from edge.pages.paging import offset_asked
from edge.pages.translation import translated
from edge.rate_limits import Buckets
from edge.services import services
from edge.sync.store import change_feed
from edge.texts import N_, refill

PATH = "/status/upstream"
PER_PAGE = 50
STATES = {"working": N_("working"), "failing": N_("failing"), "paused": N_("paused")}
REASONS = (
    N_("others changed its %(fields)s"),
    N_("exists there with another %(fields)s"),
    N_("others deleted it"),
    N_("others changed it at the same moment"),
    N_("is deleted here, but others changed its %(fields)s"),
    N_("is deleted here, but the service responded %(answer)s"),
    N_("the service responded %(answer)s"),
    N_("its key %(key)s belongs to another record there, perhaps one that is not in effect"),
    N_("its key %(key)s still belongs to %(holder)s there"),
    N_("its tag %(tag)s still belongs to %(holder)s there"),
    N_("its tag %(tag)s belongs to %(holder)s there"),
    N_("its parent %(key)s is not there yet"),
    N_("its new parent is still below it there"),
    N_("its key is being exchanged with another record"),
    N_("its record there is larger than this box reads"),
)
_reads = Buckets(burst=20, per_second=1 / 3)  # of the service, by people


@administrators.get(PATH, manual="upstream#differences")
def upstream() -> str:
    return _page("")


@administrators.post(f"{PATH}/compare")
def compare_upstream() -> Answer:
    from edge.upstream import upstreams

    upstreams.retry(actor())
    return done(PATH, "upstream-compared")


@administrators.post(f"{PATH}/records/<int:record_id>/overwrite")
def overwrite_upstream(record_id: int) -> Answer:
    """Write the values of this box there with the next round."""
    from edge.upstream import upstreams

    if not upstreams.overwrite(actor(), [record_id]):
        raise NotFound(N_("This record is no longer listed as changed by others"))
    return done(PATH, "upstream-overwritten")


@administrators.post(f"{PATH}/records/<int:record_id>/keep")
def keep_upstream(record_id: int) -> Answer:
    """Take over the values of the service."""
    from edge.upstream import client, decisions, upstreams

    who = actor()
    if not _reads.take(str(who.organization_id)).allowed:
        raise Unavailable(N_("too many comparisons; try again in a minute"), 60)
    row = upstreams.get(who.organization_id)
    try:
        with closing(client.of_upstream(row, services().config.events_authority_file)) as connection:
            decisions.keep_theirs(who, connection, record_id)
    except NotFound:
        raise
    except EdgeError as error:
        return _page(message_of(error)), 409
    return done(PATH, "upstream-kept")


def summary() -> dict[str, Any] | None:
    """Return the state of the organization's upstream for pages, or None without one."""
    if not change_feed.has_upstream():
        return None
    from edge.upstream import counterparts, upstreams

    row = upstreams.find(organization_id())
    if row is None:
        return None
    number, troubles = counterparts.count(row.no)
    return {
        "row": row,
        "state": STATES[row.state],
        "is_ok": row.state == "working",
        "records": number,
        "waiting": upstreams.count_waiting(row),
        "differing": sum(troubles.values()),
    }


def _page(error: str) -> str:
    shown = summary()
    if shown is None:
        return render_template("upstream/upstream.html", upstream=None)
    offset = offset_asked()
    return render_template(
        "upstream/upstream.html",
        upstream=shown,
        error=error,
        troubles=_troubles(shown["row"].no, offset),
        offset=offset,
        per_page=PER_PAGE,
    )


def _troubles(upstream_no: int, offset: int) -> list[dict[str, Any]]:
    from edge.upstream import counterparts, local_records

    rows = counterparts.troubles(upstream_no, PER_PAGE, offset)
    here = local_records.read(organization_id(), [one.record_id for one in rows])
    return [
        {
            "id": one.record_id,
            "is_asset": one.kind.name == "ASSET",
            "here": here.get(one.record_id),
            "since": one.trouble_at,
            "kind": one.trouble.kind,
            "why": translated(refill(one.trouble.text, REASONS)),
            "is_decidable": one.trouble.kind == "changed there",
            "is_decided": one.is_forced,
        }
        for one in rows
        if one.trouble
    ]
