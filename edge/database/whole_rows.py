"""Writes whole rows. Names of tables and columns are constants of this program."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from edge.database.connection import execute


def insert(table: str, values: Mapping[str, Any], rest: str = "") -> sqlite3.Cursor:
    """Add a row. `rest`: SQL after its values, such as `RETURNING no`."""
    names, places = ", ".join(values), ", ".join("?" * len(values))
    return execute(f"INSERT INTO {table} ({names}) VALUES ({places}) {rest}", tuple(values.values()))


def update(table: str, record_id: int | str, values: Mapping[str, Any], key: str = "id") -> None:
    """Change columns of one row."""
    assignments = ", ".join(f"{name} = ?" for name in values)
    execute(f"UPDATE {table} SET {assignments} WHERE {key} = ?", (*values.values(), record_id))
