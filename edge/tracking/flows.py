"""What arrived at and left a location over time, and how much was there: the numbers behind its chart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from edge.database.connection import execute, reading
from edge.tracking.board import BELOW

Row = tuple[int, int, int, int, int]  # asset, track, when it was observed, order of arrival, source


class Span(NamedTuple):
    """One interval at a location. `asset_time` is how long assets were there, in microseconds, summed over all."""

    since: int
    until: int
    arrived: int
    left: int
    present: int  # at its end
    asset_time: int


# Where each asset was when the time began, and every row since then; in the order of the index, so nothing is sorted.
_ROWS = """
SELECT t.asset_id, t.no, h.observed_at, h.seq, h.source_no
FROM track t INDEXED BY track_asset
CROSS JOIN history h ON h.position_no = t.no AND h.observed_at < :until AND h.observed_at >= ifnull((
    SELECT observed_at FROM history WHERE position_no = t.no AND observed_at <= :since
    ORDER BY observed_at DESC LIMIT 1), :since)
WHERE t.organization_id = :organization_id
ORDER BY t.asset_id
"""


def flow(organization_id: int, location_id: int, edges: Sequence[int]) -> list[Span]:
    """One span between each two `edges`, for the location and everything that is below it now.

    An asset is there until it is seen elsewhere. Moves between two locations inside are not arrivals.
    """
    values = {"organization_id": organization_id, "location_id": location_id}
    with reading():
        inside = {row[0] for row in execute(_INSIDE, values)}
        rows = execute(_ROWS, {**values, "since": edges[0], "until": edges[-1]})
        return _spans(_changes(rows, inside), edges)


_INSIDE = f"{BELOW.rstrip()} SELECT no FROM source WHERE location_id IN (SELECT id FROM below)"


def _changes(rows: Iterable[Row], inside: Container[int]) -> Iterator[tuple[int, bool]]:
    """When an asset came (true) or went. Read while they are found: a busy month has a million rows."""
    for _, own in groupby(rows, itemgetter(0)):
        was_inside = False
        for _, _, at, _, source_no in _in_order(own):
            if (source_no in inside) != was_inside:
                was_inside = not was_inside
                yield at, was_inside


def _in_order(rows: Iterable[Row]) -> Iterable[Row]:
    """Of one asset. Only on a hub it has several tracks, each of them in order."""
    found = list(rows)
    return found if found[0][1] == found[-1][1] else sorted(found, key=itemgetter(2, 3))


def _spans(changes: Iterable[tuple[int, bool]], edges: Sequence[int]) -> list[Span]:
    """Those before the first edge tell what was there when it began."""
    arrived, left = [0] * (len(edges) - 1), [0] * (len(edges) - 1)
    gained = [0] * (len(edges) - 1)  # time at the location within the span, by those who came or went in it
    at_first = 0
    for at, came in changes:
        sign = 1 if came else -1
        if at < edges[0]:
            at_first += sign
            continue
        span = bisect_right(edges, at) - 1
        (arrived if came else left)[span] += 1
        gained[span] += sign * (edges[span + 1] - at)
    spans, present = [], at_first
    for number, (since, until) in enumerate(pairwise(edges)):
        asset_time = present * (until - since) + gained[number]
        present += arrived[number] - left[number]
        spans.append(Span(since, until, arrived[number], left[number], present, asset_time))
    return spans
