"""`edge sync verify`: compares history, records and passages of site and hub.

Where they differ, the site's data is sent again, and the hub's assets are fetched again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from edge import clock
from edge.database.change_log import Kind
from edge.database.connection import reading, writing
from edge.sync import batch_format
from edge.sync.sender import Call, fetch_assets
from edge.sync.store import (
    change_feed,
    copy_digests,
    digests,
    hub_link,
    incoming,
    mirrors,
    passage_digests,
    record_digests,
    state,
)
from edge.sync.store.digests import ALL_DAYS, Days, Digest, Scope
from edge.sync.store.hub_link import Target
from edge.sync.store.passage_digests import FOREVER, Times
from edge.sync.store.record_digests import RecordDigest
from edge.texts import N_
from edge.tracking import copies

SAME = N_("Site and hub have the same history, records and passages.")
FULL = 2  # value of `verify_wanted` that computes all digests again
SLICE_DAYS = 14  # per nightly step with a hub that stores no digests
SLICE_SECONDS = 5.0  # per nightly step
MAX_DAYS = 50  # per round; the rest follows in the next
MAX_COPIES = 5_000  # fetched by one comparison
MAX_PASSAGE_BUCKETS = 100  # compared by passage in one comparison; the rest follows in the next
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
        digests.forget(Scope(here.organization_id, None))
    differences, _ = _compare_days(here, call, ALL_DAYS.first, is_full=is_full)
    return [*differences, *_compare_others(here, call)]


def _compare_days(
    here: Target, call: Call, begin: int, ends_at: float | None = None, *, is_full: bool = False
) -> tuple[list[Difference], int]:
    """Return differences from a day on, and the next day to compare.

    `ends_at` limits the time (s, monotonic); with a hub that stores no digests, only the first days are compared then.
    """
    differences: list[Difference] = []
    is_stored = is_full
    while begin <= ALL_DAYS.last and len(differences) < MAX_DAYS:
        days = Days(begin, ALL_DAYS.last if is_stored else _slice_end(begin))
        found, until, is_stored = _compare_part(here, call, days, is_full=is_full)
        differences += found
        begin, is_full = until + 1, False
        if ends_at is not None and (not is_stored or time.monotonic() > ends_at):
            break
    return differences, begin


def _compare_others(here: Target, call: Call) -> list[Difference]:
    """Compare everything except the history."""
    return [*_compare_records(here, call), *_compare_copies(here, call), *_compare_passages(here, call)]


def _compare_part(here: Target, call: Call, days: Days, *, is_full: bool = False) -> tuple[list[Difference], int, bool]:
    """Compare these days, or the leading ones if that takes long.

    Returns the differences, the last day compared, and whether the hub stores digests, which makes many days cheap.
    """
    scope = Scope(here.organization_id, None)
    first_day = max(days.first, here.horizon // clock.DAY + 1 if here.horizon else days.first)
    question = {"range": (first_day, days.last), "days": []}
    answer = call("digests", batch_format.pack({**question, "is_partial": True, "is_full": is_full}))
    is_stored = "until" in answer
    theirs_until = int(answer.get("until", days.last))
    kept = digests.kept_by_day(scope, Days(int(answer["first_day"]), theirs_until), SLICE_SECONDS)
    theirs = {day: digest for day, digest in _digests(answer["digests"]).items() if day <= kept.until}
    differing_days = digests.differing(kept.by_day, theirs)[:MAX_DAYS]
    differences: list[Difference] = []
    while differing_days:
        answer = call("digests", batch_format.pack({**question, "days": differing_days}))
        differences += _differing_tracks(here, scope, answer["days"])
        differing_days = differing_days[max(len(answer["days"]), 1) :]
    return differences, max(kept.until, days.first), is_stored


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
    question = {"range": NO_DAYS, "days": [], "of": "records", "is_exact": True}
    scope = Scope(here.organization_id, None)
    if abs(here.clock_offset or 0) <= state.CLOCK_OFF:
        mirrors.begin_validity(here.organization_id)
    answer = call("digests", batch_format.pack(question))
    theirs, is_exact = answer.get("records"), bool(answer.get("is_exact"))
    if theirs is None or here.restored_from is not None:  # a hub of an earlier release compares none
        return []
    with reading():
        ours = record_digests.by_bucket(scope, "", is_exact=is_exact)
    buckets = digests.differing(ours, _digests(theirs))
    differing: set[RecordDigest] = set()
    for answered, answer in _by_parts(call, question, buckets):
        with reading():
            ours_in_them = set(record_digests.in_buckets(scope, "", answered, is_exact=is_exact))
        differing |= ours_in_them ^ {RecordDigest(*map(int, row)) for row in answer["records"]}
    with reading():
        changed = change_feed.changed_after(here.acked_seq, Kind.ASSET, Kind.LOCATION)
        hub_time = clock.now() + (here.clock_offset or 0)
        changed |= record_digests.created_after({record.ref for record in differing}, hub_time)
        kinds = {record.ref: record.kind for record in differing if record.ref not in changed}
        keys = record_digests.keys_of(scope, kinds)
    return [
        Difference(
            f"{Kind(kind).name.lower()} {keys.get(ref, f'{ref} (only at the hub)')}",
            (kind, ref) if ref in keys else None,
        )
        for ref, kind in sorted(kinds.items())
    ]


def _by_parts(call: Call, question: dict[str, Any], buckets: list[int]) -> Iterator[tuple[set[int], Any]]:
    """Ask for buckets until all are answered. Yields the answered ones with the answer."""
    while buckets:
        answer = call("digests", batch_format.pack({**question, "buckets": buckets}))
        answered = {*map(int, answer.get("buckets", ())), buckets[0]}
        yield answered, answer
        buckets = [bucket for bucket in buckets if bucket not in answered]


def _compare_copies(here: Target, call: Call) -> list[Difference]:
    """Compare the hub's assets with their copies here, and fetch those that differ. Call after all changes arrived."""
    question = {"range": NO_DAYS, "days": [], "of": "copies", "after": here.master_seq, "epoch": here.hub_epoch}
    question["is_exact"] = True
    first, ranges, without = 0, list[int](), set[int]()
    read = partial(copy_digests.at_site, here.organization_id)
    while first < copy_digests.RANGES:
        answer = call("digests", batch_format.pack({**question, "first": first}))
        if not answer.get("is_exact"):  # a hub of an earlier release, or with changes that must arrive first
            return []
        without |= set(map(int, answer["without"]))
        ours, until = copy_digests.by_range(read, first, without, SLICE_SECONDS)
        until = min(until, int(answer["until"]))
        differing_ranges = digests.differing(ours, _digests(answer["copies"]))
        ranges += [number for number in differing_ranges if number <= until]
        first = max(until, first) + 1
    differing: Counter[int] = Counter()  # 2 if both have it, with different values
    for answered, answer in _by_parts(call, {**question, "first": 0}, ranges):
        if answer.get("copies") is None:
            return []
        unsettled = set(map(int, answer["without"]))
        theirs = {(int(ref), int(value)) for ref, value in answer["copies"]}
        with reading():
            theirs ^= {row for number in answered for row in read(number).items()}
        differing.update(ref for ref, _ in theirs if ref not in unsettled)
    early = copy_digests.created_after([ref for ref, ends in differing.items() if ends > 1], clock.now())
    refs = sorted(differing.keys() - early)[:MAX_COPIES]
    fetch_assets(here, call, refs)
    keys = copy_digests.keys_of_copies(refs)
    return [Difference(f"copy of asset {keys.get(ref, f'{ref} of the hub')}", is_fetched=True) for ref in refs]


def _compare_passages(here: Target, call: Call) -> list[Difference]:
    """Compare the passages of this site, without those that are still too far in the future for the hub.

    Those that only the hub has are not reported: it may keep them longer.
    """
    scope, times = Scope(here.organization_id, None), Times(here.horizon, FOREVER)
    question = {"range": NO_DAYS, "days": [], "of": "passages"}
    differing_buckets: list[int] = []
    first: int | None = 0
    while first is not None and len(differing_buckets) < MAX_PASSAGE_BUCKETS:
        answer = call("digests", batch_format.pack({**question, "first": first, **times._asdict()}))
        if answer.get("passages") is None or here.restored_from is not None:  # a hub of an earlier release has none
            return []
        times = Times(max(times.since, int(answer["since"])), min(times.until, int(answer.get("until", FOREVER))))
        with reading():
            ours = passage_digests.by_bucket(scope, times, first)
        theirs = _digests(answer["passages"])
        differing_buckets += sorted(set(digests.differing(ours.by_bucket, theirs)) & set(ours.by_bucket))
        first = ours.following
    numbers: set[int] = set()
    for answered, answer in _by_parts(
        call, {**question, "first": 0, **times._asdict()}, differing_buckets[:MAX_PASSAGE_BUCKETS]
    ):
        with reading():
            ours_in_them = passage_digests.in_buckets(scope, times, answered)
        theirs_in_them = {int(no): int(value) for no, value in answer["passages"]}
        numbers |= {no for no, value in ours_in_them.items() if theirs_in_them.get(no) != value}
    with reading():
        names = passage_digests.names(numbers - change_feed.changed_after(here.acked_seq, Kind.PASSAGE))
    return [
        Difference(f"passage of {key} at {clock.rfc3339(at)}", (Kind.PASSAGE, no))
        for no, (at, key) in sorted(names.items())[:MAX_PASSAGES]
    ]


def _slice_end(begin: int) -> int:
    """Return the last day to ask a hub for that stores no digests."""
    oldest = (copies.oldest_end() or clock.now()) // clock.DAY
    until = max(begin, oldest) + SLICE_DAYS - 1
    return until if until < clock.now() // clock.DAY else ALL_DAYS.last


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
