"""`edge sync verify`: whether site and hub have the same history, and where they do not, the truth is sent again."""

from __future__ import annotations

from typing import Any, NamedTuple

from edge import clock
from edge.store import changes, digests, target
from edge.store.database import reading, writing
from edge.store.digests import Digest, Of
from edge.store.target import Target
from edge.sync import wire
from edge.sync.sender import Call

MAX_DAYS = 50  # looked into in one round; the rest shows in the next


class Difference(NamedTuple):
    """The history of one asset on one day (since the epoch, UTC)."""

    day: int
    track: int
    asset_key: str

    def __str__(self) -> str:
        return f"{clock.rfc3339(self.day * clock.DAY)[:10]} {self.asset_key}"


def compare(here: Target, call: Call) -> list[Difference]:
    """To be asked while nothing waits: what is on its way would be a difference, too."""
    of = Of(here.organization_id, None)
    first_day = here.horizon // clock.DAY + 1 if here.horizon else -(10**6)
    answer = call("digests", wire.pack({"first_day": first_day, "days": []}))
    with reading():
        ours = digests.of_days(of, int(answer["first_day"]))
    days = digests.differing(ours, _digests(answer["digests"]))[:MAX_DAYS]
    if not days:
        return []
    answer = call("digests", wire.pack({"first_day": first_day, "days": days}))
    found = []
    with reading():
        for day, *theirs in answer["days"]:
            tracks = digests.differing(digests.of_tracks(of, day), _digests(theirs))
            names = digests.asset_names(tracks)
            found += [Difference(day, track, names.get(track, f"track {track}")) for track in tracks]
    return found


def repair(here: Target, found: list[Difference]) -> str:
    """Have the truth about the differences sent; in words, what was found.

    After a restore the hub may know more than this box: of that time nothing is sent before somebody decides.
    """
    unsure = here.restored_from // clock.DAY if here.restored_from is not None else 10**9
    sent = [difference for difference in found if difference.day < unsure]
    kept = [difference for difference in found if difference.day >= unsure]
    told = "Site and hub have the same history."
    if found:
        told = f"{len(found)} differences: {'; '.join(map(str, found[:20]))}{'; …' if len(found) > 20 else ''}."
    if sent:
        told += f" {len(sent)} are sent again."
    if kept:
        told += (
            f" {len(kept)} are from after the backup that was restored here, and stay as the hub has them; "
            "`edge sync resend` would make it forget them."
        )
    with writing():
        for difference in sent:
            changes.add_range(difference.track, difference.day * clock.DAY, (difference.day + 1) * clock.DAY - 1)
        wanted = len(found) >= MAX_DAYS
        target.update(verified_at=clock.now(), verify_result=told, verify_wanted=int(wanted and bool(sent)))
    return told


def _digests(rows: Any) -> dict[int, Digest]:
    return {int(key): (int(count), int(total)) for key, count, total in rows}
