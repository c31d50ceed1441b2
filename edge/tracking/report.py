"""Current locations and history of assets (interface: Tracking rows; Tracking)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

from edge import clock
from edge.database.connection import column, execute, reading, scalar
from edge.database.lists import Page, SortTerm, order_by
from edge.errors import HistoryUnavailable, NotFound
from edge.records import search
from edge.records.external_keys import visible
from edge.records.listing import ListQuery, Source, read_page, view
from edge.texts import N_, fill
from edge.tracking import antenna_names, history_engine
from edge.tracking.decision_rule import Rule
from edge.tracking.shown_positions import SHOWN, is_shown
from edge.tracking.stays import Quality

MAX_DURATION_SECONDS = 2**31 - 1

SORTABLE = {
    "asset_last_seen": "p.last_seen_at",
    "asset_external_key": "a.external_key",
    "location_external_key": "l.external_key",
}
DEFAULT_SORT = (SortTerm("asset_last_seen", descending=True),)
_LISTED = Source(
    ("p.asset_id", "a.external_key", "l.id", "l.external_key", "a.deleted_at", "p.last_seen_at", "p.dwell_started_at"),
    f"{SHOWN} p JOIN asset a ON a.id = p.asset_id LEFT JOIN location l ON l.id = p.location_id "
    f"AND {visible('l', include_deleted=False)}",
    "a",
    "p.asset_id",
)
NEWEST_FIRST = (SortTerm("event_observed_at", descending=True),)


class AssetLocationRow(NamedTuple):
    """Current location of an asset; None if the location is deleted or outside its window."""

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
    """A stay; `duration_seconds` is the time since the previous one, None for the asset's first."""

    observed_at: int
    location_id: int
    location_external_key: str
    duration_seconds: int | None


def list_asset_locations(
    organization_id: int,
    filters: AssetLocationFilter,
    *,
    limit: int,
    offset: int = 0,
    sort: Sequence[SortTerm] = DEFAULT_SORT,
) -> Page[AssetLocationRow]:
    """Return a page of the current locations of seen assets within their windows."""
    query = ListQuery(organization_id, "p.organization_id", include_deleted=filters.include_deleted)
    query.any_of("l.id", filters.location_ids)
    query.any_of("l.external_key", filters.location_external_keys)
    query.any_of("p.asset_id", filters.asset_ids)
    query.any_of("a.external_key", filters.asset_external_keys)
    with view(query, filters.q):
        match = search.match("asset", organization_id, filters.q, has_descriptions=False) if filters.q else None
        rows, total = read_page(_LISTED, query, match, order_by(sort, SORTABLE, "p.asset_id"), limit, offset)
    return Page([AssetLocationRow._make(row) for row in rows], total)


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
    """Return a page of the stays of a live asset, by time of observation. Raises NotFound."""
    newest_first = sort[0].descending
    with reading():
        tracks, total = _tracks(organization_id, asset_id)
        if not tracks:
            return Page([], 0)
        if history_engine.is_remote():
            if since is not None or until is not None:
                total = history_engine.lent_rows.count(tracks, since, until)
            rows = history_engine.lent_rows.page(tracks, since, until, limit, offset, newest_first=newest_first)
            skipped = 0 if newest_first else min(offset, 1)  # only the page is here, with the row before it
            with history_engine.lent_rows.lent(rows):
                stays, _ = _page_of(tracks, since, until, limit, skipped, newest_first=newest_first)
            return Page(stays, total)
        stays, within = _page_of(tracks, since, until, limit, offset, newest_first=newest_first)
    return Page(stays, total if within is None else within)


def _page_of(
    tracks: Sequence[int], since: int | None, until: int | None, limit: int, offset: int, *, newest_first: bool
) -> tuple[list[StayRow], int | None]:
    """Return a page of the stays of these tracks, and their number if they are of a period."""
    values = {"since": since, "until": until, "limit": limit, "offset": offset}
    where, total = _within(tracks, since, until), None
    if since is not None or until is not None:
        total = execute(f"SELECT count(*) FROM history h WHERE {where}", values).fetchone()[0]
    direction = "DESC" if newest_first else "ASC"
    order = f"ORDER BY h.observed_at {direction}, h.seq {direction}"
    # A subquery for the page: joining locations to the rows before it would take ten times as long.
    page = f"SELECT observed_at, seq, source_no FROM history h WHERE {where} {order} LIMIT :limit OFFSET :offset"
    selected = execute(
        f"SELECT h.observed_at, h.seq, l.id, l.external_key FROM ({page}) h "
        f"JOIN source s ON s.no = h.source_no JOIN location l ON l.id = s.location_id {order}",
        values,
    ).fetchall()
    stays = _with_durations(tracks, selected[::-1] if newest_first else selected)
    return (stays[::-1] if newest_first else stays), total


def _tracks(organization_id: int, asset_id: int) -> tuple[list[int], int]:
    """Return the numbers of an asset's tracks, and their total number of rows. Raises NotFound.

    At a hub each site that saw the asset has a track; otherwise there is at most one.
    """
    selected = execute(
        f"SELECT t.no, t.history_rows FROM asset a LEFT JOIN track t ON t.asset_id = a.id AND {is_shown('t')} "
        "WHERE a.id = ? AND a.organization_id = ? AND a.deleted_at IS NULL",
        (asset_id, organization_id),
    ).fetchall()
    if not selected:
        raise NotFound("asset not found")
    tracks = [(no, count) for no, count in selected if no is not None]
    return [no for no, _ in tracks], sum(count for _, count in tracks)


def _of_tracks(column: str, tracks: Sequence[int]) -> str:
    """Return the condition for these tracks. With a single one, rows come in index order."""
    return f"{column} = {tracks[0]:d}" if len(tracks) == 1 else f"{column} IN ({', '.join(map(str, tracks))})"


def _within(tracks: Sequence[int], since: int | None, until: int | None) -> str:
    """Return the condition for a period, both ends included."""
    conditions = [_of_tracks("h.position_no", tracks)]
    if since is not None:
        conditions.append("h.observed_at >= :since")
    if until is not None:
        conditions.append("h.observed_at <= :until")
    return " AND ".join(conditions)


def _with_durations(tracks: Sequence[int], oldest_first: Sequence[tuple[int, int, int, str]]) -> list[StayRow]:
    """Add durations. The row before the page gives the first one (interface: Tracking)."""
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
    """Return the time of the newest scan on this machine, 0 if there is none."""
    newest: int | None = execute("SELECT max(last_seen_at) FROM position").fetchone()[0]
    return newest or 0


class CurrentPosition(NamedTuple):
    """Where an asset is, since when, and when its newest stay was first seen."""

    location_id: int
    last_seen_at: int
    dwell_started_at: int
    row_at: int


def current_positions(asset_ids: Collection[int]) -> dict[int, CurrentPosition]:
    """Return the current position of each of these assets that has one."""
    rows = execute(
        "SELECT asset_id, location_id, last_seen_at, dwell_started_at, row_at FROM position "
        "WHERE asset_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(asset_ids)),),
    )
    return {asset_id: CurrentPosition(*columns) for asset_id, *columns in rows}


def current_position(asset_id: int) -> CurrentPosition | None:
    return current_positions([asset_id]).get(asset_id)


class Sighting(NamedTuple):
    """Where an asset was read last, and where it was before. `quality` is that of the time when the stay began.

    While the history is unavailable, the location before is unknown and the time untrusted.
    """

    location_id: int
    location_name: str
    last_seen_at: int
    row_at: int
    quality: int
    before_location_id: int | None
    before_until: int | None


_SIGHTINGS = """
SELECT t.asset_id, t.location_id, l.name, t.last_seen_at, t.row_at, ifnull(h.quality, ?2), s.location_id,
       b.observed_at + b.seen_for
FROM json_each(?1) k CROSS JOIN track t ON t.asset_id = k.value AND t.is_newest = 1
JOIN location l ON l.id = t.location_id
LEFT JOIN history h ON h.position_no = t.no AND h.observed_at = t.row_at AND h.seq = t.row_seq
LEFT JOIN history b ON b.position_no = t.no AND (b.observed_at, b.seq) = (
    SELECT observed_at, seq FROM history WHERE position_no = t.no AND (observed_at, seq) < (t.row_at, t.row_seq)
    ORDER BY observed_at DESC, seq DESC LIMIT 1
)
LEFT JOIN source s ON s.no = b.source_no
"""


def sightings(asset_ids: Collection[int]) -> dict[int, Sighting]:
    """Return the newest sighting of each of these assets that has one."""
    chosen = json.dumps(list(asset_ids))
    try:
        with history_engine.lending(lambda: history_engine.lent_rows.newest(_newest_tracks(chosen), 2)):
            rows = execute(_SIGHTINGS, (chosen, Quality.UNTRUSTED)).fetchall()
    except HistoryUnavailable:
        rows = execute(_SIGHTINGS, (chosen, Quality.UNTRUSTED)).fetchall()
    return {asset_id: Sighting(*columns) for asset_id, *columns in rows}


def _newest_tracks(asset_ids: str) -> list[int]:
    sql = "SELECT no FROM track WHERE is_newest = 1 AND asset_id IN (SELECT value FROM json_each(?))"
    return column(sql, (asset_ids,))


def current_location(asset_id: int) -> int | None:
    position = current_position(asset_id)
    return position.location_id if position else None


def has_positions(organization_id: int) -> bool:
    sql = "SELECT 1 FROM position WHERE organization_id = ? LIMIT 1"
    return execute(sql, (organization_id,)).fetchone() is not None


def count_assets_at(location_id: int) -> int:
    """Return the number of live assets that are shown at a location, without those in its sublocations."""
    sql = (
        f"SELECT count(*) FROM {SHOWN} AS position JOIN asset ON asset.id = position.asset_id "
        "WHERE position.location_id = ? AND asset.deleted_at IS NULL"
    )
    return scalar(sql, (location_id,))


class Move(NamedTuple):
    """A stay of an asset: when it began, when it was last read there, and by whom."""

    observed_at: int
    seq: int
    last_seen_at: int
    location_id: int
    location_key: str
    location_name: str
    location_is_live: bool
    reader_id: int | None
    reader_name: str | None
    port: int | str | None  # number or name of the antenna
    person_name: str | None
    quality: int
    delay: int
    site_name: str | None  # on a hub, the site that read it; None for the hub itself


# The stays `h` of `track t` with source, location, reader (`r`, or its name `n` at another site), site and antenna.
STAYS = f"""
track t
JOIN history h ON h.position_no = t.no JOIN source s ON s.no = h.source_no JOIN location l ON l.id = s.location_id
LEFT JOIN reader r ON r.id = s.reader_id
LEFT JOIN remote_name n ON n.site_no = s.site_no AND n.kind = 4 AND n.remote_id = s.remote_reader
LEFT JOIN site ON site.no = t.site_no
{antenna_names.JOINED}
"""
_MOVES = f"""
SELECT h.observed_at, h.seq,
       iif(h.observed_at = t.row_at AND h.seq = t.row_seq, t.last_seen_at, h.observed_at + h.seen_for),
       l.id, l.external_key, l.name, l.deleted_at IS NULL, s.reader_id, ifnull(r.name, n.name),
       {antenna_names.SHOWN},
       ifnull(remote_person.name, (
           SELECT person.name FROM handheld_scan hs JOIN person ON person.id = hs.person_id
           WHERE hs.asset_id = t.asset_id AND hs.observed_at = h.observed_at AND hs.seq = h.seq
             AND hs.undone_at IS NULL AND t.site_no IS NULL
       )),
       h.quality, h.delay, site.name
FROM {STAYS} LEFT JOIN remote_name remote_person
    ON remote_person.site_no = ifnull(s.site_no, 0) AND remote_person.kind = 5
    AND remote_person.remote_id = s.remote_person
WHERE t.no = :track AND h.observed_at < :before
ORDER BY h.observed_at DESC, h.seq DESC LIMIT :limit
"""


def moves(organization_id: int, asset_id: int, *, before: int | None = None, limit: int = 50) -> list[Move]:
    """Return the stays of an asset, newest first, that began before `before`; on a hub, those of all sites."""
    numbers = execute(
        f"SELECT no FROM track t WHERE asset_id = ? AND organization_id = ? AND {is_shown('t')}",
        (asset_id, organization_id),
    ).fetchall()
    tracks = [no for (no,) in numbers]
    until = 2**62 if before is None else before
    values = {"before": until, "limit": limit}
    with history_engine.lending(lambda: history_engine.lent_rows.newest(tracks, limit, until)):
        merged = [Move(*row) for no in tracks for row in execute(_MOVES, {**values, "track": no})]
    return sorted(merged, key=lambda move: (move.observed_at, move.seq), reverse=True)[:limit]


class DecidedStay(NamedTuple):
    """A stay with the rule that decided it, and the antenna that read it, or the sled by which a person scanned it."""

    at: int
    location_id: int
    name: str
    rule: int
    delay: int
    reader: str | None
    antenna: int | str | None
    site: str | None
    sled: str | None

    @property
    def by(self) -> str | None:
        if self.reader is None or self.antenna is None:
            return self.reader
        return fill(N_("%(reader)s, antenna %(antenna)s"), reader=self.reader, antenna=self.antenna)


_DECIDED = f"""
SELECT h.observed_at, s.location_id, l.name, h.rule, h.delay, ifnull(r.name, n.name), {antenna_names.SHOWN},
       site.name, (SELECT sled.name FROM handheld_scan hs
                   JOIN reader sled ON sled.id = CAST(substr(hs.id, 6) AS INTEGER)
                   WHERE hs.asset_id = t.asset_id AND hs.observed_at = h.observed_at AND hs.seq = h.seq
                     AND hs.id GLOB 'sled:*' AND hs.undone_at IS NULL AND t.site_no IS NULL)
FROM {STAYS}
WHERE t.asset_id = ? AND t.organization_id = ? AND t.is_newest = 1 AND {is_shown("t")}
ORDER BY h.observed_at DESC, h.seq DESC LIMIT ?
"""


def decided_stays(organization_id: int, asset_id: int, limit: int) -> list[DecidedStay]:
    """Return the newest stays of an asset, newest first; on a hub, those of the site that read it last."""
    chosen = json.dumps([asset_id])
    with history_engine.lending(lambda: history_engine.lent_rows.newest(_newest_tracks(chosen), limit)):
        return [DecidedStay(*row) for row in execute(_DECIDED, (asset_id, organization_id, limit))]


def scanned_last(asset_ids: Collection[int]) -> set[int]:
    """Return those of these assets whose last sighting is a person's scan."""
    return set(
        column(
            "SELECT asset_id FROM track WHERE is_newest = 1 AND row_rule = ? AND last_seen_at = row_at "
            "AND asset_id IN (SELECT value FROM json_each(?))",
            (Rule.PERSON, json.dumps(list(asset_ids))),
        )
    )


def count_stays(organization_id: int) -> int:
    """Return the number of rows of history of an organization."""
    return scalar("SELECT ifnull(sum(history_rows), 0) FROM track WHERE organization_id = ?", (organization_id,))
