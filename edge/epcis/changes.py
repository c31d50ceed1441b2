"""Changes of EPCIS events, for webhooks: which events came, and which went because history was corrected.

Triggers note each change in the transaction of the write (`edge.database.triggers`), so late reads, batches of sites,
undo and corrections count like new reads. They exist only while a webhook sends EPCIS. This module writes the noted
moments to the log of events; what happened at them is read when a message is made (`edge.epcis.moments`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from edge.database.connection import execute, writing
from edge.database.triggers import EPCIS_TRIGGERS
from edge.events import log
from edge.events.detection import Locations
from edge.events.log import EventKind, NewEvent

MOST_NOTED = 1_000  # per transaction
MOST_MOMENTS = 100  # in one message


class _Noted(NamedTuple):
    """A moment, rounded down to milliseconds, at which an event of an asset came or went. Carriers have no location."""

    asset_id: int
    organization_id: int
    at: int
    location_id: int | None


def log_changes(*, is_needed: bool) -> int:
    """Log some of the noted moments. Returns their number. The triggers come and go with `is_needed`."""
    is_running = execute("SELECT 1 FROM epcis").fetchone() is not None
    if not is_needed:
        if is_running:
            _stop()
        return 0
    if not is_running:
        _start()
    if execute("SELECT 1 FROM epcis_pending LIMIT 1").fetchone() is None:
        return 0
    with writing():
        return _log_noted()


def _start() -> None:
    with writing():
        execute("INSERT INTO epcis (one) VALUES (1)")
        for statement in EPCIS_TRIGGERS.values():
            execute(statement)


def _stop() -> None:
    """Remove the triggers. Events that were taken away stay errors."""
    with writing():
        for name in EPCIS_TRIGGERS:
            execute(f"DROP TRIGGER IF EXISTS {name}")
        execute("DELETE FROM epcis_pending")
        execute("DELETE FROM epcis")


def _log_noted() -> int:
    noted = execute(_NOTED, (MOST_NOTED,)).fetchall()
    log.add(_events([_Noted(*row[1:-1]) for row in noted if row[-1]]))
    execute("DELETE FROM epcis_pending WHERE no <= ?", (noted[-1][0],))
    return len(noted)


_NOTED = """
    SELECT n.no, n.asset_id, a.organization_id, n.at,
        CASE n.kind WHEN 1 THEN n.place_id WHEN 4 THEN (SELECT location_id FROM door WHERE id = n.place_id) END,
        EXISTS (SELECT 1 FROM event_destination d
                WHERE d.organization_id = a.organization_id AND d.body_format = 'epcis')
    FROM epcis_pending n JOIN asset a ON a.id = n.asset_id ORDER BY n.no LIMIT ?
"""


def _events(noted: Sequence[_Noted]) -> Iterator[NewEvent]:
    """Yield the events of the log: some moments of one asset each."""
    locations = Locations([one.location_id for one in noted])
    in_order = sorted(noted, key=lambda one: (one.asset_id, one.at))
    for asset_id, group in groupby(in_order, key=lambda one: one.asset_id):
        ones = list(group)
        moments = sorted({one.at for one in ones})
        for start in range(0, len(moments), MOST_MOMENTS):
            part = moments[start : start + MOST_MOMENTS]
            within = {place for one in ones if one.at in part for place in locations.within(one.location_id)}
            organization_id, data = ones[0].organization_id, {"moments": part}
            yield NewEvent(organization_id, EventKind.ASSET_HISTORY, asset_id, part[-1], within, (), data)
