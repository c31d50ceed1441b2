"""`edge sync verify`: compares history, records and passages of site and hub.

Where they differ, the site's data is sent again, and the hub's assets are fetched again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from edge import clock
from edge.database.change_log import Kind
from edge.database.connection import reading, writing
from edge.sync import batch_format
from edge.sync.sender import Call, fetch_assets
from edge.sync.store import (
    change_feed,
    comparisons,
    digests,
    hub_link,
    incoming,
    mirrors,
    state,
)
from edge.sync.store.comparisons import COPIES, FOREVER, PASSAGES, RECORDS, Terms
from edge.sync.store.digests import ALL_DAYS, Days, Digest, Scope
from edge.sync.store.hub_link import Target
from edge.texts import N_
from edge.tracking import copies

SAME = N_("Site and hub have the same history, records and passages.")
FULL = 2  # value of `verify_wanted` that computes all digests again
SLICE_SECONDS = 5.0  # per nightly step
MAX_DAYS = 50  # per round; the rest follows in the next
MAX_COPIES = 5_000  # fetched by one comparison
MAX_BUCKETS = 100  # compared by row in one comparison; the rest follows in the next
MAX_PASSAGES = 5_000  # sent again by one comparison
NO_DAYS = Days(1, 0)


class Difference(NamedTuple):
    """A difference: a text for people, and how to send it again: kind and columns of a row in the log of changes."""

    text: str
    again: tuple[int, ...] | None = None  # None: only the hub has it, or it was fetched from there
    day: int | None = None  # since the epoch (UTC), for history
    is_fetched: bool = False


def compare(here: Target, call: Call, *, is_full: bool = False) -> list[Difference]:
    """Return the differences. Call only while no changes wait, since data in transit would differ, too."""
    if is_full:
        digests.forget(0)
    differences, _ = _compare_days(here, call, ALL_DAYS.first, is_full=is_full)
    return [*differences, *_compare_others(here, call)]


def _compare_days(
    here: Target, call: Call, begin: int, ends_at: float | None = None, *, is_full: bool = False
) -> tuple[list[Difference], int]:
    """Return differences from a day on, and the next day to compare. `ends_at` limits the time (s, monotonic)."""
    differences: list[Difference] = []
    while begin <= ALL_DAYS.last and len(differences) < MAX_DAYS:
        found, until = _compare_part(here, call, Days(begin, ALL_DAYS.last), is_full=is_full)
        differences += found
        begin, is_full = until + 1, False
        if ends_at is not None and time.monotonic() > ends_at:
            break
    return differences, begin


def _compare_others(here: Target, call: Call) -> list[Difference]:
    """Compare everything except the history."""
    return [*_compare_records(here, call), *_compare_copies(here, call), *_compare_passages(here, call)]


def _compare_part(here: Target, call: Call, days: Days, *, is_full: bool) -> tuple[list[Difference], int]:
    """Compare these days, or the leading ones if that takes long. Returns the differences and the last day compared."""
    scope = Scope(here.organization_id, None)
    first_day = max(days.first, here.horizon // clock.DAY + 1 if here.horizon else days.first)
    question = {"range": (first_day, days.last), "days": []}
    answer = call("digests", batch_format.pack({**question, "is_partial": True, "is_full": is_full}))
    theirs_until = int(answer.get("until", days.last))
    kept = digests.kept_by_day(scope, Days(int(answer["first_day"]), theirs_until), SLICE_SECONDS)
    theirs = {day: digest for day, digest in _digests(answer["digests"]).items() if day <= kept.until}
    differing_days = digests.differing(kept.by_day, theirs)[:MAX_DAYS]
    differences: list[Difference] = []
    while differing_days:
        answer = call("digests", batch_format.pack({**question, "days": differing_days}))
        differences += _differing_tracks(here, scope, answer["days"])
        differing_days = differing_days[max(len(answer["days"]), 1) :]
    return differences, max(kept.until, days.first)


def _differing_tracks(here: Target, scope: Scope, theirs_by_day: Any) -> list[Difference]:
    differences = []
    changed: set[int] = set()
    latest = incoming.newest_time(clock.now() + (here.clock_offset or 0))
    for day, *theirs in theirs_by_day:
        with reading():
            ours = digests.by_track(scope, day)
            changed |= change_feed.changed_after(here.acked_seq, Kind.STAY, Kind.RANGE)  # since the comparison began
            tracks = set(digests.differing(ours, _digests(theirs))) - changed
            tracks -= copies.seen_after(tracks, latest)  # the hub does not take them yet
            names = copies.asset_keys(tracks)
        digests.check(scope, day, ours)
        differences += [_of_history(day, track, names.get(track, f"track {track}")) for track in sorted(tracks)]
    return differences


def _of_history(day: int, track: int, name: str) -> Difference:
    since = day * clock.DAY
    return Difference(f"{clock.rfc3339(since)[:10]} {name}", (Kind.RANGE, track, since, since + clock.DAY - 1), day)


def _compare_records(here: Target, call: Call) -> list[Difference]:
    """Compare the records whose home is this site. After a restore, the hub may have newer ones: see `recover`."""
    if abs(here.clock_offset or 0) <= state.CLOCK_OFF:
        mirrors.begin_validity(here.organization_id)
    if here.restored_from is not None:
        return []
    only_here, only_there = _differing_rows(here, call, RECORDS)
    kinds = {ref: kind for ref, kind, _ in only_here | only_there}
    with reading():
        changed = change_feed.changed_after(here.acked_seq, Kind.ASSET, Kind.LOCATION)
        known = comparisons.keys_of(here.organization_id, kinds)
    latest = clock.now() + (here.clock_offset or 0)  # there, a record is not valid before it was received
    changed |= {ref for ref, (_, created_at) in known.items() if created_at > latest}
    keys = {ref: key for ref, (key, _) in known.items()}
    return [
        Difference(
            f"{Kind(kinds[ref]).name.lower()} {keys.get(ref, f'{ref} (only at the hub)')}",
            (kinds[ref], ref) if ref in keys else None,
        )
        for ref in sorted(kinds.keys() - changed)
    ]


def _compare_copies(here: Target, call: Call) -> list[Difference]:
    """Compare the hub's assets with their copies here, and fetch those that differ. Call after all changes arrived."""
    question = {"after": here.master_seq, "epoch": here.hub_epoch}
    rows = _differing_rows(here, call, COPIES, question)
    only_here, only_there = ({ref for ref, _ in of_one} for of_one in rows)
    known = comparisons.keys_of_copies(only_here | only_there)
    now = clock.now()  # a copy is not valid before it was received
    early = {ref for ref in only_here & only_there if ref in known and known[ref][1] > now}
    refs = sorted((only_here | only_there) - early)[:MAX_COPIES]
    fetch_assets(here, call, refs)
    known = comparisons.keys_of_copies(refs)
    names = {ref: known[ref][0] if ref in known else f"{ref} of the hub" for ref in refs}
    return [Difference(f"copy of asset {name}", is_fetched=True) for name in names.values()]


def _compare_passages(here: Target, call: Call) -> list[Difference]:
    """Compare the passages of this site, without those that are still too far in the future for the hub.

    Those that only the hub has are not reported: it may keep them longer.
    """
    if here.restored_from is not None:
        return []
    only_here, _ = _differing_rows(here, call, PASSAGES, {"since": here.horizon})
    with reading():
        changed = change_feed.changed_after(here.acked_seq, Kind.PASSAGE)
        names = comparisons.passages({no for no, _ in only_here} - changed)
    return [
        Difference(f"passage of {key} at {clock.rfc3339(at)}", (Kind.PASSAGE, no))
        for no, (at, key) in sorted(names.items())[:MAX_PASSAGES]
    ]


Rows = set[comparisons.Row]


class _NotCompared(Exception):
    """The hub compares nothing now, for example because it has an earlier release or changes must arrive first."""


class _Comparison:
    """A comparison of one kind with the hub: what to ask, and what both ends have agreed on."""

    def __init__(self, here: Target, call: Call, of: str, details: Mapping[str, object]) -> None:
        self._call, self._of = call, of
        self._scope, self._terms = Scope(here.organization_id, None), Terms()
        self._question = {"range": NO_DAYS, "days": [], "of": of, "is_exact": True, "since": 0, "until": FOREVER}
        self._question |= {"columns": comparisons.further_columns(of), **details}

    def _ask(self, **more: object) -> dict[str, Any]:
        """Return an answer, and keep its terms. Raises _NotCompared."""
        answer: dict[str, Any] = self._call("digests", batch_format.pack({**self._question, **more}))
        if answer.get(self._of) is None or not (answer.get("is_exact") or self._of == PASSAGES):
            raise _NotCompared
        columns = [name for name in comparisons.further_columns(self._of) if name in answer.get("columns", ())]
        terms = Terms(columns, {*self._terms.without, *map(int, answer.get("without", ()))})
        if self._of == PASSAGES:  # an earlier hub gives no `until`
            terms = terms._replace(since=int(answer["since"]), until=min(int(answer.get("until", FOREVER)), FOREVER))
            self._question |= {"since": terms.since, "until": terms.until}
        self._terms = terms
        return answer

    def buckets(self) -> list[int]:
        """Return the buckets that differ. Neither end reads a bucket twice if one of the two is slower."""
        self._ask(first=0, last=-1)  # the terms only
        first, last, until = 0, comparisons.last_bucket(self._of, self._scope), -1
        page = comparisons.KINDS[self._of].page
        ours, differing = dict[int, Digest](), list[int]()
        while first <= last and len(differing) < MAX_BUCKETS:
            if until < first:
                span = first, min(last, first + page - 1)
                ours, until = comparisons.by_bucket(self._of, self._scope, "", self._terms, *span, SLICE_SECONDS)
            answer = self._ask(first=first, last=until)
            end = min(until, int(answer["until"])) if self._of == COPIES else until
            found = digests.differing(ours, _digests(answer[self._of]))
            differing += [bucket for bucket in found if first <= bucket <= end]
            first = max(end, first) + 1
        return differing[:MAX_BUCKETS]

    def rows(self, buckets: list[int]) -> tuple[Rows, Rows]:
        """Return the rows in these buckets that only this site has, and those that only the hub has."""
        only_here, only_there = Rows(), Rows()
        while buckets:
            answer = self._ask(first=0, buckets=buckets)
            answered = {*map(int, answer["buckets"]), buckets[0]}
            ours = set(comparisons.in_buckets(self._of, self._scope, "", self._terms, answered))
            theirs = {tuple(map(int, row)) for row in answer[self._of]}
            only_here, only_there = only_here | (ours - theirs), only_there | (theirs - ours)
            buckets = [bucket for bucket in buckets if bucket not in answered]
        without = self._terms.without
        return {row for row in only_here if row[0] not in without}, {row for row in only_there if row[0] not in without}


def _differing_rows(
    here: Target, call: Call, of: str, details: Mapping[str, object] = MappingProxyType({})
) -> tuple[Rows, Rows]:
    """Return the rows of a kind that only this site has, and those that only the hub has."""
    comparison = _Comparison(here, call, of, details)
    try:
        return comparison.rows(comparison.buckets())
    except _NotCompared:
        return Rows(), Rows()


def repair(here: Target, differences: list[Difference]) -> str:
    """Resend the differences and return a summary for people."""
    sent, summary = _resend(here, differences)
    is_incomplete = sum(one.day is not None for one in differences) >= MAX_DAYS and sent
    hub_link.update(verified_at=clock.now(), verify_result=summary, verify_wanted=int(is_incomplete), verify_from=None)
    return summary


def is_due(here: Target) -> bool:
    """Return True if a nightly comparison is due or in progress. It runs in steps to let other work run."""
    return here.verify_from is not None or clock.now() - max(here.verified_at or 0, here.joined_at) > clock.DAY


def next_slice(here: Target, call: Call) -> str:
    """Compare the next days and resend differences. Returns a summary, or an empty text without differences."""
    begin = here.verify_from if here.verify_from is not None else ALL_DAYS.first
    differences, begin = _compare_days(here, call, begin, time.monotonic() + SLICE_SECONDS)
    is_last = begin > ALL_DAYS.last
    if is_last:
        differences += _compare_others(here, call)
    _, summary = _resend(here, differences)
    count = len(differences) + (here.verify_found if here.verify_from is not None else 0)
    if differences:
        hub_link.update(verify_result=summary)
    if not is_last:
        hub_link.update(verify_from=begin, verify_found=count)
    else:
        hub_link.update(verify_from=None, verify_found=0, verified_at=clock.now())
        if not count:
            hub_link.update(verify_result=SAME)
    return summary if differences else ""


def _resend(here: Target, differences: list[Difference]) -> tuple[int, str]:
    """Resend differences; returns their number and a summary.

    After a restore, the hub may have more data than the site: nothing of that time is sent until somebody decides.
    """
    unsure = here.restored_from // clock.DAY if here.restored_from is not None else 10**9
    kept = {one for one in differences if one.day is not None and one.day >= unsure}
    sent = [one.again for one in differences if one.again and one not in kept]
    summary = SAME
    if differences:
        named = "; ".join(one.text for one in differences[:20]) + ("; …" if len(differences) > 20 else "")
        summary = f"{len(differences)} {'difference' if len(differences) == 1 else 'differences'}: {named}."
    if sent:
        summary += f" Sent again: {len(sent)}."
    if fetched := sum(one.is_fetched for one in differences):
        summary += f" Fetched again: {fetched}."
    if kept:
        summary += (
            f" Newer than the backup restored here: {len(kept)}. The hub keeps them: "
            "`edge sync recover` fetches them, `edge sync resend` deletes them at the hub."
        )
    with writing():
        for again in sent:
            change_feed.add(*again)
    return len(sent), summary


def _digests(rows: Any) -> dict[int, Digest]:
    return {int(key): (int(count), int(total)) for key, count, total in rows}
