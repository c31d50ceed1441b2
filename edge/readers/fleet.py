"""Bulk operations on readers: set them up from a table, with accounts for new ones, and renew all passwords."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.database.connection import all_or_none
from edge.errors import Conflict, Invalid, NotFound
from edge.readers import broker_accounts, reader_import, readers
from edge.readers.broker_files import issue_account
from edge.readers.reader_import import State
from edge.readers.reader_table import load
from edge.readers.readers import ReaderRow
from edge.records.csv_import import NewRecord, Outcome
from edge.validation.packed_texts import unpack


class Credentials(NamedTuple):
    reader: str
    topic: str
    user: str
    password: str


class Imported(NamedTuple):
    """What an import did. `made`: new readers. `changed`: number of rows that changed a reader or an antenna."""

    made: Sequence[Credentials]
    changed: int


def import_readers(actor: Actor, records: Sequence[NewRecord], broker: str) -> Imported:
    """Add or change all readers of a table in one transaction. New ones get accounts.

    Raises Invalid with the first line that fails.
    """
    state = load(actor.organization_id)
    done = all_or_none(partial(_import_reader, actor, record, state, broker) for record in records)
    made = [credentials for _, credentials in done if credentials]
    return Imported(made, sum(outcome.result == "changed" for outcome, _ in done))


def renew_passwords(actor: Actor, broker: str) -> list[Credentials]:
    """Replace the passwords of all reader accounts of the organization. Returns the new credentials."""
    rows = {row.id: row for row in readers.list_readers(actor.organization_id)}
    own = [rows[account.reader_id] for account in broker_accounts.list_accounts() if account.reader_id in rows]
    return all_or_none(partial(_new_password, actor, row, broker) for row in own)


def _import_reader(actor: Actor, record: NewRecord, state: State, broker: str) -> tuple[Outcome, Credentials | None]:
    try:
        [outcome] = reader_import.write_readers(actor, [record], state)
    except (Invalid, Conflict, NotFound) as error:
        raise _failed(record.line, str(error)) from error
    if outcome.result == "faulty":
        raise _failed(record.line, unpack(outcome.reason))
    if outcome.result != "created":
        return outcome, None
    reader = state[outcome.external_key]
    return outcome, _new_password(actor, readers.get_reader(actor.organization_id, reader.id), broker)


def _failed(line: int, reason: str) -> Invalid:
    return Invalid.one("file", "invalid_value", f"Line {line}: {reason}. Nothing was changed")


def _new_password(actor: Actor, row: ReaderRow, broker: str) -> Credentials:
    account, password = issue_account(actor, row.id, broker)
    return Credentials(row.name, row.topic, account.name, password)
