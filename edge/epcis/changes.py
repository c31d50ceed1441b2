"""EPCIS events that came or went, as the log of changes has them.

Times of events are rounded down to milliseconds. An event that came and went among the same changes was never sent, so
it is not declared as an error.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from edge import clock
from edge.database import change_log
from edge.database.change_log import Kind
from edge.database.connection import execute
from edge.database.triggers import Follower
from edge.validation import json_text


class Changed(NamedTuple):
    """An event: its kind as in `epcis_withdrawn`, and the location, the carrier or the door."""

    asset_id: int
    at: int
    kind: int
    place_id: int


def waiting_at(asset_id: int) -> set[int]:
    """Return the moments of an asset that changed and are not in the log of events yet."""
    waiting = change_log.waiting(Follower.EPCIS, "kind = 14 AND a = :asset", {"asset": asset_id})
    return {_rounded(change.b) for change in waiting}


def take(limit: int) -> tuple[int, Collection[Changed]]:
    """Take the next changes, and declare events that went as errors. Returns the number of changes, and their events.

    Call in the transaction that logs the moments of the events.
    """
    changes = change_log.take(Follower.EPCIS, limit)
    balance, recorded = Counter[Changed](), dict[Changed, int]()
    for change in changes:
        if change.kind == Kind.EPCIS and change.c is not None and change.before is not None:
            kind, more, recorded_at = json.loads(change.before)
            event = Changed(change.a, _rounded(change.b), kind, change.c)
            balance[event] += more
            if more < 0:
                recorded[event] = recorded_at
    if gone := [[*event, recorded[event]] for event, more in balance.items() if more < 0]:
        execute(_DECLARED, {"rows": json_text.text(gone), "now": _rounded(clock.now())})
    return len(changes), balance.keys()


# An event that another stay still has is not shown as an error, see `edge.epcis.sources`.
_DECLARED = """
INSERT INTO epcis_withdrawn (asset_id, at, kind, place_id, organization_id, recorded_at, declared_at)
SELECT a.id, r.value ->> 1, r.value ->> 2, r.value ->> 3, a.organization_id, r.value ->> 4, :now
FROM json_each(:rows) r CROSS JOIN asset a ON a.id = r.value ->> 0 WHERE true
ON CONFLICT (asset_id, at, kind, place_id)
DO UPDATE SET recorded_at = excluded.recorded_at, declared_at = excluded.declared_at
"""


def _rounded(at: int | None) -> int:
    return (at or 0) // 1000 * 1000
