"""Reads all assets, locations or tags for an export that can be imported again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from edge.database.connection import execute
from edge.errors import NotFound
from edge.records import assets, locations
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import TagRow

_PAGE = 500  # records per query
_PAGE_BYTES = 256 * 1024  # after which a page ends: one record can have 150 KB
Record = AssetRow | LocationRow
_ASSETS = f"{assets.KIND.select_live} AND a.external_key > ? ORDER BY a.external_key LIMIT ?"
# Depth first, so that each parent is in a row above.
_LOCATION_IDS = """
WITH RECURSIVE down (id, depth, key) AS (
    SELECT l.id, 1, l.external_key FROM location l LEFT JOIN location p ON p.id = l.parent_id AND p.deleted_at IS NULL
    WHERE l.organization_id = ? AND l.deleted_at IS NULL AND p.id IS NULL
    UNION ALL
    SELECT l.id, depth + 1, l.external_key FROM down JOIN location l ON l.parent_id = down.id AND l.deleted_at IS NULL
    ORDER BY 2 DESC, 3
)
SELECT id FROM down
"""


def rows(organization_id: int, kind: str) -> Iterator[Record]:
    """Yield the live records: assets by key, locations after their parents."""
    return _assets(organization_id) if kind == "asset" else _locations(organization_id)


def tag_rows(organization_id: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield kind and key of each live record with type and value of each of its tags, or with two empty strings."""
    for kind in ("asset", "location"):
        for record in rows(organization_id, kind):
            for tag in record.tags or [TagRow(0, "", "")]:
                yield kind, record.external_key, tag.tag_type, tag.value


def _assets(organization_id: int) -> Iterator[AssetRow]:
    last = ""
    while page := _bounded_page(execute(_ASSETS, (organization_id, last, _PAGE))):
        yield from map(assets.KIND.row_of, page)
        last = page[-1][1]


def _bounded_page(cursor: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the next rows, none of them read before the ones above it were counted."""
    page: list[Sequence[Any]] = []
    size = 0
    for row in cursor:
        page.append(row)
        size += sum(len(cell) for cell in row if isinstance(cell, str))
        if size > _PAGE_BYTES:
            break
    return page


def _locations(organization_id: int) -> Iterator[LocationRow]:
    for (location_id,) in execute(_LOCATION_IDS, (organization_id,)).fetchall():
        with suppress(NotFound):  # deleted meanwhile
            yield locations.get(organization_id, location_id)
