"""The copy of the assets that handhelds use offline: names, codes and last locations.

Assets are divided into buckets by id. A device sends the digests of its buckets and receives the buckets that differ,
so no change log is needed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from edge.database.connection import execute, reading
from edge.memory_budget import MB
from edge.tracking.shown_positions import SHOWN
from edge.validation import json_text

BUCKETS = 1024
MAX_ASSETS = 20_000  # the most recently seen ones; more would load slowly on a handheld
MAX_CODES = 100_000  # of these assets: each can have 500 tags, and a code takes up to 400 bytes of memory
TOGETHER = 100  # assets whose codes are read at once
MEMORY = 24 * MB  # for one copy; a few with the longest codes take twice as much
DIGEST_LENGTH = 8
EMPTY = "-" * DIGEST_LENGTH
LETTERS = {"rfid": "r", "ble": "b", "barcode": "c"}  # for the kinds of codes, as in matching.js
LETTER_OF_GS1 = "g"

# Last-seen times are rounded down to 10 minutes, so reads of a stationary asset do not change its bucket each time.
_ASSETS = f"""
SELECT a.id, a.external_key, a.name, p.location_id, p.dwell_started_at / 1000000,
       p.last_seen_at / 600000000 * 600, load.carrier_id
FROM asset a LEFT JOIN {SHOWN} p ON p.asset_id = a.id
LEFT JOIN carrier_load load ON load.asset_id = p.asset_id AND load.unloaded_at IS NULL
WHERE a.organization_id = ? AND a.deleted_at IS NULL
ORDER BY p.last_seen_at DESC, a.id LIMIT {MAX_ASSETS}
"""
_CODES = """
SELECT asset_id, value, tag_type, gs1_key FROM tag
WHERE asset_id IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL
"""


class Bucket(NamedTuple):
    """A bucket of assets.

    Each row has id, key, name, location id, start of the stay and last seen (both in seconds since the epoch), the
    tag values with their GS1 identities, a letter for the kind of each of these codes, and its carrier, if it has one.
    """

    digest: str
    rows: list[list[Any]]


def buckets(organization_id: int) -> list[Bucket]:
    """Return all buckets in the order of their numbers."""
    rows_by_bucket: list[list[list[Any]]] = [[] for _ in range(BUCKETS)]
    with reading():
        for row in _rows_with_codes(organization_id):
            rows_by_bucket[row[0] % BUCKETS].append(row)
    for rows in rows_by_bucket:
        rows.sort()
    return [Bucket(_digest(rows), rows) for rows in rows_by_bucket]


def _rows_with_codes(organization_id: int) -> Iterator[list[Any]]:
    """Yield the rows, the most recently seen assets first, as long as their codes fit."""
    found, room = execute(_ASSETS, (organization_id,)).fetchall(), MAX_CODES
    for start in range(0, len(found), TOGETHER):
        some = found[start : start + TOGETHER]
        codes: dict[int, set[tuple[str, str]]] = {row[0]: set() for row in some}
        for asset_id, value, tag_type, identity in execute(_CODES, (json_text.text(list(codes)),)):
            codes[asset_id].add((value, LETTERS[tag_type]))
            if identity:
                codes[asset_id].add((identity, LETTER_OF_GS1))
        for *row, carrier_id in some:
            room -= len(codes[row[0]])
            if room < 0:
                return
            own = sorted(codes[row[0]])
            yield [*row, [code for code, _ in own], "".join(letter for _, letter in own), *filter(None, [carrier_id])]


def changed_buckets(organization_id: int, digests: str) -> list[tuple[int, Bucket]]:
    """Return the buckets that differ on a device, with their numbers.

    `digests` are the concatenated digests of the device's buckets, or empty on the first request.
    """
    known = [digests[at : at + DIGEST_LENGTH] for at in range(0, BUCKETS * DIGEST_LENGTH, DIGEST_LENGTH)]
    return [
        (no, bucket)
        for no, (bucket, digest) in enumerate(zip(buckets(organization_id), known, strict=True))
        if bucket.digest != (digest or EMPTY)
    ]


def _digest(rows: list[list[Any]]) -> str:
    if not rows:
        return EMPTY
    return b64encode(blake2b(json_text.encode(rows), digest_size=6).digest()).decode()
