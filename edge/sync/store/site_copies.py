"""The hub's data of one site, page by page, for a new machine of that site (`edge sync recover`).

Records keep the ids that they had at the site, so ids used elsewhere stay valid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from edge.database.change_log import Kind
from edge.database.connection import execute
from edge.doors.passage_copies import SentDoor, SentPassage
from edge.errors import Conflict
from edge.memory_budget import MB
from edge.sync.store import outgoing, record_copies, record_lines
from edge.sync.store.exchange import (
    AntennaName,
    AssetRecord,
    Batch,
    LocationRecord,
    Origin,
    Patch,
    Peer,
    Stay,
    TrackState,
    stay_of,
)
from edge.sync.store.record_lines import BY_LINK
from edge.tracking import returned_copies
from edge.tracking.copies import StayColumns

RECORDS = 1000  # per page
MOST_OF_ASSETS = 4 * MB  # metadata and tags of a page, and original records in conflicts
MOST_OF_LOCATIONS = 8 * MB  # their tags, and original records in conflicts
MOST_NAMES = 20_000  # of readers, antennas or people
TRACKS = 2000
PASSAGES = 5000
STAYS = 20_000

PageEnd = tuple[int, int, int]  # end of a page of history: the site's track, time, seq


class CopyPage(NamedTuple):
    """One page, and the start of the next; None after the last."""

    batch: Batch
    after: Sequence[int] | None


def locations(peer: Peer) -> CopyPage:
    """Return all locations, with the names of readers, antennas and people. Raises Conflict if they are too large."""
    records: list[LocationRecord] = []
    kept = record_copies.originals_in_conflicts(peer.no, LocationRecord)
    size = sum(record_copies.sizes_in_conflicts(peer.no, LocationRecord).values())
    here = f"{_OF_SITE.format('location')} ORDER BY 1", record_lines.of_site(peer.no, peer.code)
    for record in record_lines.read(LocationRecord, BY_LINK[LocationRecord], *here):
        size += len(json.dumps(record.tags))
        if size > MOST_OF_LOCATIONS:
            raise Conflict("the locations of this site have too many tags to be fetched")
        records.append(kept.get(record.ref, record))
    readers, people = _names(peer.no, Kind.READER), _names(peer.no, Kind.PERSON)
    return CopyPage(_batch(locations=records, readers=readers, people=people, antennas=_antennas(peer.no)), None)


def assets(peer: Peer, after: int) -> CopyPage:
    """Return assets whose home is, or was, the site."""
    found = execute(_REFS, (peer.no, after, RECORDS)).fetchall()
    refs = [ref for _, ref in found[: _fitting(peer, found)]]
    kept = record_copies.originals_in_conflicts(peer.no, AssetRecord, _span(refs))
    chosen = f"{_OF_SITE.format('asset')} AND link.remote_id IN (SELECT value FROM json_each(:refs)) ORDER BY 1"
    here = chosen, {"site_no": peer.no, "refs": json.dumps(refs)}
    records = [kept.get(one.ref, one) for one in record_lines.read(AssetRecord, BY_LINK[AssetRecord], *here)]
    is_last = len(refs) == len(found) < RECORDS
    return CopyPage(_batch(assets=records), None if is_last else [refs[-1]])


def _fitting(peer: Peer, found: Sequence[tuple[int, int]]) -> int:
    """Return how many leading assets (id here, ref) fit into a page."""
    if not found:
        return 0
    ids = [local_id for local_id, _ in found]
    most = outgoing.count_fitting(peer.organization_id, ids, MOST_OF_ASSETS, "asset")
    sizes = record_copies.sizes_in_conflicts(peer.no, AssetRecord, _span([ref for _, ref in found]))
    totals = accumulate(sizes.get(ref, 0) for _, ref in found[:most])
    return max(1, sum(total <= MOST_OF_ASSETS for total in totals))


def tracks(peer: Peer, after: int) -> CopyPage:
    """Return current positions, each with its newest stay."""
    states = [TrackState(*row) for row in returned_copies.tracks_after(peer.no, after, TRACKS)]
    keys = [(state.no, state.row_at, state.row_seq) for state in states]
    origins, patches = _patches(returned_copies.stays_by_key(peer.no, keys))
    following = [states[-1].no] if len(states) == TRACKS else None
    return CopyPage(_batch(tracks=states, origins=origins, patches=patches), following)


def history(peer: Peer, after: PageEnd) -> CopyPage:
    """Return stays ordered by track, together with their tracks."""
    rows: list[StayColumns] = []
    track, at, seq = after
    for no, remote_no in returned_copies.numbers_from(peer.no, track):
        begin = (at, seq) if remote_no == track else (-(2**62), 0)
        rows += returned_copies.stays_after(peer.no, no, *begin, STAYS - len(rows))
        if len(rows) == STAYS:
            break
    origins, patches = _patches(rows)
    numbers = [patch.track for patch in patches]
    states = [TrackState(*row) for row in returned_copies.tracks_by_number(peer.no, numbers)]
    following = list(rows[-1][:3]) if len(rows) == STAYS else None
    return CopyPage(_batch(tracks=states, origins=origins, patches=patches), following)


def passages(peer: Peer, after: int) -> CopyPage:
    """Return passages with their doors, by the numbers that they had at the site."""
    sent = [SentPassage(*row) for row in execute(_PASSAGES, (peer.no, after, PASSAGES))]
    named = json.dumps(sorted({one.door for one in sent}))
    doors = [SentDoor(*row) for row in execute(_DOORS, (peer.no, named))]
    return CopyPage(_batch(doors=doors, passages=sent), [sent[-1].no] if len(sent) == PASSAGES else None)


def _span(refs: Sequence[int]) -> tuple[int, int]:
    return (refs[0], refs[-1]) if refs else (0, 0)


def _names(site_no: int, kind: Kind) -> dict[int, str]:
    rows = execute(
        "SELECT remote_id, name FROM remote_name WHERE site_no = ? AND kind = ? LIMIT ?", (site_no, kind, MOST_NAMES)
    )
    return dict(rows.fetchall())


def _antennas(site_no: int) -> list[AntennaName]:
    rows = execute(
        "SELECT remote_reader, port, name FROM remote_antenna_name WHERE site_no = ? LIMIT ?", (site_no, MOST_NAMES)
    )
    return [AntennaName(*row) for row in rows]


def _patches(rows: Sequence[StayColumns]) -> tuple[list[Origin], list[Patch]]:
    origins: dict[Origin, int] = {}
    stays: dict[int, list[Stay]] = {}
    for row in rows:
        stays.setdefault(row[0], []).append(stay_of(row, origins))
    patches = [Patch(track, own[0].observed_at, own[-1].observed_at, own) for track, own in sorted(stays.items())]
    return list(origins), patches


def _batch(**fields: Any) -> Batch:
    empty = Batch(0, 0, [], [], {}, {}, [], [], [], [])
    return empty._replace(**fields)


# A record may have several ids at a site; always use the lowest.
_REF = "ifnull((SELECT min(remote_id) FROM link WHERE local_id = {0} AND peer = ?1 AND remote_id > 0), {1})"
_OF_SITE = "FROM link JOIN {0} r ON r.id = link.local_id WHERE link.peer = :site_no AND link.remote_id > 0"
_REFS = (
    "SELECT local_id, min(remote_id) AS ref FROM link JOIN asset r ON r.id = local_id "
    "WHERE peer = ?1 AND remote_id > 0 GROUP BY local_id HAVING ref > ?2 ORDER BY ref LIMIT ?3"
)
# A passage whose number a restored site used again has a negative one; the hub alone keeps it.
_PASSAGES = (
    f"SELECT p.remote_no, d.remote_id, {_REF.format('p.asset_id', '-p.asset_id')}, p.at, p.direction, p.confidence, "
    "p.inner_reads, p.outer_reads, p.since, p.until, p.decided_at, p.revision FROM passage p "
    "JOIN door d ON d.id = p.door_id AND d.site_no = ?1 "
    "WHERE p.site_no = ?1 AND p.remote_no > ?2 ORDER BY p.remote_no LIMIT ?3"
)
_DOORS = (
    f"SELECT d.remote_id, {_REF.format('d.location_id', 'NULL')}, d.name FROM door d "
    "WHERE d.site_no = ?1 AND d.remote_id IN (SELECT value FROM json_each(?2))"
)
