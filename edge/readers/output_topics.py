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
    topics = "SELECT settings ->> 'topic' FROM destination WHERE family = 'output'"
    return column(f"{topics} UNION SELECT topic FROM output_last_command ORDER BY 1")


def list_device_accounts() -> list[DeviceAccount]:
    """Return the accounts of all organizations, because the box has one broker."""
    columns = "settings ->> 'account' AS account, CAST(secret AS TEXT), settings ->> 'topic'"
    rows = execute(
        f"SELECT {columns} FROM destination WHERE family = 'output' AND account IS NOT NULL ORDER BY account"
    )
    return [DeviceAccount(*row) for row in rows]


def is_account_taken(name: str) -> bool:
    """Return True if a reader or an output has an account of this name."""
    devices = "SELECT 1 FROM destination WHERE family = 'output' AND settings ->> 'account' = ?1"
    return execute(f"{devices} UNION ALL SELECT 1 FROM broker_account WHERE name = ?1", (name,)).fetchone() is not None
