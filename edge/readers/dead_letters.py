"""Dead letters: messages that could not be parsed, stored with their bytes and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.bounds import DEFAULT, Bounds, hard_limit
from edge.database.connection import execute, execute_many
from edge.errors import NotFound


class NewDeadLetter(NamedTuple):
    organization_id: int
    reader_id: int
    topic: str
    payload: bytes
    size: int  # bytes of the whole message; `payload` may be truncated
    reason: str
    received_at: int
    is_requeued: bool = False  # it replaces a stored dead letter, so the limit does not apply


class DeadLetter(NamedTuple):
    no: int
    reader_id: int | None
    reader_name: str | None
    topic: str
    payload: bytes  # truncated in a list
    size: int
    is_whole: bool  # False: the stored payload is truncated and cannot be requeued
    reason: str
    received_at: int


def add(letters: Sequence[NewDeadLetter], bounds: Bounds = DEFAULT) -> list[NewDeadLetter]:
    """Store dead letters within the limits of each reader. Returns those that did not fit."""
    room = {reader_id: _room(reader_id, bounds) for reader_id in {letter.reader_id for letter in letters}}
    kept, others = [], []
    for letter in letters:
        rows, size = room[letter.reader_id]
        left = (rows - 1, size - len(letter.payload) - len(letter.topic))
        if min(left) < 0 and not letter.is_requeued:
            others.append(letter)
        else:
            kept.append(letter)
            room[letter.reader_id] = left
    execute_many(
        "INSERT INTO dead_letter (organization_id, reader_id, topic, payload, size, reason, received_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [letter[:7] for letter in kept],
    )
    return others


def _room(reader_id: int, bounds: Bounds) -> tuple[int, int]:
    """Return the remaining number of dead letters and bytes of a reader."""
    rows, size = execute(
        "SELECT count(*), ifnull(sum(kept_bytes), 0) FROM dead_letter WHERE reader_id = ?", (reader_id,)
    ).fetchone()
    return hard_limit(bounds.dead_letters) - rows, hard_limit(bounds.dead_letter_bytes) - size


def discard(dead_letter_ids: Iterable[int]) -> None:
    """Delete dead letters after they were requeued and processed."""
    execute_many("DELETE FROM dead_letter WHERE no = ?", [(no,) for no in dead_letter_ids])


_LETTERS = """
SELECT d.no, d.reader_id, r.name, d.topic, ifnull(substr(d.payload, 1, :bytes), x''), d.size,
       length(d.payload) = d.size, d.reason, d.received_at
FROM dead_letter d LEFT JOIN reader r ON r.id = d.reader_id
WHERE d.organization_id = :organization_id AND (:no IS NULL OR d.no = :no)
AND (:reader_id IS NULL OR d.reader_id = :reader_id) ORDER BY d.no DESC LIMIT :limit
"""
_ALL_BYTES = 2**30


def list_letters(
    organization_id: int, shown_bytes: int, limit: int = 100, reader_id: int | None = None, no: int | None = None
) -> list[DeadLetter]:
    """Return dead letters of one or all readers, newest first, with at most `shown_bytes` of the payload."""
    chosen = {"organization_id": organization_id, "no": no, "reader_id": reader_id}
    return [DeadLetter(*row) for row in execute(_LETTERS, {**chosen, "bytes": shown_bytes, "limit": limit})]


def of_reader(reader_id: int, limit: int = 1_000) -> list[DeadLetter]:
    """Return the dead letters with a complete payload, oldest first, for processing them again."""
    columns = "reader_id, NULL, topic, payload, size, 1, reason, received_at"
    rows = execute(
        f"SELECT no, {columns} FROM dead_letter WHERE reader_id = ? AND length(payload) = size ORDER BY no LIMIT ?",
        (reader_id, limit),
    )
    return [DeadLetter(*row) for row in rows]


def find(organization_id: int, no: int) -> DeadLetter:
    """Return a dead letter with its whole payload. Raises NotFound."""
    if letters := list_letters(organization_id, _ALL_BYTES, no=no):
        return letters[0]
    raise NotFound("no such dead letter")


def dismiss(actor: Actor, no: int) -> None:
    """Delete a dead letter. Raises NotFound."""
    with acting(actor) as act:
        letter = find(actor.organization_id, no)
        execute("DELETE FROM dead_letter WHERE no = ?", (no,))
        act.note("dead_letter.dismissed", _subject(letter), {"reason": letter.reason})


def requeue(actor: Actor, no: int) -> DeadLetter:
    """Return a dead letter to pass to ingest, which deletes it after processing. Raises NotFound."""
    with acting(actor) as act:
        letter = find(actor.organization_id, no)
        act.note("dead_letter.requeued", _subject(letter), {"reason": letter.reason})
    return letter


def _subject(letter: DeadLetter) -> Subject:
    return Subject("dead_letter", letter.no, letter.topic)
