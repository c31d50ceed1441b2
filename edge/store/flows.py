"""What came to a location and went away from it over days, and how much was there: the numbers behind its chart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from edge.store.board import BELOW
from edge.store.database import execute, reading


class Span(NamedTuple):
    """A piece of time at a location. `asset_time` is how long assets were there, in microseconds, all together."""

    since: int
    until: int
    arrived: int
    left: int
    present: int  # at its end
    asset_time: int


# Where each asset was when the time began, and every row since then that leads in or out.
_CHANGES = f"""{BELOW.rstrip()},
row AS (
    SELECT t.asset_id, h.observed_at, h.seq,
           h.source_no IN (SELECT no FROM source WHERE location_id IN (SELECT id FROM below)) AS inside
    FROM track t
    CROSS JOIN history h ON h.position_no = t.no AND h.observed_at < :until AND h.observed_at >= ifnull((
        SELECT observed_at FROM history WHERE position_no = t.no AND observed_at <= :since
        ORDER BY observed_at DESC LIMIT 1), :since)
    WHERE t.organization_id = :organization_id
),
step AS (
    SELECT observed_at, inside,
           lag(inside, 1, 0) OVER (PARTITION BY asset_id ORDER BY observed_at, seq) AS was_inside
    FROM row
)
SELECT observed_at, inside FROM step WHERE inside <> was_inside
"""


def flow(organization_id: int, location_id: int, edges: Sequence[int]) -> list[Span]:
    """Between each two edges, for the location and what is below it now. An asset is there until it is seen elsewhere.

    Moves between locations that are both inside are no arrivals.
    """
    values = {
        "organization_id": organization_id,
        "location_id": location_id,
        "since": edges[0],
        "until": edges[-1],
    }
    with reading():
        changes = execute(_CHANGES, values).fetchall()
    return _spans(changes, edges)


def _spans(changes: Sequence[tuple[int, int]], edges: Sequence[int]) -> list[Span]:
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
