"""Broker accounts of readers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute, execute_many, writing
from edge.readers import output_topics
from edge.readers.readers import get_reader, subject_of

LONGEST_NAME = 50  # characters, without the number that may be appended
SESSIONS = 16  # maximum number of edge's own sessions, see `edge.ingest.sessions`


class BrokerAccountRow(NamedTuple):
    reader_id: int
    name: str
    password_hash: str
    topic: str
    status_topic: str | None = None
    session: int = 0  # edge's session that receives the messages of this reader
    is_settled: bool = False  # session 0 no longer receives them

    @property
    def topics(self) -> list[str]:
        return [topic for topic in (self.topic, self.status_topic) if topic]


def session_name(own: str, number: int) -> str:
    """Return the account name of a session. `own`: edge's account, which is session 0."""
    return f"{own}-session-{number}" if number else own


def names_of_sessions(own: str) -> list[str]:
    """Return the account names of all possible sessions."""
    return [session_name(own, number) for number in range(SESSIONS)]


def is_assignment_due(ready: Collection[int]) -> bool:
    """Return True if `assign_sessions` would change anything."""
    return any(_changes(list_accounts(), ready))


def assign_sessions(ready: Collection[int]) -> bool:
    """Assign each reader its own session, or the least used one. Returns True if anything changed.

    `ready`: connected sessions. Call only when session 0 is drained: assignments of an earlier call are then settled,
    because all older messages have arrived.
    """
    settled, assigned = _changes(list_accounts(), ready)
    if not settled and not assigned:
        return False
    with writing():
        execute_many("UPDATE broker_account SET is_settled = 1 WHERE reader_id = ?", settled)
        execute_many("UPDATE broker_account SET session = ?, is_settled = 0 WHERE reader_id = ?", assigned)
    return True


def _changes(rows: list[BrokerAccountRow], ready: Collection[int]) -> tuple[list[tuple[int]], list[tuple[int, int]]]:
    """Return the readers to settle, and the new sessions with their readers."""
    settled = [(row.reader_id,) for row in rows if row.session in ready and not row.is_settled]
    used = Counter(row.session for row in rows)
    assigned = []
    for row in rows:
        if row.session == 0 and ready and not _shares_own_topics(row):
            number = min(ready, key=lambda session: (used[session], session))
            used[number] += 1
            assigned.append((number, row.reader_id))
    return settled, assigned


def _shares_own_topics(row: BrokerAccountRow) -> bool:
    """Return True if the reader's topics may overlap edge's own topics, which session 0 must be able to read."""
    return any(topic.partition("/")[0] in {"#", "+", "edge"} for topic in row.topics)


def set_account(actor: Actor, reader_id: int, password_hash: str, reserved: Collection[str] = ()) -> BrokerAccountRow:
    """Create a reader's account, or change its password. A new name is never in `reserved`. Raises NotFound."""
    with acting(actor) as act:
        reader = get_reader(actor.organization_id, reader_id)
        known = execute("SELECT name FROM broker_account WHERE reader_id = ?", (reader_id,)).fetchone()
        name = known[0] if known else _free_name(reader.name, reserved)
        execute(
            "INSERT INTO broker_account (reader_id, name, password_hash, created_at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (reader_id) DO UPDATE SET password_hash = excluded.password_hash",
            (reader_id, name, password_hash, clock.now()),
        )
        action = "broker_account.changed" if known else "broker_account.created"
        act.note(action, subject_of(reader), {"account": name, "password": "changed"} if known else {"account": name})
    return BrokerAccountRow(reader_id, name, password_hash, reader.topic, reader.status_topic)


def list_accounts() -> list[BrokerAccountRow]:
    """Return the accounts of all organizations, because the box has one broker. Excludes disabled readers."""
    return [BrokerAccountRow(*row) for row in execute(_LIVE)]


def count_settled() -> int:
    """Return the number of readers that session 0 no longer receives."""
    return sum(1 for row in list_accounts() if row.is_settled)


def end_sessions() -> None:
    """Give all readers back to session 0, which must be able to read their topics."""
    with writing():
        execute("UPDATE broker_account SET session = 0, is_settled = 0")


_LIVE = """
    SELECT reader_id, broker_account.name, password_hash, topic, status_topic, session, is_settled
    FROM broker_account JOIN reader ON reader.id = reader_id
    WHERE deleted_at IS NULL AND is_enabled ORDER BY broker_account.name
"""


def _free_name(reader_name: str, reserved: Collection[str]) -> str:
    """Return a short name that is easy to type on a reader, unique across organizations."""
    plain = re.sub(r"[^a-z0-9]+", "-", reader_name.lower())[:LONGEST_NAME].strip("-") or "reader"
    name, number = plain, 1
    while name in reserved or output_topics.is_account_taken(name):
        number += 1
        name = f"{plain}-{number}"
    return name
