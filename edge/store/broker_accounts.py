"""The readers' accounts at the broker."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from edge import clock
from edge.store.actors import Actor
from edge.store.audit import acting
from edge.store.database import execute
from edge.store.readers import get_reader, subject_of
from edge.store.tables import BrokerAccount

LONGEST_NAME = 50  # with room for a number after it


class BrokerAccountRow(NamedTuple):
    reader_id: int
    name: str
    password_hash: str
    topic: str
    status_topic: str | None = None


def set_account(actor: Actor, reader_id: int, password_hash: str, reserved: Collection[str] = ()) -> BrokerAccountRow:
    """Create a reader's account, or change its password. The name is never a reserved one. Raises NotFound."""
    with acting(actor) as act:
        reader = get_reader(actor.organization_id, reader_id)
        known = BrokerAccount.get_or_none(BrokerAccount.reader_id == reader_id)
        name = known.name if known else _free_name(reader.name, reserved)
        BrokerAccount.insert(
            reader_id=reader_id, name=name, password_hash=password_hash, created_at=clock.now()
        ).on_conflict_replace().execute()
        action = "broker_account.changed" if known else "broker_account.created"
        act.note(action, subject_of(reader), {"account": name, "password": "changed"} if known else {"account": name})
    return BrokerAccountRow(reader_id, name, password_hash, reader.topic, reader.status_topic)


def list_accounts() -> list[BrokerAccountRow]:
    """Of all organizations, since the box has one broker. Removed and disabled readers have none."""
    return [BrokerAccountRow(*row) for row in execute(_LIVE)]


_LIVE = """
    SELECT reader_id, broker_account.name, password_hash, topic, status_topic
    FROM broker_account JOIN reader ON reader.id = reader_id
    WHERE deleted_at IS NULL AND is_enabled ORDER BY broker_account.name
"""


def _free_name(reader_name: str, reserved: Collection[str]) -> str:
    """Short and easy to type on a reader's own pages; unique on the box, across organizations."""
    plain = re.sub(r"[^a-z0-9]+", "-", reader_name.lower())[:LONGEST_NAME].strip("-") or "reader"
    name, number = plain, 1
    while name in reserved or BrokerAccount.get_or_none(BrokerAccount.name == name):
        number += 1
        name = f"{plain}-{number}"
    return name
