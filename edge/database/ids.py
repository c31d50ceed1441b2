"""Public ids: a counter passed through a keyed permutation of 1..2^53-1 (interface: Identifiers).

One counter makes them unique over all types; it never goes back, so ids are never reused. A random key per database
makes them opaque. A permutation cannot collide, so no lookup is needed.

Decision record: web/manual/decisions/permuted-ids.md
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from edge.database.connection import database, execute, writing

MAX_ID = 2**53 - 1
_HALF_BITS = 27  # two halves make 54 bits, the smallest even width above 53
_MASK = 2**_HALF_BITS - 1
_ROUNDS = 6

# Runs a statement: on this database or, with the method of a connection, on the file of a copy.
Execute = Callable[..., Any]

_id_keys: dict[str, bytes] = {}


def permute(number: int, key: bytes) -> int:
    """Return the id of the `number`-th record, 1..2^53-1: a Feistel network, repeated until the result is in range."""
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
    """Return `count` unused ids. A rollback frees them again."""
    with writing():
        row = execute("UPDATE instance SET id_count = id_count + ? RETURNING id_count", (count,)).fetchone()
    return [permute(number, _id_key()) for number in range(row[0] - count + 1, row[0] + 1)]


def skip_numbers(table: str, count: int, run: Execute = execute) -> None:
    """Skip the next numbers of a table that numbers its rows by AUTOINCREMENT."""
    run(
        "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0 "
        "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)",  # it never had a row
        (table,),
    )
    run("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ?", (count, table))


def _id_key() -> bytes:
    """Return the key of the open database; it never changes, so it is cached per file."""
    path = database.database
    if path not in _id_keys:
        _id_keys[path] = execute("SELECT id_key FROM instance").fetchone()[0]
    return _id_keys[path]
