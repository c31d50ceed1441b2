"""`edge sync verify`: compares the history of site and hub; where it differs, the site sends its own again."""

from __future__ import annotations

from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import reading, writing
from edge.sync import batch_format
from edge.sync.sender import Call
from edge.sync.store import change_feed, digests, hub_link
from edge.sync.store.digests import ALL_DAYS, Days, Digest, Of
from edge.sync.store.hub_link import Target
from edge.tracking.deletion import oldest_history

SAME = "Site and hub have the same history."
SLICE_DAYS = 14  # compared at a time, each night
MAX_DAYS = 50  # examined in one round; the rest follows in the next


class Difference(NamedTuple):
    """The history of one asset on one day (since the epoch, UTC)."""

    day: int
    track: int
    asset_key: str

    def __str__(self) -> str:
        return f"{clock.rfc3339(self.day * clock.DAY)[:10]} {self.asset_key}"


def compare(here: Target, call: Call, wanted: Days = ALL_DAYS) -> list[Difference]:
    """Only meaningful while nothing waits: what is in transit would be a difference, too."""
    of = Of(here.organization_id, None)
    first_day = max(wanted.first, here.horizon // clock.DAY + 1 if here.horizon else wanted.first)
    question = {"range": (first_day, wanted.last), "days": []}
    answer = call("digests", batch_format.pack(question))
    with reading():
        ours = digests.of_days(of, Days(int(answer["first_day"]), wanted.last))
    days = digests.differing(ours, _digests(answer["digests"]))[:MAX_DAYS]
    if not days:
        return []
    answer = call("digests", batch_format.pack({**question, "days": days}))
    found = []
    with reading():
        changed = change_feed.tracks_after(here.acked_seq)  # while the hub answered
        for day, *theirs in answer["days"]:
            tracks = set(digests.differing(digests.of_tracks(of, day), _digests(theirs))) - changed
            names = digests.asset_names(tracks)
            found += [Difference(day, track, names.get(track, f"track {track}")) for track in sorted(tracks)]
    return found


def repair(here: Target, found: list[Difference]) -> str:
    """Compare everything and have the differences sent again; returns in words what was found."""
    sent, told = _mend(here, found)
    wanted = len(found) >= MAX_DAYS and sent
    hub_link.update(verified_at=clock.now(), verify_result=told, verify_wanted=int(wanted), verify_from=None)
    return told


def is_due(here: Target) -> bool:
    """Compares everything once a day, in slices, so that other work can run in between."""
    return here.verify_from is not None or clock.now() - max(here.verified_at or 0, here.joined_at) > clock.DAY


def next_slice(here: Target, call: Call) -> str:
    """Compare some days and have the differences sent again; returns in words what was found, or nothing."""
    begin = here.verify_from if here.verify_from is not None else ALL_DAYS.first
    today = clock.now() // clock.DAY
    oldest = (oldest_history() or clock.now()) // clock.DAY
    until = max(begin, oldest) + SLICE_DAYS - 1
    found = compare(here, call, Days(begin, until if until < today else ALL_DAYS.last))
    _, told = _mend(here, found)
    count = len(found) + (here.verify_found if here.verify_from is not None else 0)
    if found:
        hub_link.update(verify_result=told)
    if until < today:
        hub_link.update(verify_from=until + 1, verify_found=count)
    else:
        hub_link.update(verify_from=None, verify_found=0, verified_at=clock.now())
        if not count:
            hub_link.update(verify_result=SAME)
    return told if found else ""


def _mend(here: Target, found: list[Difference]) -> tuple[int, str]:
    """How many are sent again, and what to say.

    After a restore the hub may know more than this box: of that time nothing is sent before somebody decides.
    """
    unsure = here.restored_from // clock.DAY if here.restored_from is not None else 10**9
    sent = [difference for difference in found if difference.day < unsure]
    kept = [difference for difference in found if difference.day >= unsure]
    told = SAME
    if found:
        named = "; ".join(map(str, found[:20])) + ("; …" if len(found) > 20 else "")
        told = f"{len(found)} {'difference' if len(found) == 1 else 'differences'}: {named}."
    if sent:
        told += f" Sent again: {len(sent)}."
    if kept:
        told += (
            f" From after the backup that was restored here: {len(kept)}, which stay as the hub has them: "
            "`edge sync recover` fetches them, `edge sync resend` would make the hub forget them."
        )
    with writing():
        for difference in sent:
            change_feed.add_range(difference.track, difference.day * clock.DAY, (difference.day + 1) * clock.DAY - 1)
    return len(sent), told


def _digests(rows: Any) -> dict[int, Digest]:
    return {int(key): (int(count), int(total)) for key, count, total in rows}
