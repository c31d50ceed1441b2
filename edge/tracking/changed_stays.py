"""Changes of stays in PostgreSQL, noted for webhooks with EPCIS, since PostgreSQL has no log of changes.

See `edge.epcis.changes`, which does the same for stays of this file. A batch brings the rows that it has replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edge.database import change_log
from edge.database.connection import execute
from edge.database.triggers import Follower
from edge.tracking import history_engine
from edge.validation import json_text
from edge.validation.values import MAX_INT64

Row = tuple[int, int, int, int]  # track, observed_at, source, delay


def is_needed() -> bool:
    """Return True while a webhook sends EPCIS."""
    return change_log.is_followed_by(Follower.EPCIS)


def note(text: str) -> None:
    """Note the changes of a text of `edge.tracking.postgres.replaced`. Call in a transaction."""
    note_rows(*history_engine.replaced.unpack(text))


def note_rows(gone: Iterable[Row], added: Iterable[Row]) -> None:
    """Note the events of rows that went and of those that came, while a webhook sends EPCIS. Call in a transaction.

    An event that is in both has not changed.
    """
    if not is_needed():
        return
    gone, added = list(gone), list(added)
    places = _places({source for _, _, source, _ in (*gone, *added)})
    before, after = _events(gone, places), _events(added, places)
    ended = [[*event, -1, recorded_at] for event, recorded_at in sorted(before.items()) if event not in after]
    came = [[*event, 0, 0] for event, recorded_at in sorted(after.items()) if before.get(event) != recorded_at]
    if ended or came:
        execute(_NOTED, (json_text.text([*ended, *came]),))


def _events(rows: Iterable[Row], places: Mapping[int, int]) -> dict[tuple[int, int, int], int]:
    """Return when events were recorded, by track, time rounded down to milliseconds, and location."""
    return {
        (track, at // 1000 * 1000, places[source]): min(at + delay, MAX_INT64)
        for track, at, source, delay in rows
        if source in places
    }


def _places(sources: Iterable[int]) -> dict[int, int]:
    sql = "SELECT no, location_id FROM source WHERE no IN (SELECT value FROM json_each(?))"
    return dict(execute(sql, (json_text.text(sorted(sources)),)).fetchall())


# A site deletes the history of people early, which is no error. Whether the event has been sent is not known here: a
# message can have it as soon as PostgreSQL has, before it is noted. So none is logged as one that came.
_NOTED = """
INSERT INTO change (kind, a, b, c, before)
SELECT 14, t.asset_id, r.value ->> 1, r.value ->> 2,
       json_array(1, iif(t.is_person = 1 AND t.site_no IS NOT NULL, 0, r.value ->> 3), r.value ->> 4)
FROM json_each(?) r CROSS JOIN track t ON t.no = r.value ->> 0
"""
