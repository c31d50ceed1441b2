"""Marks by which PostgreSQL knows this machine from others with a copy of the same hub.

They are in a file of the data directory, which is in no backup. The service takes a new mark when it starts, so a copy
of the whole disk does not know the newest one either.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple

from edge.database.instance import data_dir_file, replace_key, sync_folder
from edge.errors import SetupError

FILE_NAME = "history-writer"
KEPT = 1_000  # a restored PostgreSQL has an older mark


class ThisHub(NamedTuple):
    """This machine as a hub: its permanent id, the file with its marks, and the mark that the service takes."""

    id: str
    file: Path
    new_mark: str = ""


def this_hub(hub_id: str, *, is_service: bool = False) -> ThisHub | None:
    """Return this machine as the hub with this id, None without one. Only the service takes a new mark."""
    if not hub_id:
        return None
    return ThisHub(hub_id, data_dir_file(FILE_NAME).absolute(), new_mark() if is_service else "")


def new_mark() -> str:
    return secrets.token_hex(8)


def known(file: Path) -> list[str]:
    """Return all marks of this machine. Raises SetupError if the file cannot be read."""
    try:
        return file.read_text("ascii").split()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SetupError(f"{file} cannot be read ({error}). Correct its owner, or delete it") from error


def add(file: Path, mark: str) -> None:
    """Add a mark before PostgreSQL has it, so that a crash in between does not lock this machine out."""
    if mark in known(file):
        return
    is_new = not file.exists()
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="ascii") as marks:
        marks.write(f"{mark}\n")
        marks.flush()
        os.fsync(marks.fileno())
    if is_new:
        sync_folder(file.parent)
    if len(lines := known(file)) > KEPT * 2:
        replace_key(file, "".join(f"{line}\n" for line in lines[-KEPT:]))
