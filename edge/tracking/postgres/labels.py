"""Names of tracks and sources in PostgreSQL, for reports that other programs make of the stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edge.tracking.postgres import writers
from edge.tracking.postgres.pool import connected

Row = tuple[Any, ...]

# Table, and its columns after the number.
TRACKS = ("track_label", ("organization", "site", "asset_key", "asset"))
SOURCES = ("source_label", ("location_key", "location", "reader", "antenna"))
# Names are written again if they are lost with the primary, so the housekeeper does not wait for a standby.
_UNCONFIRMED = "SET LOCAL synchronous_commit = local"


def make_equal(table: tuple[str, Sequence[str]], rows: Sequence[Row], first: int, last: int) -> int:
    """Make the labels of these numbers equal to `rows`, which begin with the number. Returns the number of changes."""
    name, columns = table
    listed = ", ".join(columns)
    wanted = {row[0]: tuple(row) for row in rows}
    with connected() as connection:
        sql = f"SELECT no, {listed} FROM {name} WHERE no BETWEEN %s AND %s"
        there = {row[0]: row for row in connection.execute(sql.encode(), (first, last))}
        gone = [no for no in there if no not in wanted]
        changed = [row for no, row in wanted.items() if there.get(no) != row]
        values = ", ".join(["%s"] * (len(columns) + 1))
        updates = ", ".join(f"{column} = excluded.{column}" for column in columns)
        insert = f"INSERT INTO {name} (no, {listed}) VALUES ({values}) ON CONFLICT (no) DO UPDATE SET {updates}"
        with connection.transaction(), connection.cursor() as cursor:
            writers.hold(connection)
            cursor.execute(_UNCONFIRMED)
            cursor.execute(f"DELETE FROM {name} WHERE no = ANY(%s)".encode(), (gone,))
            cursor.executemany(insert.encode(), changed)
    return len(gone) + len(changed)
