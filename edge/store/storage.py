"""How much the database holds and how much room it has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from edge.store.database import database, execute, reading


class Facts(NamedTuple):
    database_bytes: int
    disk_free_bytes: int
    disk_bytes: int


class Counts(NamedTuple):
    assets: int
    locations: int
    history_rows: int


def facts() -> Facts:
    """The file with its write-ahead log, and the disk it is on."""
    path = Path(database.database)
    size = sum(part.stat().st_size for part in (path, path.with_name(path.name + "-wal")) if part.exists())
    disk = shutil.disk_usage(path.parent)
    return Facts(size, disk.free, disk.total)


def counts(organization_id: int) -> Counts:
    with reading():
        return Counts(
            *(
                execute(f"SELECT {what} WHERE organization_id = ?", (organization_id,)).fetchone()[0]
                for what in (
                    "count(*) FILTER (WHERE deleted_at IS NULL) FROM asset",
                    "count(*) FILTER (WHERE deleted_at IS NULL) FROM location",
                    "ifnull(sum(history_rows), 0) FROM track",
                )
            )
        )
