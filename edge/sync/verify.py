"""`edge sync verify`: compares the history of site and hub, and resends the site's rows where they differ."""

from __future__ import annotations

from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import reading, writing
from edge.sync import batch_format
from edge.sync.sender import Call
from edge.sync.store import change_feed, digests, hub_link
from edge.sync.store.digests import ALL_DAYS, Days, Digest, Scope
from edge.sync.store.hub_link import Target
from edge.tracking import copies

SAME = "Site and hub have the same history."
SLICE_DAYS = 14  # per nightly step
MAX_DAYS = 50  # per round; the rest follows in the next


class Difference(NamedTuple):
    """A difference in one asset's history on one day (days since the epoch, UTC)."""

    day: int
    track: int
    asset_key: str

    def __str__(self) -> str:
        return f"{clock.rfc3339(self.day * clock.DAY)[:10]} {self.asset_key}"


def compare(here: Target, call: Call, days: Days = ALL_DAYS) -> list[Difference]:
    """Return the differences. Call only while no changes wait, since data in transit would differ, too."""
    scope = Scope(here.organization_id, None)
    first_day = max(days.first, here.horizon // clock.DAY + 1 if here.horizon else days.first)
    question = {"range": (first_day, days.last), "days": []}
    answer = call("digests", batch_format.pack(question))
    with reading():
        ours = digests.by_day(scope, Days(int(answer["first_day"]), days.last))
    differing_days = digests.differing(ours, _digests(answer["digests"]))[:MAX_DAYS]
    if not differing_days:
        return []
    answer = call("digests", batch_format.pack({**question, "days": differing_days}))
    differences = []
    with reading():
        changed = change_feed.tracks_after(here.acked_seq)  # since the comparison began
        for day, *theirs in answer["days"]:
            tracks = set(digests.differing(digests.by_track(scope, day), _digests(theirs))) - changed
            names = copies.asset_keys(tracks)
            differences += [Difference(day, track, names.get(track, f"track {track}")) for track in sorted(tracks)]
    return differences


def repair(here: Target, differences: list[Difference]) -> str:
    """Resend the differences and return a summary for people."""
    sent, summary = _resend(here, differences)
    is_incomplete = len(differences) >= MAX_DAYS and sent
    hub_link.update(
        verified_at=clock.now(), verify_result=summary, is_verify_requested=int(is_incomplete), verify_from=None
    )
    return summary


def is_due(here: Target) -> bool:
    """Return True if a nightly comparison is due or in progress. It runs in steps to let other work run."""
    return here.verify_from is not None or clock.now() - max(here.verified_at or 0, here.joined_at) > clock.DAY


def next_slice(here: Target, call: Call) -> str:
    """Compare the next days and resend differences. Returns a summary, or an empty text without differences."""
    begin = here.verify_from if here.verify_from is not None else ALL_DAYS.first
    today = clock.now() // clock.DAY
    oldest = (copies.oldest_end() or clock.now()) // clock.DAY
    until = max(begin, oldest) + SLICE_DAYS - 1
    differences = compare(here, call, Days(begin, until if until < today else ALL_DAYS.last))
    _, summary = _resend(here, differences)
    count = len(differences) + (here.verify_differences if here.verify_from is not None else 0)
    if differences:
        hub_link.update(verify_result=summary)
    if until < today:
        hub_link.update(verify_from=until + 1, verify_differences=count)
    else:
        hub_link.update(verify_from=None, verify_differences=0, verified_at=clock.now())
        if not count:
            hub_link.update(verify_result=SAME)
    return summary if differences else ""


def _resend(here: Target, differences: list[Difference]) -> tuple[int, str]:
    """Resend differences; returns their number and a summary.

    After a restore, the hub may have more data than the site: nothing of that time is sent until somebody decides.
    """
    unsure = here.restored_from // clock.DAY if here.restored_from is not None else 10**9
    sent = [difference for difference in differences if difference.day < unsure]
    kept = [difference for difference in differences if difference.day >= unsure]
    summary = SAME
    if differences:
        named = "; ".join(map(str, differences[:20])) + ("; …" if len(differences) > 20 else "")
        summary = f"{len(differences)} {'difference' if len(differences) == 1 else 'differences'}: {named}."
    if sent:
        summary += f" Sent again: {len(sent)}."
    if kept:
        summary += (
            f" Newer than the backup restored here: {len(kept)}. The hub keeps them: "
            "`edge sync recover` fetches them, `edge sync resend` deletes them at the hub."
        )
    with writing():
        for difference in sent:
            change_feed.add_range(difference.track, difference.day * clock.DAY, (difference.day + 1) * clock.DAY - 1)
    return len(sent), summary


def _digests(rows: Any) -> dict[int, Digest]:
    return {int(key): (int(count), int(total)) for key, count, total in rows}
