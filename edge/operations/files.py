"""Atomic replacement of small files, and the lock of a data directory (held by the service or by a restore)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edge.errors import SetupError


def replace_text(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.new")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


FILE_NAME = "edge.lock"


@contextmanager
def hold(data_dir: Path) -> Iterator[None]:
    """Lock the data directory until the process ends. Raises SetupError if another process holds the lock."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (data_dir / FILE_NAME).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SetupError(f"{data_dir} is in use by a running edge. Stop it first.") from error
        yield


def is_held(data_dir: Path) -> bool:
    try:
        with hold(data_dir):
            return False
    except SetupError:
        return True
