"""Pages of the board of a past moment.

With few assets, all positions are computed. With many, only those of assets that may be on the page: indexes yield them
in blocks in the order of the page, until it is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from edge.database.connection import column, database, execute, reading
from edge.database.lists import Page
from edge.tracking import past, past_index
from edge.tracking.board import BELOW
from edge.tracking.past import Among, PastFilter, PastRow, past_rows, past_statement
from edge.validation import json_text

COUNTED = 20_000  # assets of an organization; the rows of larger ones are not counted
MOST_PASSED_OVER = 20_000  # rows; for pages behind them, all positions are computed
MOST_COMPUTED = 5000  # assets of one block
_FIRST_BLOCK = 200  # assets or stays


def board_at(organization_id: int, filters: PastFilter, *, limit: int, offset: int = 0) -> Page[PastRow]:
    """Return all assets that had been seen by that moment and were not retired then.

    They are not counted if there are many and the order allows to stop at the end of the page.
    """
    if not database.in_transaction():
        past_index.catch_up()
    with reading():
        blocks = None
        if not filters.q and offset <= MOST_PASSED_OVER and past.is_larger_than(organization_id, COUNTED):
            blocks = _blocks(organization_id, filters)
        if blocks is None:
            return _counted(organization_id, filters, None, limit, offset)
        if isinstance(blocks, Among):
            return _counted(organization_id, filters, blocks, limit, offset)
        return _until_full(organization_id, filters, blocks, limit, offset)


def _counted(organization_id: int, filters: PastFilter, among: Among | None, limit: int, offset: int) -> Page[PastRow]:
    sql, values = past_statement(organization_id, filters, among)
    with past.then(organization_id, filters.at, among):
        rows = execute(sql, {**values, "limit": limit, "offset": offset}).fetchall()
    return Page(past_rows(rows), rows[0][0] if rows else 0)


def _until_full(
    organization_id: int, filters: PastFilter, blocks: Iterable[Among], limit: int, offset: int
) -> Page[PastRow]:
    """Return the page from blocks whose rows follow each other in its order."""
    needed, total = offset + limit + 1, 0
    rows: list[tuple[Any, ...]] = []
    for block in blocks:
        sql, values = past_statement(organization_id, filters, block)
        more: list[tuple[Any, ...]] = []
        skipped = max(offset - total, 0)
        with past.then(organization_id, filters.at, block):
            if skipped < len(block.asset_ids):
                more = execute(sql, {**values, "limit": needed - total - skipped, "offset": skipped}).fetchall()
                rows += more
            if not more and skipped:  # all of its rows are on earlier pages; their number is in each of them
                more = execute(sql, {**values, "limit": 1, "offset": 0}).fetchall()
        total += more[0][0] if more else 0
        if total >= needed:
            break
    return Page(past_rows(rows[:limit]), min(total, needed), is_counted=total < needed)


def _blocks(organization_id: int, filters: PastFilter) -> Among | Iterable[Among] | None:
    """Return one block with all rows, or several, or None if all positions have to be computed."""
    sort = filters.sort.removeprefix("-")
    has_index = past_index.is_exact()
    places: list[int] | None = None
    if filters.location_id is not None:
        if not has_index:
            return None
        root = {"organization_id": organization_id, "location_id": filters.location_id}
        places = column(f"{BELOW} SELECT id FROM below", root)
        asset_ids = past.may_have_been_at(places, filters.at, MOST_COMPUTED + 1)
        if len(asset_ids) <= MOST_COMPUTED:
            return Among(asset_ids)
    if sort == "location":
        return _by_location(organization_id, filters, places) if has_index else None
    if sort == "seen":
        return _by_last_seen(organization_id, filters) if has_index else None
    return _in_order(organization_id, filters, past.order_of(filters.sort))


def _in_order(organization_id: int, filters: PastFilter, order: str, block: Among | None = None) -> Iterator[Among]:
    """Yield all assets in the order of one of their indexes, with the condition of a block."""
    in_order = execute(
        "SELECT a.id FROM asset a WHERE a.organization_id = :organization_id "
        f"AND (a.deleted_at IS NULL OR a.deleted_at > :at) ORDER BY {order}, a.id",
        {"organization_id": organization_id, "at": filters.at},
    )
    return _growing(in_order, block or Among(()))


def _growing(in_order: Iterator[tuple[int]], block: Among) -> Iterator[Among]:
    """Yield blocks that become larger, since most pages need one small block."""
    size = _FIRST_BLOCK
    while some := list(islice(in_order, size)):
        yield block._replace(asset_ids=[asset_id for (asset_id,) in some])
        size = min(size * 2, MOST_COMPUTED)


def _by_name(organization_id: int, filters: PastFilter, block: Among) -> Iterator[Among]:
    """Yield the assets that meet the condition of a block, by name. The block may lack some if it is full."""
    order = past.order_of("name")
    if len(block.asset_ids) > MOST_COMPUTED:
        yield from _in_order(organization_id, filters, order, block)
    elif len(block.asset_ids) <= _FIRST_BLOCK:
        yield block
    else:
        sql = f"SELECT a.id FROM json_each(?) k CROSS JOIN asset a ON a.id = k.value ORDER BY {order}, a.id"
        in_order = execute(sql, (json_text.text(list(block.asset_ids)),))
        yield from _growing(in_order, block)


def _by_location(organization_id: int, filters: PastFilter, places: Sequence[int] | None) -> Iterator[Among]:
    """Yield assets by the name of their location. Locations of one name belong together."""
    locations = execute(
        "SELECT lower(name), id FROM location WHERE organization_id = :organization_id "
        "AND (:places IS NULL OR id IN (SELECT value FROM json_each(:places))) "
        f"ORDER BY name COLLATE NOCASE {'DESC' if filters.sort.startswith('-') else ''}",
        {"organization_id": organization_id, "places": None if places is None else json_text.text(list(places))},
    ).fetchall()
    groups = ([id_ for _, id_ in group] for _, group in groupby(locations, key=itemgetter(0)))
    size = 1
    while some := list(islice(groups, size)):
        block = _at(list(chain.from_iterable(some)), filters.at, _FIRST_BLOCK)
        if len(block.asset_ids) <= _FIRST_BLOCK:
            yield block
            size *= 2
            continue
        for group in some:
            yield from _by_name(organization_id, filters, _at(group, filters.at, MOST_COMPUTED))
        size = 1


def _at(location_ids: Sequence[int], at: int, most: int) -> Among:
    """Return the assets that were at these locations, or one more than `most` of them."""
    return Among(
        past.may_have_been_at(location_ids, at, most + 1),
        "p.location_id IN (SELECT value FROM json_each(:of_locations))",
        {"of_locations": json_text.text(list(location_ids))},
    )


def _by_last_seen(organization_id: int, filters: PastFilter) -> Iterator[Among]:
    """Yield assets by the time when they had been seen last. Those seen before and after the moment have that time."""
    descending = filters.sort.startswith("-")
    if descending:
        yield from _seen_then(organization_id, filters)
    times = past.last_seen_before(organization_id, filters.at, descending=descending)
    size = _FIRST_BLOCK
    following = next(times, None)
    while following is not None:
        block = [following, *islice(times, size)]
        following = next(times, None)
        while following is not None and following[0] == block[-1][0]:
            block.append(following)
            following = next(times, None)
        low, high = sorted((block[0][0], block[-1][0]))
        tracks = [track for _, track in block]
        yield Among(past.assets_of(tracks), "p.last_seen_at BETWEEN :low AND :high", {"low": low, "high": high})
        size = min(size * 2, MOST_COMPUTED)
    if not descending:
        yield from _seen_then(organization_id, filters)


def _seen_then(organization_id: int, filters: PastFilter) -> Iterator[Among]:
    asset_ids = past.may_have_been_seen(organization_id, filters.at, MOST_COMPUTED + 1)
    return _by_name(organization_id, filters, Among(asset_ids, "p.last_seen_at = :at"))
