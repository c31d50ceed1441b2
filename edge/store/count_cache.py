"""How many rows a whole list has, cached until a record changes or a validity window opens or closes.

Counting ten thousand assets costs more than reading a page of them, and the count is nearly always the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from edge.store.database import database, execute
from edge.store.records import effective

_MOST = 1000
_FAR = 2**63 - 1


class _Count(NamedTuple):
    """True from `since` until `until` while nothing is written."""

    version: int
    since: int
    until: int
    rows: int


_known: dict[Any, _Count] = {}


def forget() -> None:
    """For measuring what a request costs without the cache."""
    _known.clear()


VERSION = "(SELECT records FROM version)"


def count_list(
    source: str, alias: str, conditions: str, values: dict[str, Any], version: int, *, include_deleted: bool
) -> int:
    """The rows of `source` that meet `conditions` and are visible at `values["now"]`; `version` was just read."""
    now: int = values["now"]
    others = tuple((name, value) for name, value in values.items() if name != "now")
    key = (database.database, source, conditions, include_deleted, others)
    known = _known.get(key)
    if known is None or known.version != version or not known.since <= now < known.until:
        if len(_known) >= _MOST:
            _known.clear()
        known = _known[key] = _count(source, alias, conditions, values, include_deleted=include_deleted)
    return known.rows


def _count(source: str, alias: str, conditions: str, values: dict[str, Any], *, include_deleted: bool) -> _Count:
    """With the next instant at which a live row enters or leaves its window."""
    shown = effective(alias)
    if include_deleted:
        shown = f"{alias}.deleted_at IS NOT NULL OR ({shown})"
    else:
        conditions += f" AND {alias}.deleted_at IS NULL"
    version, count, opens, closes = execute(
        f"SELECT {VERSION}, count(*) FILTER (WHERE {shown}), "
        f"min({alias}.valid_from) FILTER (WHERE {alias}.valid_from > :now), "
        f"min({alias}.valid_to) FILTER (WHERE {alias}.valid_to > :now) "
        f"FROM {source} WHERE {conditions}",
        values,
    ).fetchone()
    return _Count(version, values["now"], min(opens or _FAR, closes or _FAR), count)
