"""Faults at the last moment: a commit that fails, or that works and is never reported."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edge.database.connection import database


@contextmanager
def failing_commits() -> Iterator[None]:
    """The disk is full when a transaction commits: every statement of it worked, and nothing is on the disk."""

    def fail() -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "commit", fail)
        yield
