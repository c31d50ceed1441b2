"""Answers of the hub to its sites. Everything is committed before it is answered.

Answers are dictionaries sent as JSON; see `edge.api.sync` for the routes.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from edge import clock
from edge.database import change_log
from edge.database.change_log import Kind
from edge.database.connection import reading
from edge.errors import Conflict, EdgeError, Unavailable, Unreadable
from edge.memory_budget import MB
from edge.sync import batch_format
from edge.sync.store import (
    change_feed,
    clashes,
    comparisons,
    epochs,
    incoming,
    mirrors,
    outgoing,
    record_lines,
    remote_batches,
    site_copies,
    site_health,
    sites,
    state,
)
from edge.sync.store import digests as compare
from edge.sync.store.comparisons import FOREVER, Terms
from edge.sync.store.digests import Days, Digest, Scope
from edge.sync.store.exchange import Cursor
from edge.sync.store.site_copies import CopyPage
from edge.sync.store.sites import Site
from edge.tracking import returned_copies
from edge.validation.values import MAX_INT64

MAX_ROWS = 5000  # changes per batch
MAX_DAYS = 50  # days compared by track per response
MAX_BUCKETS = 4  # buckets of records compared by record per response
DIGEST_SECONDS = 5.0  # per response; the site asks again for the rest
WHOLE_SECONDS = 20.0  # for a site of an earlier release, which expects all days; the next answer continues
DIGEST_RETRY_SECONDS = 60
MAX_MASTERS = 1000  # master data changes per response
LONGEST_NAME = 64  # characters of an epoch or instance; ours have 16
LONGEST_CHAIN = 32  # bytes
MAX_METADATA = 4 * MB  # bytes of metadata and tags per response; one more asset may exceed it


class OtherVersion(EdgeError):
    """Site and hub share no version. Sync resumes when the older one is updated."""


class Retired(Conflict):
    """The database of this site was replaced: it is a copy and must not report as the site."""


def hello(site: Site, content: Any, received: int) -> dict[str, Any]:
    """Agree on a version and on the site's position. Raises Retired and OtherVersion."""
    with _reading_from("greeting"):
        version = max(set(content["versions"]) & set(batch_format.VERSIONS), default=None)
        instance, mine = _short(content["instance"]), _cursor(content["cursor"])
        former = {str(epoch) for epoch in content["former"]}
        report = batch_format.checked_report(content["report"])
        seen, box = batch_format.hub_state(content.get("hub")), _short(content.get("box", ""))
    if version is None:
        raise OtherVersion(
            f"This hub speaks versions {list(batch_format.VERSIONS)} of sync; update the older of the two boxes"
        )
    if mine.epoch is None or epochs.is_retired(site.no, mine.epoch):
        raise Retired(RETIRED)
    epochs.check_not_behind(seen)
    if box:
        sites.admit(site, box)
    if remote_batches.settle(site.no):
        site = sites.get_site(site.organization_id, site.no)
    if site.epoch != mine.epoch:
        if site.epoch is not None and site.epoch not in former:
            raise Retired(RETIRED)
        sites.begin_epoch(site, instance, _beginning(site, mine), is_recovery=bool(content.get("recovering")))
        remote_batches.note_cursor(site.no)
    sites.note_contact(site.no, report, received)
    site_health.keep(site.no, site_health.checked(content.get("health")))
    return {"version": version, "accepts": [batch_format.SEEN, batch_format.ASK], **_status(site)}


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

    def note() -> None:
        sites.note_contact(site.no, batch.report, len(body))
        site_health.keep(site.no, batch.health)

    taken = incoming.take(site.peer, base, batch, batch_format.next_chain(base.chain, body), note)
    if not taken.is_applied:
        note()
    return {
        **_status(site),
        "applied": taken.is_applied,
        "needs": taken.needs._asdict(),
        "aside": list(taken.aside),
    }


def masters(site: Site, content: Any) -> dict[str, Any]:
    """Return the assets changed since the site's last request, or all assets page by page if that is unknown.

    A page of all has live assets only. So the site asks for other assets that it knows, by `ids`.
    """
    with _reading_from("question"):
        after, epoch, page = _number(content["after"]), content["epoch"], content["page"]
        page = None if page is None else _number(page)
        seen = batch_format.hub_state(content.get("hub"))
        asked = [_number(number) for number in content.get("ids", ())]
    epochs.check_not_behind(seen)
    with reading():
        until, following, is_full = change_feed.newest_record(), None, False
        if asked:
            asked = asked[: _fitting(site, asked[:MAX_MASTERS])]
            ids = set(asked)
        elif epoch == epochs.hub_epoch() and after >= change_log.oldest_kept() - 1 and page is None:
            listed = change_feed.records_listed(after, MAX_MASTERS)
            due = listed[: _fitting(site, [change.a for change in listed])]
            until = due[-1].seq if len(due) == MAX_MASTERS or len(due) < len(listed) else until
            ids = {change.a for change in due if change.kind == Kind.ASSET}
        else:
            all_ids = outgoing.asset_ids_after(site.organization_id, page or 0, MAX_MASTERS)
            fitting = all_ids[: _fitting(site, all_ids)]
            following = fitting[-1] if len(fitting) == MAX_MASTERS or len(fitting) < len(all_ids) else None
            ids, is_full = set(fitting), True
        site_assets = outgoing.assets_for_site(site.organization_id, site.no, ids)
        answer = {
            "epoch": epochs.hub_epoch(),
            "until": until,
            "page": following,
            **record_lines.parts("assets", site_assets.assets),
            "yours": list(site_assets.yours),
            **({"after": page or 0} if is_full else {}),
            **(_asked(site, asked) if asked else {}),
        }
    return {**answer, "state": list(epochs.hub_state())}


def _asked(site: Site, asset_ids: list[int]) -> dict[str, Any]:
    """Return the number of assets in this answer, those that the site owns, and those that this hub does not know."""
    return {
        "asked": len(asset_ids),
        "own": outgoing.own_assets(site.no, asset_ids),
        "lost": outgoing.unknown_assets(site.organization_id, asset_ids),
    }


def _fitting(site: Site, asset_ids: list[int]) -> int:
    return outgoing.count_fitting(site.organization_id, asset_ids, MAX_METADATA, "asset")


def digests(site: Site, content: Any) -> dict[str, Any]:
    """Return digests of the site's data: of its history by day, by track for the given days, of its records, of the
    hub's assets that it copies, or of its passages.

    A site that sends `is_partial` accepts an answer that ends early, at the day `until`. Digests of days are stored;
    `is_full` computes them again.
    """
    with _reading_from("question"):
        first, last = (_day(day) for day in content["range"])
        days = [_day(day) for day in content["days"]]
        buckets = {_number(bucket) for bucket in content.get("buckets", ())}
    scope = Scope(site.organization_id, site.no)
    if content.get("of") in comparisons.KINDS:
        return _compared(site, content, content["of"], sorted(buckets))
    if days:
        return {"days": _by_track(scope, days)}
    if content.get("is_full"):
        compare.forget(site.no)
    first = max(first, sites.hub_horizon() // clock.DAY + 1 if sites.hub_horizon() else first)
    is_partial = content.get("is_partial")
    kept = compare.kept_by_day(scope, Days(first, last), DIGEST_SECONDS if is_partial else WHOLE_SECONDS)
    if kept.until < last and not is_partial:
        raise Unavailable("Computing the digests takes longer; try again", DIGEST_RETRY_SECONDS)
    return {"first_day": first, "digests": _pairs(kept.by_day), "until": kept.until}


def _compared(site: Site, content: Any, of: str, buckets: list[int]) -> dict[str, Any]:
    """Return digests of a kind by bucket, or the rows of some buckets. None if nothing is compared now."""
    with _reading_from("question"):
        kind, first = comparisons.KINDS[of], max(_number(content.get("first", 0)), 0)
        last = min(_number(content.get("last", first + kind.page - 1)), first + kind.page - 1, kind.last)
    agreed = _agreed(site, content, of, is_of_rows=bool(buckets))
    if agreed is None:
        return {of: None}
    terms, shown = agreed
    about = of, Scope(site.organization_id, site.no), site.code, terms
    if buckets:
        chosen = [bucket for bucket in buckets if 0 <= bucket <= kind.last][:MAX_BUCKETS]
        return {"buckets": chosen, of: comparisons.in_buckets(*about, chosen), **shown}
    by_bucket, until = comparisons.by_bucket(*about, first, last, DIGEST_SECONDS)
    return {of: _pairs(by_bucket), "until": until, **shown}


def _agreed(site: Site, content: Any, of: str, *, is_of_rows: bool) -> tuple[Terms, dict[str, Any]] | None:
    """Return what to compare, and how to say so. None if that is impossible now, or the site has an earlier release.

    Assets that have changed since the site asked for changes, or that are in conflict, are not compared. Neither are
    older passages than `since`, which the retention of one of the two may have dropped, and those after `until`,
    which were set aside as too far in the future.
    """
    owner = site.organization_id
    if of == comparisons.PASSAGES:
        with _reading_from("question"):
            since, until = _number(content["since"]), _number(content.get("until", FOREVER))
        latest = incoming.newest_time(clock.now()) if "until" in content else FOREVER
        terms = Terms(since=max(since, sites.hub_horizon()), until=min(until, latest))
        return terms, {"since": terms.since, "until": terms.until}
    if not content.get("is_exact"):
        return None
    asked = set(map(str, content.get("columns", ())))
    terms = Terms([name for name in comparisons.further_columns(of) if name in asked])
    if of == comparisons.COPIES:
        with _reading_from("question"):
            after = _number(content["after"])
        with reading():
            is_here = content.get("epoch") == epochs.hub_epoch()
            changed = change_feed.assets_after(after, MAX_MASTERS) if is_here else None
            unsettled = comparisons.unsettled(owner)
        if changed is None or len(unsettled) > comparisons.MOST_UNSETTLED:
            return None
        if not is_of_rows and abs(json.loads(site.report).get("clock_offset", state.CLOCK_OFF)) < state.CLOCK_OFF:
            mirrors.begin_validity(owner)
        terms = terms._replace(without=[*unsettled, *changed] if is_of_rows else unsettled)
    return terms, {"is_exact": True, "columns": terms.columns, "without": list(terms.without)}


def _by_track(scope: Scope, days: list[int]) -> list[list[Any]]:
    """Return the digests by track for the leading days, at least for one, that are ready in time."""
    ends_at, answered = time.monotonic() + DIGEST_SECONDS, []
    for day in days[:MAX_DAYS]:
        with reading():
            digests_by_track = compare.by_track(scope, day)
        compare.check(scope, day, digests_by_track)
        answered.append([day, *_pairs(digests_by_track)])
        if time.monotonic() > ends_at:
            break
    return answered


def preview(site: Site, hub_name: str, body: bytes) -> dict[str, Any]:
    """Return which of the box's records would clash. Changes nothing."""
    records = clashes.checked(batch_format.unpack(body))
    with reading():
        clashing = clashes.find(site, records)
    return {
        "code": site.code,
        "hub_name": hub_name,
        "hub_id": sites.hub_id(),
        "clashes": [tuple(clash) for clash in clashing],
    }


def recover(site: Site, content: Any) -> dict[str, Any]:
    """Return a page of the site's data for a new machine; starts with part "locations" after [0]."""
    with _reading_from("question"):
        page, length = _SECTIONS[content["part"]]
        after = [_number(number) for number in content["after"]]
    if len(after) != length:
        raise Unreadable(f"{after!r:.200} is no position in the {content['part']}")
    with reading():
        rest, last_track = page(site.peer, *after), returned_copies.last_track(site.no)
    body = batch_format.encode(site.cursor, rest.batch)
    return {
        "batch": base64.b64encode(body).decode(),
        "after": rest.after,
        "last_track": last_track,
        "parts": list(_SECTIONS),  # earlier hubs have no passages
    }


_SECTIONS: dict[str, tuple[Callable[..., CopyPage], int]] = {  # length of a position in each section
    "locations": (lambda peer, _: site_copies.locations(peer), 1),
    "assets": (site_copies.assets, 1),
    "tracks": (site_copies.tracks, 1),
    "history": (lambda peer, *after: site_copies.history(peer, after), 3),
    "passages": (site_copies.passages, 1),
}


@contextmanager
def _reading_from(what: str) -> Iterator[None]:
    """Raise Unreadable if the content lacks a part or has a value of another type."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"the {what} is invalid: {error!r:.200}") from error


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
    present, state = sites.cursor_of(site.no), epochs.hub_state()
    return {
        "cursor": [present.epoch, present.acked_seq, present.chain.hex()],
        "time": clock.now(),
        "max_rows": MAX_ROWS,
        "wait_ms": 0,
        "masters": [state.epoch, state.number],
        "state": list(state),
        "has_rival": sites.has_rival(site),
        "hub_id": sites.hub_id(),
        "code": site.code,
    }


def _cursor(value: Any) -> Cursor:
    """Return a cursor with bounded texts, since it is stored. Raises TypeError or ValueError."""
    epoch, acked, chain = value
    if len(chain) > 2 * LONGEST_CHAIN:
        raise ValueError("a chain that is too long")
    return Cursor(epoch if epoch is None else _short(epoch), _number(acked), bytes.fromhex(chain))


def _short(value: Any) -> str:
    """Return a text that both databases can store: PostgreSQL has no NUL. Raises ValueError."""
    text = str(value)
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise ValueError("a name that is too long or has characters that cannot be printed")
    return text
