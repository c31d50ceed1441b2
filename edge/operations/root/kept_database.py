"""The database during an upgrade that changes its schema: a copy for the way back, and an earlier schema again."""

from __future__ import annotations

from pathlib import Path

from edge.operations.root.places import COPY, COPY_NEW, DATA, DATABASE, PENDING, STATE, VENV, program_of
from edge.operations.root.programs import AS_EDGE, as_edge, ignore_signals, read, works

_SCHEMA = 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute("PRAGMA user_version").fetchone())'
_COMPLETE = """
import os, sys
with open(sys.argv[1], "rb") as database, open(sys.argv[2], "r+b") as copy:
    while block := database.read(1 << 20):
        if copy.read(len(block)) != block:
            copy.seek(database.tell() - len(block))
            copy.write(block)
    copy.truncate(database.tell())
    copy.flush()
    os.fsync(copy.fileno())
"""


def copy_database() -> bool:
    """Copy the database while the service still writes to it; keep_database then copies the few changed pages."""
    if not as_edge("cp", "--reflink=auto", DATABASE, COPY_NEW):
        return False
    return as_edge("sync", COPY_NEW)


def keep_database() -> bool:
    """Complete the copy of a stopped service. A file with its final name is complete. Reads and changes then wait."""
    wal = DATA / "edge.db-wal"
    if wal.exists() and wal.stat().st_size:  # a cleanly stopped service leaves no WAL
        return False
    is_complete = works(*AS_EDGE, "python3", "-I", "-", DATABASE, COPY_NEW, given=_COMPLETE)
    is_kept = is_complete and as_edge("mv", "-T", COPY_NEW, COPY)
    is_marked = is_kept and as_edge("touch", PENDING)
    return is_marked and works("sync", DATA)


def release_reads() -> None:
    """Let the waiting reads in. From here on the only way back is the backup."""
    STATE.unlink()
    works("sync", STATE.parent)
    as_edge("rm", "-f", COPY)
    as_edge("rm", "-f", PENDING)


def put_back() -> bool:
    """Put the copy in the place of the database, if there is one. Returns False if that failed."""
    if not as_edge("test", "-f", COPY):
        return True
    as_edge("rm", "-rf", DATA / "edge.db-wal", DATA / "edge.db-shm", DATA / ".edge.db-litestream")
    return as_edge("mv", "-T", COPY, DATABASE)


def downgrade(old: Path) -> str:
    """Stop the service and change the database to the schema of an earlier release, in one transaction.

    Returns what was left out, an empty string if it is impossible. Then the present release runs again, as it also does
    after a power cut: it migrates the database again.
    """
    ignore_signals()
    if not works("systemctl", "stop", "edge"):
        return ""
    left = read(*AS_EDGE, *program_of(VENV, "downgrade-database", schema_of(old)))
    if left and reads_database(old):
        return left.strip()
    works("systemctl", "start", "edge")
    return ""


def reads_database(release: Path) -> bool:
    """True if a release can work with the present database: its service refuses one of a newer schema."""
    present = (read(*AS_EDGE, "python3", "-I", "-c", _SCHEMA, DATABASE) or "").strip()
    return present.isdigit() and schema_of(release) >= int(present)


def schema_of(release: Path) -> int:
    """Count the migrations of a release. Those of early releases are in the folder `store`."""
    packages = "lib/python3*/site-packages/edge"
    return sum(1 for room in ("database", "store") for _ in release.glob(f"{packages}/{room}/migrations/*.sql"))
