"""Answers to creates, kept for clients that send the same request again (contract: Additions, Idempotency-Key)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from edge import clock
from edge.database.connection import execute
from edge.database.group_commit import write_in_group
from edge.errors import Conflict

LIFETIME = clock.DAY
MOST = 10_000  # answers of one caller
MOST_BYTES = 32 * 1024 * 1024  # of one caller: an asset may have 64 KiB of metadata
_ROW_BYTES = 300  # what a row takes beside its body


class Create(NamedTuple):
    """A create that may be sent again. `hash` is that of its path and body."""

    organization_id: int
    caller: str
    key: str
    hash: bytes


class Answer(NamedTuple):
    status: int
    location: str
    body: bytes


def once(create: Create, make: Callable[[], Answer]) -> tuple[Answer, bool]:
    """The answer to a create, and whether it was given before. Decided, made and kept in one transaction.

    Raises Conflict, and what `make` raises; then nothing is kept.
    """

    def decide() -> tuple[Answer, bool]:
        kept = find(create)
        if kept:
            return kept, True
        answer = make()
        keep(create, answer)
        return answer, False

    return write_in_group(decide)


def find(create: Create) -> Answer | None:
    """The answer to the same request. Raises Conflict if its key was used for another one."""
    found = execute(
        "SELECT request_hash, status, location, body FROM idempotent_answer "
        "WHERE organization_id = ? AND caller = ? AND key = ? AND created_at > ?",
        (create.organization_id, create.caller, create.key, clock.now() - LIFETIME),
    ).fetchone()
    if found is None:
        return None
    if found[0] != create.hash:
        raise Conflict("This Idempotency-Key was used for a request with another path or body; use a new key")
    return Answer(*found[1:])


def keep(create: Create, answer: Answer) -> None:
    """Within the transaction of the create. The oldest answers of the caller make room."""
    whose = (create.organization_id, create.caller)
    number, bytes_up_to = execute(_NEWEST, whose).fetchone() or (0, 0)
    number, bytes_up_to = number + 1, bytes_up_to + len(answer.body) + _ROW_BYTES
    execute(
        "INSERT OR REPLACE INTO idempotent_answer (organization_id, caller, key, number, bytes_up_to, request_hash, "
        "status, location, body, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*whose, create.key, number, bytes_up_to, create.hash, *answer, clock.now()),
    )
    execute(_MAKE_ROOM, (*whose, number - MOST, *whose, bytes_up_to - MOST_BYTES + _ROW_BYTES))


_NEWEST = """
    SELECT number, bytes_up_to FROM idempotent_answer WHERE organization_id = ? AND caller = ?
    ORDER BY number DESC LIMIT 1
"""
# Numbers and bytes both grow from row to row, so the search for the first row that stays ends at that row.
_MAKE_ROOM = """
    DELETE FROM idempotent_answer WHERE organization_id = ? AND caller = ? AND number < max(1 + ?, (
        SELECT number FROM idempotent_answer
        WHERE organization_id = ? AND caller = ? AND bytes_up_to - length(body) >= ? ORDER BY number LIMIT 1))
"""


def drop_expired(now: int, limit: int) -> int:
    """Answers that are too old to be given again; how many were dropped."""
    return execute(
        "DELETE FROM idempotent_answer WHERE no IN "
        "(SELECT no FROM idempotent_answer WHERE created_at <= ? ORDER BY created_at LIMIT ?)",
        (now - LIFETIME, limit),
    ).rowcount
