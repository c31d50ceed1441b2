"""One round of work for a service: choose records, write them there, store the results.

What is about to be written is stored first. The results and the place in the change feed are stored together. So a
round that was interrupted at any point is repeated, and the repetition recognizes its own values.
"""

from __future__ import annotations

from edge import clock
from edge.database.connection import reading
from edge.sync.store import change_feed
from edge.upstream import counterparts, local_records, upstreams
from edge.upstream.answers import Away
from edge.upstream.client import Client
from edge.upstream.upstreams import Upstream
from edge.upstream.work import Batch, Work

MOST_RECORDS = 50  # in a round
MOST_UNSTORED = 10_000  # changes of history after which the place in the feed is stored
COMPARE_EVERY = clock.DAY


def run(client: Client, row: Upstream) -> bool:
    """Write the next records. Returns False if nothing is left to do now. Raises Away; until then all is stored."""
    batch = _next_batch(row)
    if batch is None:
        return False
    work = Work(client, row, batch.ids)
    try:
        work.do()
    except Away:
        work.store(None)
        raise
    work.store(batch)
    return True


def _next_batch(row: Upstream) -> Batch | None:
    """Return changes, then troubles to check again, then the next records of a comparison."""
    with reading():
        is_gap = row.seq < change_feed.oldest_kept() - 1
        listed = [] if is_gap else change_feed.all_records_listed(row.seq, MOST_RECORDS)
        newest = change_feed.newest()
        due = counterparts.due(row.no, clock.now(), MOST_RECORDS)
    if is_gap:
        upstreams.begin_walk(row.no)
        return Batch(())
    if listed:
        return Batch({change.a for change in listed}, seq=listed[-1].seq)
    if due:
        return Batch(due)
    if row.walk_id is not None:
        return _next_of_walk(row, row.walk_id)
    if row.walked_at is None or not 0 <= clock.now() - row.walked_at < COMPARE_EVERY:
        upstreams.begin_walk(row.no)
        return Batch(())
    return Batch((), seq=newest) if newest - row.seq > MOST_UNSTORED else None


def _next_of_walk(row: Upstream, after: int) -> Batch:
    """Return the next records that are here, or that have been there."""
    here = local_records.ids_after(row.organization_id, after, MOST_RECORDS)
    there = counterparts.ids_after(row.no, after, MOST_RECORDS)
    ids = sorted({*here, *there})[:MOST_RECORDS]
    if not ids:
        upstreams.end_walk(row.no)
        return Batch(())
    return Batch(ids, walk_id=ids[-1])
