"""Assembles a site's batches: for every change, the current state of the changed row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from edge.database.change_log import Change, Kind
from edge.database.connection import column, execute
from edge.doors import passage_copies
from edge.sync.store import record_lines
from edge.sync.store.exchange import (
    AntennaName,
    AssetRecord,
    Batch,
    LocationRecord,
    Needs,
    Origin,
    Patch,
    Record,
    Stay,
    TrackState,
    stay_of,
)
from edge.sync.store.record_lines import Naming
from edge.tracking import copies
from edge.tracking.antenna_names import FIRST_PORT

TAG_BYTES = 200  # that a tag takes in an answer, besides its value


class Contents:
    """A batch under construction, within one database snapshot. Writes nothing."""

    def __init__(self, organization_id: int, horizon: int) -> None:
        self.rest: list[tuple[int, int, int]] = []  # ranges that did not fit: track, since, until
        self._organization_id = organization_id
        self._horizon = horizon
        self._chosen: dict[int, set[int]] = {kind: set() for kind in Kind}  # ids by kind of change
        self._tracks: set[int] = set()
        self._needed: set[int] = set()  # refs of requested mirrors
        self._asked: set[int] = set()  # tracks requested by the hub
        self._seen: set[int] = set()  # tracks with a new last-seen time only
        self._instants: set[tuple[int, int]] = set()
        self._origins: dict[Origin, int] = {}
        self._ranges: list[Patch] = []
        self._rows = 0

    def add(self, change: Change, max_rows: int) -> None:
        """Include a change. A range that does not fit is included in part; see `rest`."""
        kind, key = change.kind, change.a
        if kind == Kind.STAY and change.b is not None:
            self._instants.add((key, change.b))
            self._tracks.add(key)
        elif kind == Kind.RANGE and change.b is not None and change.c is not None:
            self._add_range(key, change.b, change.c, max_rows)
        elif kind in self._chosen:  # otherwise the hub has refused it
            self._chosen[kind].add(key)

    def need(self, needs: Needs) -> None:
        """Include records that the hub did not know; also mirrors, which a restored hub may have lost."""
        self._chosen[Kind.ASSET].update(local_ids(needs.assets))
        self._chosen[Kind.LOCATION].update(local_ids(needs.locations))
        self._needed.update((*needs.assets, *needs.locations))
        self._asked.update(needs.tracks)

    def add_tracks(self, numbers: Iterable[int]) -> None:
        self._tracks.update(numbers)

    def add_seen(self, numbers: Iterable[int]) -> None:
        """Include last-seen times; tracks that also changed are included completely."""
        self._seen.update(numbers)

    def batch(self, until_seq: int) -> Batch:
        """Read the current state of all included rows and return it as a batch."""
        patches = sorted([*self._instant_patches(), *self._ranges])
        self._chosen[Kind.READER].update(one.reader for one in self._origins if one.reader is not None)
        self._chosen[Kind.PERSON].update(one.person for one in self._origins if one.person is not None)
        maybe_gone = self._chosen[Kind.TRACK] | self._asked | {patch.track for patch in self._ranges}
        states = copies.tracks_to_send(self._organization_id, self._tracks | self._asked, self._asked)
        tracks = [TrackState(*state) for state in states]
        known = {track.no for track in tracks}
        passages = passage_copies.passages_to_send(self._organization_id, self._chosen[Kind.PASSAGE])
        named = [track.asset for track in tracks if track.asset is not None] + [one.asset for one in passages]
        return Batch(
            until_seq,
            self._horizon,
            self._records(AssetRecord, self._chosen[Kind.ASSET]),
            self._records(LocationRecord, self._chosen[Kind.LOCATION]),
            _names("reader", self._organization_id, self._chosen[Kind.READER]),
            _names("person", self._organization_id, self._chosen[Kind.PERSON]),
            tracks,
            sorted(no for no in maybe_gone - known if not copies.is_track(no)),
            list(self._origins),
            [patch for patch in patches if patch.track in known],
            antennas=_antennas(self._origins),
            seen=copies.last_seen(self._organization_id, self._seen - self._tracks - self._asked),
            created_at_by_ref=_created_at(named),
            doors=passage_copies.doors_to_send(self._organization_id, {one.door for one in passages}),
            passages=passages,
        )

    def _records(self, kind: type[Record], ids: Collection[int]) -> list[Any]:
        values = json.dumps(list(ids)), self._organization_id, json.dumps(list(self._needed))
        return list(record_lines.read(kind, _AT_SITE, _OWN_OR_NEEDED.format(record_lines.table_of(kind)), values))

    def _add_range(self, track: int, since: int, until: int, max_rows: int) -> None:
        room = max(max_rows - self._rows, 1)
        owner = self._organization_id
        rows = copies.stays_in_range(owner, track, since, until, room + 1)
        if len(rows) > room:
            last = rows[-1][1]
            if rows[0][1] == last:  # more rows of one instant than fit are sent together
                rows, last = copies.stays_in_range(owner, track, last, last), last + 1
            rows = [row for row in rows if row[1] < last]
            self.rest.append((track, last, until))
            until = last - 1
        self._tracks.add(track)
        self._rows += len(rows)
        if since <= until:
            self._ranges.append(Patch(track, since, until, [stay_of(row, self._origins) for row in rows]))

    def _instant_patches(self) -> Iterable[Patch]:
        stays_by_instant: dict[tuple[int, int], list[Stay]] = {}
        for row in copies.stays_at(self._organization_id, self._instants):
            stays_by_instant.setdefault((row[0], row[1]), []).append(stay_of(row, self._origins))
        for track, at in self._instants:
            stays = stays_by_instant.get((track, at), [])
            if stays or at >= self._horizon:  # retention may have dropped earlier rows
                yield Patch(track, at, at, stays)


_REF = "ifnull((SELECT -link.remote_id FROM link WHERE link.local_id = {0} AND link.peer = 0), {0})"


def _created_at(refs: Iterable[int]) -> dict[int, int]:
    """Return creation times by ref, since a restored hub may use an id for another record."""
    named = list(refs)
    rows = execute(
        "SELECT value, iif(value > 0, (SELECT created_at FROM asset WHERE id = value), "
        "(SELECT created_at FROM link WHERE peer = 0 AND remote_id = -value)) FROM json_each(?)",
        (json.dumps(named),),
    )
    return {ref: at for ref, at in rows if at is not None}


class DueTracks(NamedTuple):
    """Tracks with a last-seen time that the hub does not have."""

    changed: Sequence[int] = ()  # unknown to the hub, or possibly older here after a restore
    seen: Sequence[int] = ()  # known to the hub; other changes are in the feed
    is_all: bool = False


def due_tracks(organization_id: int, limit: int, max_new: int) -> DueTracks:
    """Return the tracks reported longest ago first; at most `max_new` new ones, since each may need its asset."""
    rows = copies.unreported(organization_id, limit, with_new=max_new > 0)
    new = [no for no, is_new, _ in rows if is_new]
    unsure = [no for no, is_new, is_unsure in rows if is_unsure and not is_new]
    seen = [no for no, is_new, is_unsure in rows if not is_new and not is_unsure]
    return DueTracks([*new[:max_new], *unsure], seen, len(rows) < limit and len(new) <= max_new)


_HOME = "ifnull((SELECT home FROM mirror WHERE record_id = r.id), '')"
_AT_HUB, _AT_SITE = Naming(home=_HOME), Naming(_REF.format("r.id"), _REF.format("r.parent_id"), home=_HOME)
_OWN_OR_NEEDED = (
    "FROM {0} r WHERE r.id IN (SELECT value FROM json_each(?)) AND +r.organization_id = ? AND NOT EXISTS "
    "(SELECT 1 FROM mirror WHERE mirror.record_id = r.id AND (SELECT -remote_id FROM link "
    "WHERE local_id = r.id AND peer = 0) NOT IN (SELECT value FROM json_each(?))) ORDER BY r.id"
)


class ForSite(NamedTuple):
    """Assets whose home is not the site, and the ids by which the site knows them."""

    assets: Sequence[AssetRecord]
    yours: Sequence[tuple[int, int]]  # id here and at the site; negative if the site knows it as the hub's


def assets_for_site(organization_id: int, site_no: int, ids: Iterable[int]) -> ForSite:
    """Return assets for a site, without those that are in conflict. For hubs."""
    ids_json = json.dumps(list(ids))
    records = list(record_lines.read(AssetRecord, _AT_HUB, _FOR_SITE, (ids_json, organization_id, site_no)))
    yours = execute(
        "SELECT local_id, remote_id FROM link WHERE peer = ? AND remote_id <> -local_id "
        "AND local_id IN (SELECT value FROM json_each(?)) ORDER BY local_id, remote_id",
        (site_no, json.dumps([record.ref for record in records])),
    )
    return ForSite(records, yours.fetchall())


def own_assets(site_no: int, ids: Iterable[int]) -> list[tuple[int, int]]:
    """Return id here and at the site of those assets whose home is the site. For hubs."""
    return execute(
        "SELECT local_id, min(remote_id) FROM link JOIN mirror ON record_id = local_id AND mirror.peer = link.peer "
        "WHERE link.peer = ? AND remote_id > 0 AND local_id IN (SELECT value FROM json_each(?)) GROUP BY local_id",
        (site_no, json.dumps(list(ids))),
    ).fetchall()


def unknown_assets(organization_id: int, ids: Iterable[int]) -> list[int]:
    """Return those of the ids that no asset of the organization has, or had. For hubs."""
    return column(
        "SELECT value FROM json_each(?) WHERE NOT EXISTS "
        "(SELECT 1 FROM asset WHERE asset.id = value AND organization_id = ?)",
        (json.dumps(list(ids)), organization_id),
    )


def count_fitting(organization_id: int, ids: Sequence[int], size: int, table: str) -> int:
    """Return how many leading records have at most `size` bytes of metadata and tags in total; at least one.

    `table`: asset or location.
    """
    metadata = "ifnull(length(CAST(r.metadata AS BLOB)), 0)" if table == "asset" else "0"
    rows = execute(  # in the order of the ids, since the array is the outer loop; only as many as fit are looked up
        f"SELECT {metadata} + (SELECT ifnull(sum({TAG_BYTES} + length(CAST(value AS BLOB))), 0) FROM tag "
        f"WHERE tag.{table}_id = r.id AND tag.deleted_at IS NULL) FROM json_each(?) listed "
        f"LEFT JOIN {table} r ON r.id = listed.value AND r.organization_id = ?",
        (json.dumps(ids), organization_id),
    )
    fitting = total = 0
    for (length,) in rows:
        total += length
        if total > size:
            break
        fitting += 1
    return max(1, fitting)


def asset_ids_after(organization_id: int, after_id: int, limit: int) -> list[int]:
    """Return one page of the live assets of an organization."""
    return column(
        "SELECT id FROM asset WHERE +organization_id = ? AND id > ? AND deleted_at IS NULL ORDER BY id LIMIT ?",
        (organization_id, after_id, limit),
    )


_FOR_SITE = (
    "FROM asset r WHERE r.id IN (SELECT value FROM json_each(?)) AND +r.organization_id = ? "
    "AND NOT EXISTS (SELECT 1 FROM mirror WHERE mirror.record_id = r.id AND mirror.peer = ?) "
    "AND NOT EXISTS (SELECT 1 FROM conflict JOIN link USING (peer, remote_id) WHERE link.local_id = r.id) ORDER BY r.id"
)


def _names(table: str, organization_id: int, ids: set[int]) -> dict[int, str]:
    rows = execute(
        f"SELECT id, name FROM {table} WHERE +organization_id = ? AND id IN (SELECT value FROM json_each(?))",
        (organization_id, json.dumps(list(ids))),
    )
    return dict(rows.fetchall())


def _antennas(origins: Iterable[Origin]) -> list[AntennaName]:
    """Return the names of the antennas in these origins."""
    named = [[origin.reader, origin.port] for origin in origins if (origin.port or 0) >= FIRST_PORT]
    rows = execute(
        "SELECT DISTINCT reader_id, port, name FROM json_each(?) k "
        "JOIN antenna_name ON reader_id = k.value ->> 0 AND port = k.value ->> 1 ORDER BY reader_id, port",
        (json.dumps(named),),
    )
    return [AntennaName(*row) for row in rows]


def local_ids(refs: Sequence[int]) -> list[int]:
    """Return the local ids of these refs."""
    own = [ref for ref in refs if ref > 0]
    mirrored = json.dumps([-ref for ref in refs if ref < 0])
    rows = execute(
        "SELECT local_id FROM link WHERE peer = 0 AND remote_id IN (SELECT value FROM json_each(?))", (mirrored,)
    )
    return [*own, *(row[0] for row in rows)]
