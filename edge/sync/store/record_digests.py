"""Digests that compare the records of a site with their copies at the hub: assets and locations with their tags.

They are summed up in buckets by the site's ids. Boxes of earlier releases compare no `valid_from`: `is_exact` says
whether to. For assets of the hub see `copy_digests`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from edge.database.change_log import Kind
from edge.database.connection import column, execute
from edge.sync.store.digests import Digest, Scope, hash_of, sum_up
from edge.sync.store.record_copies import ASSET_COLUMNS, LOCATION_COLUMNS, TAGS, originals_in_conflicts

BUCKETS = 64
_VALID_FROM = 6  # index in the columns of both kinds


class RecordDigest(NamedTuple):
    """The hash of one record, by the site's id."""

    ref: int
    kind: int
    hash: int


def by_bucket(scope: Scope, code: str, *, is_exact: bool) -> dict[int, Digest]:
    """Return the digests by bucket. `code` is the site's, which begins the keys of its locations at a hub."""
    return sum_up((ref % BUCKETS, value) for ref, _, value in _records(scope, code, is_exact))


def in_buckets(scope: Scope, code: str, buckets: Collection[int], *, is_exact: bool) -> list[RecordDigest]:
    """Return the hashes of all records in these buckets."""
    return [record for record in _records(scope, code, is_exact) if record.ref % BUCKETS in buckets]


def keys_of(scope: Scope, refs: Mapping[int, int]) -> dict[int, str]:
    """Return the external keys of this machine's records, by id. `refs` has their kinds."""
    keys: dict[int, str] = {}
    for kind, table in _TABLES.items():
        ids = json.dumps([ref for ref, its_kind in refs.items() if its_kind == kind])
        sql = (
            f"SELECT id, external_key FROM {table} "
            "WHERE +organization_id = ? AND id IN (SELECT value FROM json_each(?))"
        )
        keys |= dict(execute(sql, (scope.organization_id, ids)).fetchall())
    return keys


def created_after(refs: Collection[int], moment: int) -> set[int]:
    """Return those of this machine's records that were created after a time: there, they are valid from then on."""
    sql = "SELECT id FROM {0} WHERE id IN (SELECT value FROM json_each(?1)) AND created_at > ?2"
    return set(column(" UNION ALL ".join(map(sql.format, _TABLES.values())), (json.dumps(list(refs)), moment)))


_TABLES = {Kind.ASSET: "asset", Kind.LOCATION: "location"}


def _records(scope: Scope, code: str, is_exact: bool) -> Iterable[RecordDigest]:
    for kind in _TABLES:
        if scope.site_no is None:
            rows = execute(_OWN[kind], (scope.organization_id,))
            kept: Mapping[int, Sequence[Any]] = {}
        else:
            rows = execute(_OF_SITE[kind], {"site_no": scope.site_no, "key_begins": len(code) + 2})
            kept = originals_in_conflicts(scope.site_no, kind)
        for row in rows:
            columns = [*kept[row[0]][: len(row)]] if row[0] in kept else [*row[:-1], json.loads(row[-1])]
            columns[-1] = sorted(columns[-1])
            if not is_exact:
                del columns[_VALID_FROM]
            yield RecordDigest(columns[0], int(kind), hash_of(json.dumps([int(kind), *columns]).encode()))


_IS_OWN = "r.organization_id = ?1 AND NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = r.id)"
_OWN = {
    Kind.ASSET: f"SELECT r.id, {ASSET_COLUMNS}, r.created_at, r.updated_at, r.deleted_at, {TAGS.format('asset')} "
    f"FROM asset r WHERE {_IS_OWN}",
    Kind.LOCATION: f"SELECT r.id, r.parent_id, r.external_key, {LOCATION_COLUMNS}, r.created_at, "
    f"r.updated_at, r.deleted_at, {TAGS.format('location')} FROM location r WHERE {_IS_OWN}",
}
# A record may have several ids at a site; always use the lowest.
_MIRRORED = (
    "FROM link JOIN mirror m ON m.record_id = link.local_id AND m.peer = :site_no JOIN {0} r ON r.id = link.local_id "
    "WHERE link.peer = :site_no AND link.remote_id > 0 GROUP BY r.id"
)
_CREATED = "ifnull(link.created_at, r.created_at), r.updated_at, r.deleted_at"
_PARENT = "(SELECT min(remote_id) FROM link WHERE local_id = r.parent_id AND peer = :site_no AND remote_id > 0)"
_OF_SITE = {
    Kind.ASSET: f"SELECT min(link.remote_id), {ASSET_COLUMNS}, {_CREATED}, {TAGS.format('asset')} "
    + _MIRRORED.format("asset"),
    Kind.LOCATION: f"SELECT min(link.remote_id), {_PARENT}, substr(r.external_key, :key_begins), {LOCATION_COLUMNS}, "
    f"{_CREATED}, {TAGS.format('location')} " + _MIRRORED.format("location"),
}
