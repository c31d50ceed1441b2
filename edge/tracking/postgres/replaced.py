"""Rows that a batch has replaced, for the log of changes of the hub, since PostgreSQL has none.

Readers of the open feed need their instants, webhooks with EPCIS where and since when assets were before and after.
They are stored with the cursor of each batch while there is a reader or such a webhook, about 15 bytes for each row.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from edge.database.connection import execute
from edge.validation import json_text
from edge.validation.values import MAX_INT64

MOST = 50_000  # rows in one text
Key = tuple[int, int, int]  # of a row: track, observed_at, seq
Origin = tuple[int, int]  # source, delay
_NOWHERE = (0, 0)  # origin of a row that does not exist
_COLUMNS = 7  # key, origin before, origin after


class Replaced:
    """The rows that a batch has changed, with their origin before it and after it."""

    def __init__(self) -> None:
        self._rows: dict[Key, tuple[Origin, Origin]] = {}
        self._packed: list[str] = []

    def add(self, gone: Iterable[Key], new: Mapping[Key, Origin], there: Mapping[Key, Origin]) -> None:
        """Add rows that are deleted, and others that are written. `there`: those of both that exist."""
        for key, after in (*((key, _NOWHERE) for key in gone), *new.items()):
            before, _ = self._rows.get(key, (there.get(key, _NOWHERE), after))
            self._rows[key] = before, after
            if len(self._rows) >= MOST:
                self._pack()

    def _pack(self) -> None:
        if self._rows:
            self._packed.append(
                _packed([(*key, *before, *after) for key, (before, after) in sorted(self._rows.items())])
            )
        self._rows = {}

    def texts(self) -> list[str]:
        """Return the rows as texts of at most `MOST` rows, in the order of the changes."""
        self._pack()
        return self._packed


def _packed(rows: Sequence[tuple[int, ...]]) -> str:
    """Return a short text of rows. Sorted rows need less."""
    numbers = [number for column in zip(*rows, strict=True) for number in column]
    return base64.b85encode(zlib.compress(struct.pack(f"<{len(numbers)}q", *numbers), 1)).decode()


def _unpacked(text: str) -> Iterator[tuple[int, ...]]:
    packed = zlib.decompress(base64.b85decode(text))
    numbers = struct.unpack(f"<{len(packed) // 8}q", packed)
    length = len(numbers) // _COLUMNS
    return zip(*(numbers[start : start + length] for start in range(0, len(numbers), length)), strict=True)


def instants_of(text: str) -> set[tuple[int, int]]:
    """Return track and begin of the rows."""
    return {(track, at) for track, at, *_ in _unpacked(text)}


def note_events(text: str) -> None:
    """Note the events of rows that went and of those that came. Call in a transaction.

    An event that is in both has not changed.
    """
    rows = [row for row in _unpacked(text) if row[3:5] != row[5:7]]
    sources = json_text.text(sorted({source for row in rows for source in (row[3], row[5])}))
    places = dict(
        execute(
            "SELECT no, location_id FROM source WHERE no IN (SELECT value FROM json_each(?))", (sources,)
        ).fetchall()
    )
    before, after = (
        {  # when events were recorded, by track, time rounded down to milliseconds, and location
            (row[0], row[1] // 1000 * 1000, places[row[column]]): min(row[1] + row[column + 1], MAX_INT64)
            for row in rows
            if row[column] in places
        }
        for column in (3, 5)
    )
    ended = [[*event, -1, recorded_at] for event, recorded_at in sorted(before.items()) if event not in after]
    came = [[*event, 0, 0] for event, recorded_at in sorted(after.items()) if before.get(event) != recorded_at]
    if ended or came:
        execute(_NOTED, (json_text.text([*ended, *came]),))


# A site deletes the history of people early, which is no error. Whether the event has been sent is not known here: a
# message can have it as soon as PostgreSQL has, before it is noted. So none is logged as one that came.
_NOTED = """
INSERT INTO change (kind, a, b, c, before)
SELECT 14, t.asset_id, r.value ->> 1, r.value ->> 2,
       json_array(1, iif(t.is_person = 1 AND t.site_no IS NOT NULL, 0, r.value ->> 3), r.value ->> 4)
FROM json_each(?) r CROSS JOIN track t ON t.no = r.value ->> 0
"""
