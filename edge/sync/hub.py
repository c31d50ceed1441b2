"""Answers of the hub to its sites. Everything is committed before it is answered.

Answers are dictionaries sent as JSON; see `edge.api.sync` for the routes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from edge import clock
from edge.budget import MB
from edge.database.connection import reading
from edge.errors import Conflict, EdgeError, Unreadable
from edge.sync import batch_format
from edge.sync.store import change_feed, epochs, incoming, outgoing, site_copies, sites
from edge.sync.store import digests as compare
from edge.sync.store.change_feed import Kind
from edge.sync.store.digests import Days, Digest, Scope
from edge.sync.store.exchange import Cursor
from edge.sync.store.site_copies import CopyPage
from edge.sync.store.sites import Site
from edge.tracking import copies
from edge.validation.values import MAX_INT64

MAX_ROWS = 5000  # changes per batch
MAX_DAYS = 50  # days compared by track per response
MAX_MASTERS = 1000  # master data changes per response
LONGEST_NAME = 64  # characters of an epoch or instance; ours have 16
LONGEST_CHAIN = 32  # bytes
MAX_METADATA = 4 * MB  # bytes of metadata per response; one more asset may exceed it


class OtherVersion(EdgeError):
    """Site and hub share no version. Sync resumes when the older one is updated."""


class Retired(Conflict):
    """The database of this site was replaced: it is a copy and must not report as the site."""


def hello(site: Site, content: Any, received: int) -> dict[str, Any]:
    """Agree on a version and on the site's position. Raises Retired and OtherVersion."""
    try:
        version = max(set(content["versions"]) & set(batch_format.VERSIONS), default=None)
        instance, mine = _short(content["instance"]), _cursor(content["cursor"])
        former = {str(epoch) for epoch in content["former"]}
        report = batch_format.checked_report(content["report"])
        seen, box = batch_format.hub_state(content.get("hub")), _short(content.get("box", ""))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"the greeting is invalid: {error!r:.200}") from error
    if version is None:
        raise OtherVersion(
            f"This hub speaks versions {list(batch_format.VERSIONS)} of sync; update the older of the two boxes"
        )
    if mine.epoch is None or epochs.is_retired(site.no, mine.epoch):
        raise Retired(RETIRED)
    epochs.check_not_behind(seen)
    if box:
        sites.admit(site, box)
    if site.epoch != mine.epoch:
        if site.epoch is not None and site.epoch not in former:
            raise Retired(RETIRED)
        sites.begin_epoch(site, instance, _beginning(site, mine), is_recovery=bool(content.get("recovering")))
    sites.note_contact(site.no, report, received)
    return {"version": version, "accepts": [batch_format.SEEN], **_status(site)}


def _beginning(site: Site, mine: Cursor) -> Cursor:
    """Return the start cursor of a new epoch: the site's own, unless the hub had more data before.

    In that case this hub was restored from an older backup, and the site starts from its first change.
    """
    had_more = mine.chain != b"" or (site.epoch is not None and mine.acked_seq > site.acked_seq)
    return Cursor(mine.epoch, 0, b"") if had_more else mine


RETIRED = (
    "another database reports as this site. If this box is the right one, create a new code on the hub's Sync page "
    "and run `edge sync join` here again; if it is a copy, turn off its sync with `edge sync leave`"
)


def changes(site: Site, body: bytes) -> dict[str, Any]:
    """Apply a batch if it directly follows the previous one. Raises Unreadable, TooLarge or Retired."""
    base, batch = batch_format.decode(body)
    if base.epoch is None or epochs.is_retired(site.no, base.epoch):
        raise Retired(RETIRED)
    epochs.check_not_behind(batch.hub_seen)
    taken = incoming.take(site.peer, base, batch, batch_format.next_chain(base.chain, body))
    sites.note_contact(site.no, batch.report, len(body))
    return {
        **_status(site),
        "applied": taken.is_applied,
        "needs": taken.needs._asdict(),
        "aside": list(taken.aside),
    }


def masters(site: Site, content: Any) -> dict[str, Any]:
    """Return the assets changed since the site's last request, or all assets page by page if that is unknown."""
    try:
        after, epoch, page = _number(content["after"]), content["epoch"], content["page"]
        page = None if page is None else _number(page)
        seen = batch_format.hub_state(content.get("hub"))
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"the question is invalid: {error!r:.200}") from error
    epochs.check_not_behind(seen)
    with reading():
        until, following = change_feed.newest(), None
        if epoch == epochs.hub_epoch() and after >= change_feed.oldest_kept() - 1 and page is None:
            listed = change_feed.after(after, MAX_MASTERS)
            due = listed[: _fitting(site, [change.a for change in listed])]
            until = due[-1].seq if len(due) == MAX_MASTERS or len(due) < len(listed) else until
            ids = {change.a for change in due if change.kind == Kind.ASSET}
        else:
            all_ids = outgoing.asset_ids_after(site.organization_id, page or 0, MAX_MASTERS)
            fitting = all_ids[: _fitting(site, all_ids)]
            following = fitting[-1] if len(fitting) == MAX_MASTERS or len(fitting) < len(all_ids) else None
            ids = set(fitting)
        site_assets = outgoing.assets_for_site(site.organization_id, site.no, ids)
        answer = {
            "epoch": epochs.hub_epoch(),
            "until": until,
            "page": following,
            "assets": [tuple(record) for record in site_assets.assets],
            "yours": list(site_assets.yours),
        }
    return {**answer, "state": list(epochs.hub_state())}


def _fitting(site: Site, asset_ids: list[int]) -> int:
    return outgoing.count_fitting(site.organization_id, asset_ids, MAX_METADATA)


def digests(site: Site, content: Any) -> dict[str, Any]:
    """Return the digests of the site's history: by day, or by track for the given days."""
    try:
        first, last = (_day(day) for day in content["range"])
        days = [_day(day) for day in content["days"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"the question is invalid: {error!r:.200}") from error
    scope = Scope(site.organization_id, site.no)
    with reading():
        if days:
            return {"days": [[day, *_pairs(compare.by_track(scope, day))] for day in days[:MAX_DAYS]]}
        first = max(first, sites.hub_horizon() // clock.DAY + 1 if sites.hub_horizon() else first)
        return {"first_day": first, "digests": _pairs(compare.by_day(scope, Days(first, last)))}


def recover(site: Site, content: Any) -> dict[str, Any]:
    """Return a page of the site's data for a new machine; starts with part "locations" after [0]."""
    try:
        page, length = _SECTIONS[content["part"]]
        after = [_number(number) for number in content["after"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"the question is invalid: {error!r:.200}") from error
    if len(after) != length:
        raise Unreadable(f"{after!r:.200} is no position in the {content['part']}")
    with reading():
        rest, last_track = page(site.peer, *after), copies.last_track(site.no)
    body = batch_format.encode(site.cursor, rest.batch)
    return {"batch": base64.b64encode(body).decode(), "after": rest.after, "last_track": last_track}


_SECTIONS: dict[str, tuple[Callable[..., CopyPage], int]] = {  # length of a position in each section
    "locations": (lambda peer, _: site_copies.locations(peer), 1),
    "assets": (site_copies.assets, 1),
    "tracks": (site_copies.tracks, 1),
    "history": (lambda peer, *after: site_copies.history(peer, after), 3),
}


def _number(value: Any) -> int:
    """Return an integer that the database can compare. Raises TypeError or ValueError."""
    number = int(value)
    if abs(number) > MAX_INT64:
        raise ValueError(f"{number} is out of range")
    return number


def _day(value: Any) -> int:
    """Return a day, limited to the range of the history."""
    return min(max(_number(value), compare.ALL_DAYS.first), compare.ALL_DAYS.last)


def _pairs(digests_by_key: Mapping[int, Digest]) -> list[tuple[int, int, int]]:
    return [(key, count, total) for key, (count, total) in digests_by_key.items()]


def _status(site: Site) -> dict[str, Any]:
    present, state = incoming.cursor_of(site.no), epochs.hub_state()
    return {
        "cursor": [present.epoch, present.acked_seq, present.chain.hex()],
        "time": clock.now(),
        "max_rows": MAX_ROWS,
        "wait_ms": 0,
        "masters": [state.epoch, state.number],
        "state": list(state),
        "has_rival": sites.has_rival(site),
    }


def _cursor(value: Any) -> Cursor:
    """Return a cursor with bounded texts, since it is stored. Raises TypeError or ValueError."""
    epoch, acked, chain = value
    if len(chain) > 2 * LONGEST_CHAIN:
        raise ValueError("a chain that is too long")
    return Cursor(epoch if epoch is None else _short(epoch), _number(acked), bytes.fromhex(chain))


def _short(value: Any) -> str:
    text = str(value)
    if len(text) > LONGEST_NAME:
        raise ValueError("a name that is too long")
    return text
