"""Topics of outputs, which no reader may use, and the accounts of their devices at the broker."""

from __future__ import annotations

from typing import NamedTuple

from edge.database.connection import column, execute


class DeviceAccount(NamedTuple):
    """Account of a lamp, horn or gate. It may read its commands and publish nothing."""

    name: str
    password_hash: str
    topic: str


def command_topics() -> list[str]:
    """Return the topics of the outputs of all organizations, including those of last commands."""
    return column("SELECT topic FROM output UNION SELECT topic FROM output_last_command ORDER BY 1")


def list_device_accounts() -> list[DeviceAccount]:
    """Return the accounts of all organizations, because the box has one broker."""
    rows = execute("SELECT account, password_hash, topic FROM output WHERE account IS NOT NULL ORDER BY account")
    return [DeviceAccount(*row) for row in rows]


def is_account_taken(name: str) -> bool:
    """Return True if a reader or an output has an account of this name."""
    taken = "SELECT 1 FROM output WHERE account = ?1 UNION ALL SELECT 1 FROM broker_account WHERE name = ?1"
    return execute(taken, (name,)).fetchone() is not None
