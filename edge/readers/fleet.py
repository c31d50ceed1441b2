"""Many readers at once: set up from a table with their accounts, and all passwords made anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.database.connection import all_or_none
from edge.errors import Conflict, Invalid, NotFound
from edge.readers import broker_accounts, readers
from edge.readers.broker_files import give_account
from edge.readers.readers import ReaderRow


class Described(NamedTuple):
    """A reader as a line of a table describes it."""

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


def add_readers(actor: Actor, described: Sequence[Described], broker: str) -> list[Credentials]:
    """All of them with their accounts, or none. Raises Invalid with the line of the first that cannot be added."""
    return all_or_none(partial(_add_reader, actor, one, broker) for one in described)


def renew_passwords(actor: Actor, broker: str) -> list[Credentials]:
    """Of every reader of the organization that has an account; the ones before are worth nothing afterwards."""
    rows = {row.id: row for row in readers.list_readers(actor.organization_id)}
    wanted = [rows[account.reader_id] for account in broker_accounts.list_accounts() if account.reader_id in rows]
    return all_or_none(partial(_new_password, actor, row, broker) for row in wanted)


def _add_reader(actor: Actor, one: Described, broker: str) -> Credentials:
    try:
        row = readers.add_reader(
            actor,
            name=one.name,
            topic=one.topic,
            format=one.format,
            location_id=one.location_id,
            min_rssi=one.min_rssi,
        )
    except (Invalid, Conflict, NotFound) as error:
        raise Invalid.one("file", "invalid_value", f"Line {one.line}: {error}. Nothing was added") from error
    return _new_password(actor, row, broker)


def _new_password(actor: Actor, row: ReaderRow, broker: str) -> Credentials:
    account, password = give_account(actor, row.id, broker)
    return Credentials(row.name, row.topic, account.name, password)
