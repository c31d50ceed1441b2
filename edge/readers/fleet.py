"""Bulk operations on readers: add them with accounts from a table, and renew all passwords."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.database.connection import all_or_none
from edge.errors import Conflict, Invalid, NotFound
from edge.readers import broker_accounts, readers
from edge.readers.broker_files import issue_account
from edge.readers.readers import ReaderRow


class ReaderLine(NamedTuple):
    """A reader in a line of a table."""

    line: int
    name: str
    topic: str
    format: str
    location_id: int | None
    min_rssi: float | None


class Credentials(NamedTuple):
    reader: str
    topic: str
    user: str
    password: str


def add_readers(actor: Actor, lines: Sequence[ReaderLine], broker: str) -> list[Credentials]:
    """Add all readers with their accounts in one transaction. Raises Invalid with the first line that fails."""
    return all_or_none(partial(_add_reader, actor, line, broker) for line in lines)


def renew_passwords(actor: Actor, broker: str) -> list[Credentials]:
    """Replace the passwords of all reader accounts of the organization. Returns the new credentials."""
    rows = {row.id: row for row in readers.list_readers(actor.organization_id)}
    own = [rows[account.reader_id] for account in broker_accounts.list_accounts() if account.reader_id in rows]
    return all_or_none(partial(_new_password, actor, row, broker) for row in own)


def _add_reader(actor: Actor, line: ReaderLine, broker: str) -> Credentials:
    try:
        row = readers.add_reader(
            actor,
            name=line.name,
            topic=line.topic,
            format=line.format,
            location_id=line.location_id,
            min_rssi=line.min_rssi,
        )
    except (Invalid, Conflict, NotFound) as error:
        raise Invalid.one("file", "invalid_value", f"Line {line.line}: {error}. Nothing was added") from error
    return _new_password(actor, row, broker)


def _new_password(actor: Actor, row: ReaderRow, broker: str) -> Credentials:
    account, password = issue_account(actor, row.id, broker)
    return Credentials(row.name, row.topic, account.name, password)
