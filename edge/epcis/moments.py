"""The EPCIS events of one asset at some moments, as `query` shows them, with those that are declared as errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from edge.database.connection import execute, reading
from edge.epcis import query
from edge.epcis.lent_stays import lending_at
from edge.epcis.query import Found

_MILLISECOND = 1_000


def found_at(organization_id: int, asset_id: int, moments: Sequence[int]) -> list[Found]:
    """Return the events in these milliseconds, given in µs.

    Moments that changed since and are not in the log yet are left out, since a later message has them. So an event that
    goes before it is logged was never sent.
    """
    with reading():
        noted = {at for (at,) in execute("SELECT at FROM epcis_pending WHERE asset_id = ?", (asset_id,))}
        shown = [at for at in moments if at not in noted]
        with lending_at(lambda: ((asset_id, at) for at in shown)):
            found = [one for at in shown for one in _found_at(organization_id, asset_id, at)]
    return list(dict.fromkeys(found))


def inside_of_doors(found: Iterable[Found]) -> dict[int, int | None]:
    """Return the locations of the doors of events."""
    doors = {one.door_id for one in found if one.door_id is not None}
    sql = "SELECT location_id FROM door WHERE id = ?"
    return {door: row[0] for door in doors for row in execute(sql, (door,))}


def _found_at(organization_id: int, asset_id: int, at: int) -> list[Found]:
    until = at + _MILLISECOND - 1
    found = query.stays_at(organization_id, asset_id, at, until + 1)
    return found + [one for one in _others_at(organization_id, asset_id, at, until) if at <= one.at <= until]


def _others_at(organization_id: int, asset_id: int, at: int, until: int) -> Iterator[Found]:
    span = {"asset": asset_id, "at": at, "until": until}
    for rows, select, where in (
        (query.undone_rows, query.SELECT_UNDONE, "s.asset_id = :asset AND s.observed_at BETWEEN :at AND :until"),
        (query.passage_rows, f"{query.SELECT_PASSAGES} WHERE", "asset_id = :asset AND at BETWEEN :at AND :until"),
        (
            query.load_rows,
            f"{query.SELECT_LOADS} WHERE",
            "l.asset_id = :asset AND (l.loaded_at BETWEEN :at AND :until OR l.unloaded_at BETWEEN :at AND :until)",
        ),
        (query.withdrawn_rows, f"{query.SELECT_WITHDRAWN} WHERE", "w.asset_id = :asset AND w.at = :at"),
    ):
        stored = execute(f"{select} {where}", span).fetchall()
        yield from (one for _, group in rows(organization_id, stored) for one in group)
