"""What a handheld keeps of the site for times without a connection: assets, their codes, and where they were last.

The assets are divided into buckets by id. A device sends the digests of its buckets and gets those that differ, so
every change is found without a log of changes.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from edge.database.connection import execute, reading

BUCKETS = 1024
MAX_ASSETS = 20_000  # of those seen last; more would be slow to load on a handheld
DIGEST_LENGTH = 8
EMPTY = "-" * DIGEST_LENGTH

# Last seen in steps of ten minutes: an asset that stands under a reader must not change its bucket with every read.
_ASSETS = f"""
SELECT a.id, a.external_key, a.name, p.location_id, p.dwell_started_at / 1000000,
       p.last_seen_at / 600000000 * 600,
       (SELECT json_group_array(code) FROM (
            SELECT value AS code FROM tag WHERE asset_id = a.id AND deleted_at IS NULL
            UNION SELECT gs1_key FROM tag WHERE asset_id = a.id AND deleted_at IS NULL AND gs1_key IS NOT NULL))
FROM asset a LEFT JOIN position p ON p.asset_id = a.id
WHERE a.organization_id = ? AND a.deleted_at IS NULL
ORDER BY p.last_seen_at DESC, a.id LIMIT {MAX_ASSETS}
"""


class Bucket(NamedTuple):
    """`rows`: id, key, name, location id, there since, last seen (seconds since 1970), codes of the tags and
    what they mean by GS1's standards."""

    digest: str
    rows: list[list[Any]]


def buckets(organization_id: int) -> list[Bucket]:
    """All of them, in the order of their numbers."""
    dealt: list[list[list[Any]]] = [[] for _ in range(BUCKETS)]
    with reading():
        for *row, codes in execute(_ASSETS, (organization_id,)):
            dealt[row[0] % BUCKETS].append([*row, sorted(orjson.loads(codes))])
    for rows in dealt:
        rows.sort()
    return [Bucket(_digest(rows), rows) for rows in dealt]


def differing(organization_id: int, digests: str) -> list[tuple[int, Bucket]]:
    """The buckets that a device has otherwise; `digests` are the device's, concatenated, or empty at first."""
    known = [digests[at : at + DIGEST_LENGTH] for at in range(0, BUCKETS * DIGEST_LENGTH, DIGEST_LENGTH)]
    return [
        (no, bucket)
        for no, (bucket, digest) in enumerate(zip(buckets(organization_id), known, strict=True))
        if bucket.digest != (digest or EMPTY)
    ]


def _digest(rows: list[list[Any]]) -> str:
    if not rows:
        return EMPTY
    return b64encode(blake2b(orjson.dumps(rows), digest_size=6).digest()).decode()
