"""Keys that records of this box exchange: the one that has a key there gives it up before another one gets it.

A chain of renames is written from its end. A circle has no end, so one of its records gets a temporary key first.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from edge import clock
from edge.database.connection import writing
from edge.upstream import content, counterparts
from edge.upstream.answers import Record, Refused
from edge.upstream.client import Client
from edge.upstream.content import KEY, Known
from edge.upstream.counterparts import Counterpart, Trouble, TroubleKind
from edge.upstream.local_records import LocalRecord

TEMPORARY = "EDGE-MOVES-"
EXCHANGED = Trouble(TroubleKind.BLOCKED, "its key is being exchanged with another record")


def order(holders: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Return records in the order in which their new keys become free, and the records to move out of the way first.

    `holders`: for each record the one that has its new key there.
    """
    ordered: list[int] = []
    moved: list[int] = []
    left = dict(holders)
    while left:
        record_id, path = next(iter(left)), list[int]()
        while record_id in left and record_id not in path:
            path.append(record_id)
            record_id = left[record_id]
        if record_id not in ordered:
            moved.append(record_id)
        ordered += reversed(path)
        for one in path:
            del left[one]
    return ordered, moved


def move_away(client: Client, upstream_no: int, here: LocalRecord, stored: Counterpart) -> Counterpart | None:
    """Give a record a temporary key there. Returns None if it keeps its key, or others have changed it. Raises Away.

    The temporary key is stored as trouble and as a value of this box before it is written. So after a death it counts
    as written by this box, and the record gets its own key with the next check.
    """
    if stored.remote_id is None or (stored.trouble and stored.trouble.kind is TroubleKind.CHANGED):
        return None
    remote = client.by_id(here.kind, stored.remote_id)
    if remote is None or remote[KEY] == here.key:
        return None
    there = content.of_answer(here.kind, remote)
    known = content.settled(there, stored.known)
    if known.base is None or content.changed_by_others(there, known):
        return None
    key = TEMPORARY + secrets.token_hex(6)
    sending = {**known.base, KEY: content.mark(key)}
    moving = stored._replace(known=known._replace(sending=sending), trouble=EXCHANGED, trouble_at=clock.now())
    with writing():
        counterparts.keep(upstream_no, [moving], clock.now())
    try:
        renamed: Record = client.rename(here.kind, stored.remote_id, key)
    except Refused:
        return None
    return moving._replace(known=Known(content.of_answer(here.kind, renamed).marks))
