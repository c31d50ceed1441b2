"""Keeps the names of assets, locations and sites in PostgreSQL equal to those of this hub, for reports made there.

People are left out, because whoever reads PostgreSQL is not known to this program.
"""

from __future__ import annotations

from collections.abc import Callable

from edge.database.connection import execute
from edge.errors import HistoryUnavailable
from edge.tracking import history_engine

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
    if not history_engine.is_remote():
        return
    labels = history_engine.labels
    try:
        for table, newest, sql in (
            (labels.TRACKS, "SELECT max(no) FROM track", _TRACKS),
            (labels.SOURCES, "SELECT max(no) FROM source", _SOURCES),
        ):
            end = (execute(newest).fetchone()[0] or 0) + 1
            for first in range(1, end + _AT_ONCE, _AT_ONCE):
                last = first + _AT_ONCE - 1 if first < end else _LAST
                labels.make_equal(table, execute(sql, (first, last)).fetchall(), first, last)
                if wait(0.01):
                    return
    except HistoryUnavailable:
        return  # in the next round
