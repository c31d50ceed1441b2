"""Databases for tests. Making the schema takes longer than most tests, so it is made once and copied."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from edge.audit import quotas
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute, open_database

Files = dict[str, bytes]


def make_database(folder: Path) -> None:
    """Create an empty database like `migrate`, with an instance and a key for ids of its own, and open it."""
    copy_files({FILE_NAME: _without_instance()}, folder)
    migrate.migrate(folder)


@cache
def _without_instance() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        migrate.migrate(Path(folder))
        execute("DELETE FROM instance")
        return files_of(Path(folder))[FILE_NAME]


def files_of(folder: Path) -> Files:
    """Close the database of the folder and return its files."""
    close_database()
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def copy_files(files: Files, folder: Path) -> None:
    """Copy a database, which has the newest schema, into the folder and open it."""
    for name, content in files.items():
        (folder / name).touch(0o600)
        (folder / name).write_bytes(content)
    open_database(folder / FILE_NAME)
    quotas.forget()
