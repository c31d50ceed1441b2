"""Keeps the names of assets, locations and sites in PostgreSQL equal to those of this hub, for reports made there.

People are left out, because whoever reads PostgreSQL is not known to this program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edge.database.connection import execute, scalar
from edge.errors import HistoryUnavailable
from edge.tracking.postgres import writers
from edge.tracking.postgres.pool import connected

Row = tuple[Any, ...]

# Table, and its columns after the number.
TRACKS = ("track_label", ("organization", "site", "asset_key", "asset"))
SOURCES = ("source_label", ("location_key", "location", "reader", "antenna"))
# Names are written again if they are lost with the primary, so the housekeeper does not wait for a standby.
_UNCONFIRMED = "SET LOCAL synchronous_commit = local"
_AT_ONCE = 10_000  # numbers
_LAST = 2**62
_TRACKS = """
SELECT t.no, o.name, site.code, a.external_key, a.name FROM track t JOIN asset a ON a.id = t.asset_id
JOIN organization o ON o.id = t.organization_id JOIN site ON site.no = t.site_no
WHERE t.no BETWEEN ? AND ? AND t.asset_id NOT IN (SELECT asset_id FROM tracked_person)
"""
_SOURCES = """
SELECT s.no, l.external_key, l.name, n.name, ifnull(an.name, CAST(s.port AS TEXT))
FROM source s JOIN location l ON l.id = s.location_id
LEFT JOIN remote_name n ON n.site_no = s.site_no AND n.kind = 4 AND n.remote_id = s.remote_reader
LEFT JOIN remote_antenna_name an
    ON an.site_no = s.site_no AND an.remote_reader = s.remote_reader AND an.port = s.port
WHERE s.no BETWEEN ? AND ?
"""


def refresh(wait: Callable[[float], bool]) -> None:
    """Make all names equal. `wait` returns True to stop."""
    try:
        for table, newest, sql in (
            (TRACKS, "SELECT ifnull(max(no), 0) FROM track", _TRACKS),
            (SOURCES, "SELECT ifnull(max(no), 0) FROM source", _SOURCES),
        ):
            end = scalar(newest) + 1
            for first in range(1, end + _AT_ONCE, _AT_ONCE):
                last = first + _AT_ONCE - 1 if first < end else _LAST
                make_equal(table, execute(sql, (first, last)).fetchall(), first, last)
                if wait(0.01):
                    return
    except HistoryUnavailable:
        return  # in the next round


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
