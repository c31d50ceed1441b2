"""Public ids: a counter put through a keyed permutation of 1..2^53-1 (spec: Identifiers).

Unique over all types because there is one counter, never reused because it never goes back, and opaque because the
key is random for each database. No look-ups are needed, because a permutation cannot collide.
"""

from __future__ import annotations

from hashlib import blake2b

from edge.database.connection import database, execute, writing

MAX_ID = 2**53 - 1
_HALF_BITS = 27  # two halves make 54 bits, the least even width that holds 53
_MASK = 2**_HALF_BITS - 1
_ROUNDS = 6

_id_keys: dict[str, bytes] = {}


def permute(number: int, key: bytes) -> int:
    """The id of the `number`-th record, 1..2^53-1: a Feistel network, applied until the result is in the range."""
    while True:
        left, right = number >> _HALF_BITS, number & _MASK
        for turn in range(_ROUNDS):
            digest = blake2b(right.to_bytes(4) + bytes([turn]), digest_size=4, key=key).digest()
            left, right = right, left ^ (int.from_bytes(digest) & _MASK)
        number = left << _HALF_BITS | right
        if 1 <= number <= MAX_ID:
            return number


def new_id() -> int:
    return new_ids(1)[0]


def new_ids(count: int) -> list[int]:
    """Ids that were never used. A transaction that is rolled back returns those that it took."""
    with writing():
        row = execute("UPDATE instance SET id_count = id_count + ? RETURNING id_count", (count,)).fetchone()
    return [permute(number, _id_key()) for number in range(row[0] - count + 1, row[0] + 1)]


def _id_key() -> bytes:
    """The key never changes within a database, so it is read once for each file."""
    path = database.database
    if path not in _id_keys:
        _id_keys[path] = execute("SELECT id_key FROM instance").fetchone()[0]
    return _id_keys[path]
