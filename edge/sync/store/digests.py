"""Digests that compare the history of a site and its hub: first per day, then per track of a day.

A digest is the row count and the sum of the row hashes, so the order of reading does not matter. Both sides hash the
site's ids. People are excluded, since they are sent with the handheld scans.

Digests of days are stored. They follow the log of changes: the digest of a day whose history changed is deleted before
a comparison, which therefore reads only days that changed since the last one.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from edge import clock
from edge.database import change_log
from edge.database.change_log import Change, Kind
from edge.database.connection import execute, execute_many, reading, writing
from edge.database.triggers import Follower
from edge.sync.store import site_quotas
from edge.tracking import copies
from edge.tracking.copies import DigestRow

Digest = tuple[int, int]  # row count, sum of hashes

MAX_DAYS_READ = 7  # at once
_ROW = Struct("<qqqqqqqqq")
_NO_RSSI = 2**62


class Days(NamedTuple):
    """Range of days since the epoch (UTC), inclusive."""

    first: int
    last: int


ALL_DAYS = Days(-(10**6), 10**6)


class Scope(NamedTuple):
    """The machine's own history, or on a hub the history of one site."""

    organization_id: int
    site_no: int | None


class KeptDigests(NamedTuple):
    """Digests by day up to `until`, inclusive."""

    by_day: Mapping[int, Digest]
    until: int


def kept_by_day(scope: Scope, days: Days, seconds: float | None = None) -> KeptDigests:
    """Return the digests by day, and compute and store those that are missing. Call outside of a transaction.

    After `seconds` it returns the days that are ready, at least MAX_DAYS_READ of the missing ones.
    """
    _begin()
    catch_up()
    ends_at = None if seconds is None else time.monotonic() + seconds
    with reading():
        present = extent(scope, days)
        kept = _stored(scope, present)
    by_day = {day: digest for day, digest in kept.items() if digest[0]}
    today, is_first = clock.now() // clock.DAY, True
    for part in _missing(present, kept):
        if not is_first and ends_at is not None and time.monotonic() > ends_at:
            return KeptDigests({day: digest for day, digest in by_day.items() if day < part.first}, part.first - 1)
        by_day |= _compute(scope, part, today)
        is_first = False
    return KeptDigests(by_day, days.last)


def by_day(scope: Scope, days: Days) -> dict[int, Digest]:
    """Return the digests by day, computed from the history."""
    until = (days.last + 1) * clock.DAY - 1
    return sum_up((row[1] // clock.DAY, _hash(row)) for row in _rows(scope, days.first * clock.DAY, until))


def by_track(scope: Scope, day: int) -> dict[int, Digest]:
    """Return the digests of one day by the site's track number."""
    return sum_up((row[0], _hash(row)) for row in _rows(scope, day * clock.DAY, (day + 1) * clock.DAY - 1))


def extent(scope: Scope, days: Days) -> Days:
    """Return the part of these days between the oldest and the newest stay."""
    moments = copies.extent(*scope)
    if moments is None:
        return Days(days.first, days.first - 1)
    return Days(max(days.first, moments[0] // clock.DAY), min(days.last, moments[1] // clock.DAY))


def differing(ours: Mapping[int, Digest], theirs: Mapping[int, Digest]) -> list[int]:
    """Return the keys with different digests."""
    return sorted(key for key in {*ours, *theirs} if ours.get(key, (0, 0)) != theirs.get(key, (0, 0)))


def forget(site_no: int, days: Days = ALL_DAYS) -> None:
    """Delete stored digests of a site, 0 for this box, so that they are computed again."""
    with writing():
        execute("DELETE FROM history_digest WHERE site_no = ? AND day BETWEEN ? AND ?", (site_no, *days))


def check(scope: Scope, day: int, computed: Mapping[int, Digest]) -> None:
    """Delete the stored digest of a day if it differs from the sum of its tracks, for example after manual changes."""
    total = (sum(count for count, _ in computed.values()), sum(total for _, total in computed.values()) % 2**53)
    if _stored(scope, Days(day, day)).get(day, total) != total:
        forget(scope.site_no or 0, Days(day, day))


def _begin() -> None:
    """Follow the log of changes from the first comparison on. Earlier digests may be outdated."""
    if not change_log.is_followed_by(Follower.DIGESTS):
        with writing():
            execute("DELETE FROM history_digest")
            change_log.begin(Follower.DIGESTS)


def catch_up() -> None:
    """Delete the digests of days whose history has changed, as far as the log says."""
    change_log.catch_up(Follower.DIGESTS, _follow)


def _follow(changes: Iterable[Change]) -> None:
    """Delete the digests of changed days, those of all sites if the track is gone, and all of sites with new numbers.

    A digest holds the site's numbers of tracks and locations.
    """
    changed = {(change.a, (change.b or 0) // clock.DAY) for change in changes if change.kind in _OF_STAYS}
    site_of = copies.sites_of_tracks({track for track, _ in changed})
    days = {(site_of[track], day) for track, day in changed if track in site_of}
    execute_many("DELETE FROM history_digest WHERE site_no = ? AND day = ?", days)
    gone = {(day,) for track, day in changed if track not in site_of}
    execute_many("DELETE FROM history_digest WHERE day = ?", gone)
    for site_no in {change.a for change in changes if change.kind == Kind.NUMBERS}:
        forget(site_no)


_OF_STAYS = (Kind.STAY, Kind.LEFT)


def hash_of(content: bytes) -> int:
    """Return the number that a row adds to a digest."""
    return int.from_bytes(blake2b(content, digest_size=6).digest())


def sum_up(hashes: Iterable[tuple[int, int]]) -> dict[int, Digest]:
    """Return the digests by key, of pairs of a key and a hash."""
    by_key: dict[int, Digest] = {}
    for key, value in hashes:
        count, total = by_key.get(key, (0, 0))
        by_key[key] = (count + 1, (total + value) % 2**53)
    return by_key


def _stored(scope: Scope, days: Days) -> dict[int, Digest]:
    rows = execute(
        "SELECT day, row_count, total FROM history_digest "
        "WHERE site_no = ? AND day BETWEEN ? AND ? AND row_count IS NOT NULL",
        (scope.site_no or 0, *days),
    )
    return {day: (count, total) for day, count, total in rows}


def _missing(days: Days, kept: Mapping[int, Digest]) -> Iterable[Days]:
    """Yield the days without a digest in ranges of at most MAX_DAYS_READ."""
    first: int | None = None
    for day in range(days.first, days.last + 2):
        if first is not None and (day in kept or day > days.last or day - first == MAX_DAYS_READ):
            yield Days(first, day - 1)
            first = None
        if first is None and day <= days.last and day not in kept:
            first = day


def _compute(scope: Scope, days: Days, today: int) -> dict[int, Digest]:
    """Compute the digests of some days and store those before today, which hardly change any more.

    On a hub they count toward the quota of the site, and are not stored once it is exhausted.

    The placeholder is stored before the history is read. It is deleted if the history changes meanwhile, and then the
    digest is not stored.
    """
    site_no, number = scope.site_no or 0, secrets.randbits(53)
    kept_days = range(days.first, min(days.last, today - 1) + 1)
    if site_no and site_quotas.is_exhausted(site_no):
        kept_days = range(0)
    if kept_days:
        with writing(), site_quotas.charging(site_no):
            execute_many(
                "INSERT OR REPLACE INTO history_digest (site_no, day, row_count, total) VALUES (?, ?, NULL, ?)",
                [(site_no, day, number) for day in kept_days],
            )
    with reading():
        computed = by_day(scope, days)
    if kept_days:
        with writing():
            _follow(change_log.take(Follower.DIGESTS, -1))
            execute_many(
                "UPDATE history_digest SET row_count = ?, total = ? "
                "WHERE site_no = ? AND day = ? AND row_count IS NULL AND total = ?",
                [(*computed.get(day, (0, 0)), site_no, day, number) for day in kept_days],
            )
    return computed


def _hash(row: DigestRow) -> int:
    *numbers, rssi = row
    return hash_of(_ROW.pack(*numbers, _NO_RSSI if rssi is None else rssi))


def _rows(scope: Scope, since: int, until: int) -> Iterable[DigestRow]:
    """Yield history rows with the origin as one number."""
    origins = {no: _origin(columns) for no, *columns in execute(_ORIGINS, (scope.site_no or 0, scope.organization_id))}
    rows = copies.rows_for_digest(scope.organization_id, scope.site_no, since, until)
    for track, at, seq, seen_for, source, delay, quality, rule, rssi in rows:
        yield track, at, seq, seen_for, origins[source], delay, quality, rule, rssi


def _origin(columns: list[int | None]) -> int:
    return int.from_bytes(blake2b(json.dumps(columns).encode(), digest_size=7).digest())


_ORIGINS = """
SELECT s.no,
       ifnull((SELECT min(remote_id) FROM link WHERE local_id = s.location_id AND peer = ?1), s.location_id),
       ifnull(s.reader_id, s.remote_reader), s.port
FROM source s WHERE s.organization_id = ?2
"""
