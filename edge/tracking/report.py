"""Reading where assets are and were; `scans` writes it (spec: Tracking rows; contract: Tracking)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute, reading
from edge.database.lists import Page, SortTerm, order_by
from edge.errors import NotFound
from edge.records import search
from edge.records.external_keys import visible
from edge.records.listing import ListQuery, Source, read_page, view

MAX_DURATION_SECONDS = 2**31 - 1

SORTABLE = {
    "asset_last_seen": "p.last_seen_at",
    "asset_external_key": "a.external_key",
    "location_external_key": "l.external_key",
}
DEFAULT_SORT = (SortTerm("asset_last_seen", descending=True),)
_LISTED = Source(
    ("p.asset_id", "a.external_key", "l.id", "l.external_key", "a.deleted_at", "p.last_seen_at", "p.dwell_started_at"),
    "position p JOIN asset a ON a.id = p.asset_id LEFT JOIN location l ON l.id = p.location_id "
    f"AND {visible('l', include_deleted=False)}",
    "a",
    "p.asset_id",
)
NEWEST_FIRST = (SortTerm("event_observed_at", descending=True),)


class AssetLocationRow(NamedTuple):
    """One scanned asset; its location is None where that is deleted or outside its window."""

    asset_id: int
    asset_external_key: str
    location_id: int | None
    location_external_key: str | None
    asset_deleted_at: int | None
    last_seen_at: int
    dwell_started_at: int


class AssetLocationFilter(NamedTuple):
    location_ids: Sequence[int] = ()
    location_external_keys: Sequence[str] = ()
    asset_ids: Sequence[int] = ()
    asset_external_keys: Sequence[str] = ()
    include_deleted: bool = False
    q: str = ""


class StayRow(NamedTuple):
    """`duration_seconds` since the row before it; None on the asset's earliest."""

    observed_at: int
    location_id: int
    location_external_key: str
    duration_seconds: int | None


def list_asset_locations(
    organization_id: int,
    wanted: AssetLocationFilter,
    *,
    limit: int,
    offset: int = 0,
    sort: Sequence[SortTerm] = DEFAULT_SORT,
) -> Page[AssetLocationRow]:
    """The current location of each scanned asset that is within its window."""
    listed = ListQuery(organization_id, "p.organization_id", include_deleted=wanted.include_deleted)
    listed.any_of("l.id", wanted.location_ids)
    listed.any_of("l.external_key", wanted.location_external_keys)
    listed.any_of("p.asset_id", wanted.asset_ids)
    listed.any_of("a.external_key", wanted.asset_external_keys)
    with view(listed, wanted.q):
        match = search.match("asset", organization_id, wanted.q, descriptions=False) if wanted.q else None
        found, total = read_page(_LISTED, listed, match, order_by(sort, SORTABLE, "p.asset_id"), limit, offset)
    return Page([AssetLocationRow._make(row) for row in found], total)


def list_history(
    organization_id: int,
    asset_id: int,
    *,
    since: int | None = None,
    until: int | None = None,
    limit: int,
    offset: int = 0,
    sort: Sequence[SortTerm] = NEWEST_FIRST,
) -> Page[StayRow]:
    """Every stay of a live asset in the order it was observed. Raises NotFound."""
    newest_first = sort[0].descending
    with reading():
        tracks, total = _tracks(organization_id, asset_id)
        if not tracks:
            return Page([], 0)
        values = {"since": since, "until": until, "limit": limit, "offset": offset}
        where = _within(tracks, since, until)
        if since is not None or until is not None:
            total = execute(f"SELECT count(*) FROM history h WHERE {where}", values).fetchone()[0]
        direction = "DESC" if newest_first else "ASC"
        order = f"ORDER BY h.observed_at {direction}, h.seq {direction}"
        # A subquery for the page: looking up the locations of the rows before it would be ten times the work.
        page = f"SELECT observed_at, seq, source_no FROM history h WHERE {where} {order} LIMIT :limit OFFSET :offset"
        found = execute(
            f"SELECT h.observed_at, h.seq, l.id, l.external_key FROM ({page}) h "
            f"JOIN source s ON s.no = h.source_no JOIN location l ON l.id = s.location_id {order}",
            values,
        ).fetchall()
        oldest_first = found[::-1] if newest_first else found
        stays = _with_durations(tracks, oldest_first)
    return Page(stays[::-1] if newest_first else stays, total)


def _tracks(organization_id: int, asset_id: int) -> tuple[list[int], int]:
    """The numbers of an asset's tracks, and how many rows of history they have. Raises NotFound.

    There is at most one, except on a hub, where each site that saw the asset has its own: their rows are merged by
    time.
    """
    found = execute(
        "SELECT t.no, t.history_rows FROM asset a LEFT JOIN track t ON t.asset_id = a.id "
        "WHERE a.id = ? AND a.organization_id = ? AND a.deleted_at IS NULL",
        (asset_id, organization_id),
    ).fetchall()
    if not found:
        raise NotFound("asset not found")
    tracks = [(no, count) for no, count in found if no is not None]
    return [no for no, _ in tracks], sum(count for _, count in tracks)


def _of_tracks(column: str, tracks: Sequence[int]) -> str:
    """With a single track, which is the usual case, rows come in the order of the index."""
    return f"{column} = {tracks[0]:d}" if len(tracks) == 1 else f"{column} IN ({', '.join(map(str, tracks))})"


def _within(tracks: Sequence[int], since: int | None, until: int | None) -> str:
    """Both ends are included."""
    parts = [_of_tracks("h.position_no", tracks)]
    if since is not None:
        parts.append("h.observed_at >= :since")
    if until is not None:
        parts.append("h.observed_at <= :until")
    return " AND ".join(parts)


def _with_durations(tracks: Sequence[int], oldest_first: Sequence[tuple[int, int, int, str]]) -> list[StayRow]:
    """Over the whole history, so the row before the page is looked up (contract: duration_seconds)."""
    if not oldest_first:
        return []
    before = execute(
        f"SELECT observed_at FROM history WHERE {_of_tracks('position_no', tracks)} "
        "AND (observed_at, seq) < (?, ?) ORDER BY observed_at DESC, seq DESC LIMIT 1",
        oldest_first[0][:2],
    ).fetchone()
    previous = before[0] if before else None
    stays = []
    for observed_at, _, location_id, location_key in oldest_first:
        seconds = None
        if previous is not None:
            seconds = min((observed_at - previous) // clock.SECOND, MAX_DURATION_SECONDS)
        stays.append(StayRow(observed_at, location_id, location_key, seconds))
        previous = observed_at
    return stays


def newest_scan() -> int:
    """Time of the newest scan on this box, 0 when there is none."""
    newest: int | None = execute("SELECT max(last_seen_at) FROM position").fetchone()[0]
    return newest or 0
