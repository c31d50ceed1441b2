"""Counterparts of records at a service: ids, hashes of the written values, and why a record is not equal there.

The functions that write are called by `rounds` after the service has answered, or when an administrator decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from edge import clock
from edge.database.change_log import Kind
from edge.database.connection import column, execute, execute_many, find_scalar
from edge.texts import N_
from edge.upstream.content import Known, Marks
from edge.validation import json_text

FIRST_RETRY = 60 * clock.SECOND
LONGEST_RETRY = 6 * clock.HOUR
MAX_TROUBLE = 500  # characters


class TroubleKind(StrEnum):
    CHANGED = N_("changed there")  # by somebody else
    TAKEN = N_("taken there")  # its key or a tag belongs to another record
    REFUSED = N_("refused")
    WAITS = N_("waits")  # for its parent
    BLOCKED = N_("blocked")  # until another record of this box gives up a key or tag there


class Trouble(NamedTuple):
    kind: TroubleKind
    text: str


class Counterpart(NamedTuple):
    """A row of the table `upstream_record`."""

    record_id: int
    kind: Kind
    remote_id: int | None = None
    known: Known = Known()
    is_forced: bool = False
    trouble: Trouble | None = None
    trouble_at: int | None = None
    attempts: int = 0
    sending_key: str | None = None  # of a record with a creation that was not answered


_COLUMNS = (
    "record_id, kind, remote_id, base, sent, sending, is_forced, trouble_kind, trouble, trouble_at, attempts, "
    "sending_key"
)
_SELECT = f"SELECT {_COLUMNS} FROM upstream_record WHERE upstream_no = ?"


def of_records(upstream_no: int, ids: Collection[int]) -> dict[int, Counterpart]:
    """Return the rows of some records by id."""
    rows = execute(f"{_SELECT} AND record_id IN (SELECT value FROM json_each(?))", (upstream_no, _json(ids)))
    return {row[0]: _counterpart(row) for row in rows}


def owner(upstream_no: int, remote_id: int) -> int | None:
    """Return the record of this box for an id of the service."""
    return find_scalar(
        "SELECT record_id FROM upstream_record WHERE upstream_no = ? AND remote_id = ?", (upstream_no, remote_id)
    )


def holding(upstream_no: int, mark: str) -> list[Counterpart]:
    """Return the rows that may have a key or tag with this mark there. Reads all rows of the service."""
    rows = execute(f"{_SELECT} AND instr(base, ?) > 0", (upstream_no, mark))
    return [_counterpart(row) for row in rows]


def ids_after(upstream_no: int, after: int, limit: int) -> list[int]:
    """Return the next records with a counterpart, by id."""
    return column(
        "SELECT record_id FROM upstream_record WHERE upstream_no = ? AND record_id > ? ORDER BY record_id LIMIT ?",
        (upstream_no, after, limit),
    )


def due(upstream_no: int, now: int, limit: int) -> list[int]:
    """Return records with a conflict to check again. A time too far ahead was set before the clock went back."""
    return column(
        "SELECT record_id FROM upstream_record WHERE upstream_no = ? AND retry_at IS NOT NULL "
        "AND (retry_at <= ? OR retry_at > ?) ORDER BY retry_at LIMIT ?",
        (upstream_no, now, now + 2 * LONGEST_RETRY, limit),
    )


def troubles(upstream_no: int, limit: int, offset: int = 0) -> list[Counterpart]:
    """Return the records that are not equal there, the oldest first."""
    page = "AND trouble IS NOT NULL ORDER BY trouble_at, record_id LIMIT ? OFFSET ?"
    rows = execute(f"{_SELECT} {page}", (upstream_no, limit, offset))
    return [_counterpart(row) for row in rows]


def count(upstream_no: int) -> tuple[int, dict[str, int]]:
    """Return the number of records that are at the service, and the number of troubles by kind."""
    row = execute(
        "SELECT count(*) FROM upstream_record WHERE upstream_no = ? AND remote_id IS NOT NULL", (upstream_no,)
    ).fetchone()
    rows = execute(
        "SELECT trouble_kind, count(*) FROM upstream_record WHERE upstream_no = ? AND trouble IS NOT NULL GROUP BY 1",
        (upstream_no,),
    )
    return row[0], dict(rows.fetchall())


def keep(upstream_no: int, rows: Iterable[Counterpart], now: int) -> None:
    """Store rows: the values before a write, and its result afterwards. Call in a transaction.

    Rows are deleted first, because two records may have exchanged their counterparts.
    """
    rows = list(rows)
    forget(upstream_no, [row.record_id for row in rows])
    execute_many(
        f"INSERT INTO upstream_record (upstream_no, {_COLUMNS}, retry_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(upstream_no, *_values(row, now)) for row in rows],
    )


def forget(upstream_no: int, ids: Collection[int]) -> None:
    """Delete the rows of records. Call in a transaction."""
    execute(
        "DELETE FROM upstream_record WHERE upstream_no = ? AND record_id IN (SELECT value FROM json_each(?))",
        (upstream_no, _json(ids)),
    )


def retry(upstream_no: int, record_id: int | None = None) -> int:
    """Check a trouble again, or all. Call in a transaction. Returns their number."""
    return execute(
        "UPDATE upstream_record SET retry_at = 0, attempts = 0 WHERE upstream_no = ? "
        "AND record_id = ifnull(?, record_id) AND trouble IS NOT NULL",
        (upstream_no, record_id),
    ).rowcount


def retry_kind(upstream_no: int, kind: TroubleKind) -> None:
    """Check the records with a trouble of this kind now. Call in a transaction."""
    execute(
        "UPDATE upstream_record SET retry_at = 0 WHERE upstream_no = ? AND trouble_kind = ?",
        (upstream_no, kind),
    )


def force(upstream_no: int, ids: Collection[int]) -> int:
    """Let the next attempt overwrite changes of others. Call in a transaction. Returns the number of records."""
    return execute(
        "UPDATE upstream_record SET is_forced = 1, retry_at = 0, attempts = 0 WHERE upstream_no = ? "
        "AND trouble_kind = ? AND record_id IN (SELECT value FROM json_each(?))",
        (upstream_no, TroubleKind.CHANGED, _json(ids)),
    ).rowcount


def _values(row: Counterpart, now: int) -> tuple[object, ...]:
    known, trouble = row.known, row.trouble
    retry_at = now + min(FIRST_RETRY << 2 * min(row.attempts, 10), LONGEST_RETRY) if trouble else None
    return (
        *(row.record_id, row.kind, row.remote_id, *map(_text, known)),
        *(row.is_forced, trouble and trouble.kind, trouble and trouble.text[:MAX_TROUBLE]),
        *(row.trouble_at, row.attempts, row.sending_key, retry_at),
    )


def _counterpart(row: tuple[Any, ...]) -> Counterpart:
    record_id, kind, remote_id, base, sent, sending, is_forced, trouble_kind, text, trouble_at, attempts, key = row
    known = Known(*(None if text is None else json_text.decode(text) for text in (base, sent, sending)))
    trouble = None if text is None else Trouble(TroubleKind(trouble_kind), text)
    return Counterpart(record_id, Kind(kind), remote_id, known, bool(is_forced), trouble, trouble_at, attempts, key)


def _text(marks: Marks | None) -> str | None:
    return None if marks is None else json_text.text(marks)


def _json(values: Collection[int]) -> str:
    return json_text.text(sorted(values))
