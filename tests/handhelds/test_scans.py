"""Undo of a person's scan between reads of fixed readers."""

from __future__ import annotations

from edge.audit import actors
from edge.audit.actors import shell
from edge.handhelds import scans
from edge.handhelds.scans import Result, Submitted
from edge.people import people
from edge.people.people import Role
from edge.records import assets
from edge.tracking.recent_reads import RecentReads
from tests.conftest import Cast
from tests.database.tracked_site import GAP, START, A, B, C, every, make_site, tell


def test_undoing_a_scan_reconsiders_later_reads(cast: Cast) -> None:
    """The scan overrides the reader for 30 s; without it the reads are a move."""
    site, recent = make_site(cast.acme), RecentReads()
    olga = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    sender = actors.person(cast.acme, olga.id, olga.name)
    before, after = every(0, 10, 1, A), every(11, 30, 1, B, -40.0)
    scanned, alone = tell(site, before, recent=recent), tell(site, [*before, *after])
    at = START + 10_500_000
    key = assets.get(cast.acme, scanned).external_key
    scans.submit(sender, [Submitted("scan-no-1", key, site.places[C], at)], at)
    tell(site, after, asset_id=scanned, recent=recent)
    assert [place for _, place in site.moves(scanned)] == [A, C]
    assert scans.undo(sender, "scan-no-1", GAP).result is Result.UNDONE
    assert site.history(scanned) == site.history(alone)
    assert [place for _, place in site.moves(scanned)] == [A, B]
