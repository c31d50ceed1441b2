"""Stored responses of create requests with an idempotency key (interface: Additions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute
from edge.database.group_commit import write_in_group
from edge.errors import Conflict

LIFETIME = clock.DAY
MAX_ANSWERS = 10_000  # per caller
MAX_BYTES = 32 * 1024 * 1024  # per caller
_ROW_BYTES = 300  # overhead of a row in addition to its body


class Create(NamedTuple):
    """A create request with an idempotency key. `hash` covers its path and body."""

    organization_id: int
    caller: str
    key: str
    hash: bytes


class Answer(NamedTuple):
    """The stored response of a create: HTTP status, Location and body."""

    status: int
    location: str
    body: bytes


def once(create: Create, make: Callable[[], Answer]) -> tuple[Answer, bool]:
    """Return the answer to a create, and True if it was already stored. Lookup, `make` and storage are one transaction.

    Raises Conflict if the key was used for a different request. Errors of `make` propagate and nothing is stored.
    """

    def decide() -> tuple[Answer, bool]:
        stored = find(create)
        if stored:
            return stored, True
        answer = make()
        store(create, answer)
        return answer, False

    return write_in_group(decide)


def find(create: Create) -> Answer | None:
    """Return the stored answer, or None. Raises Conflict if the key was used for a different request."""
    row = execute(
        "SELECT request_hash, status, location, body FROM idempotent_answer "
        "WHERE organization_id = ? AND caller = ? AND key = ? AND created_at > ?",
        (create.organization_id, create.caller, create.key, clock.now() - LIFETIME),
    ).fetchone()
    if row is None:
        return None
    if row[0] != create.hash:
        raise Conflict("This Idempotency-Key was used for a request with another path or body; use a new key")
    return Answer(*row[1:])


def store(create: Create, answer: Answer) -> None:
    """Store an answer in the transaction of the create, and delete the caller's oldest answers above the limits."""
    caller = (create.organization_id, create.caller)
    number, bytes_up_to = execute(_NEWEST, caller).fetchone() or (0, 0)
    number, bytes_up_to = number + 1, bytes_up_to + len(answer.body) + _ROW_BYTES
    execute(
        "INSERT OR REPLACE INTO idempotent_answer (organization_id, caller, key, number, bytes_up_to, request_hash, "
        "status, location, body, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*caller, create.key, number, bytes_up_to, create.hash, *answer, clock.now()),
    )
    execute(_MAKE_ROOM, (*caller, number - MAX_ANSWERS, *caller, bytes_up_to - MAX_BYTES + _ROW_BYTES))


_NEWEST = """
    SELECT number, bytes_up_to FROM idempotent_answer WHERE organization_id = ? AND caller = ?
    ORDER BY number DESC LIMIT 1
"""
# `number` and `bytes_up_to` ascend, so the scan stops at the first row that is kept.
_MAKE_ROOM = """
    DELETE FROM idempotent_answer WHERE organization_id = ? AND caller = ? AND number < max(1 + ?, (
        SELECT number FROM idempotent_answer
        WHERE organization_id = ? AND caller = ? AND bytes_up_to - length(body) >= ? ORDER BY number LIMIT 1))
"""
