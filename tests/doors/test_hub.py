"""A hub shows the passages of its sites, and reports their events."""

from __future__ import annotations

import pytest

from edge.database.connection import execute, writing
from edge.doors import doors, passage_report
from edge.doors.passage_rule import Direction
from edge.errors import Conflict
from edge.events import detection, log
from edge.events.log import EventKind
from tests.doors.conftest import read
from tests.doors.site import passing, turning_back
from tests.events.conftest import SILENCE
from tests.sync.world import EPOCH, SiteBox


def at_hub(site: SiteBox) -> list[tuple[str, Direction, str | None, int]]:
    with site.hub.in_use():
        found = [
            row
            for door in doors.list_doors(site.hub.organization_id)
            for row in passage_report.passages_of_door(site.hub.organization_id, door.id, 10)
        ]
        return [(row.asset_key, row.direction, row.site, row.at - EPOCH) for row in found]


def test_a_first_copy_has_earlier_passages_and_later_ones_follow(ber: SiteBox) -> None:
    read(ber, passing(0))
    ber.join()
    ber.sync()
    assert [row[:2] for row in at_hub(ber)] == [("P-1", Direction.OUT)]
    read(ber, passing(100, is_out=False))
    ber.sync()
    assert [row[1] for row in at_hub(ber)] == [Direction.IN, Direction.OUT]
    with ber.hub.in_use():
        (door,) = doors.list_doors(ber.hub.organization_id)
        assert (door.name, door.location_name) == ("Dock 4", "Dock 0")
        assert door.site is not None
        with pytest.raises(Conflict):
            doors.remove_door(ber.hub.actor, door.id)


def test_a_revision_reaches_the_hub_as_the_same_passage(ber: SiteBox) -> None:
    ber.join()
    reads = turning_back(0)
    read(ber, reads[: len(reads) // 2])
    ber.sync()
    before = ber.hub.rows("SELECT no, direction FROM passage")
    read(ber, reads[len(reads) // 2 :])
    ber.sync()
    assert before[0][1] == Direction.OUT
    assert ber.hub.rows("SELECT no, direction FROM passage") == [(before[0][0], Direction.TURNED_BACK)]


def test_a_restored_site_that_uses_a_number_again_overwrites_nothing(ber: SiteBox) -> None:
    ber.join()
    read(ber, passing(0))
    ber.sync()
    with ber.in_use(), writing():
        execute("DELETE FROM passage")
        execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'passage'")
        execute("DELETE FROM door_read")
    read(ber, passing(100, is_out=False))
    ber.sync()
    assert [row[1] for row in at_hub(ber)] == [Direction.IN, Direction.OUT]


def test_the_hub_reports_the_event(ber: SiteBox) -> None:
    ber.join()
    with ber.hub.in_use():
        detection.start(SILENCE)
    read(ber, passing(0))
    ber.sync()
    with ber.hub.in_use():
        while detection.log_changes(SILENCE):
            pass
        events = [one for one in log.after(ber.hub.organization_id, 0, 100) if one.kind is EventKind.ASSET_PASSED]
    (event,) = events
    assert event.data["passage"]["direction"] == "out"
    assert event.data["door"]["name"] == "Dock 4"
    assert event.data["asset"]["external_key"] == "P-1"


def test_without_a_hub_or_destinations_a_passage_queues_nothing(ber: SiteBox) -> None:
    read(ber, passing(0))
    assert ber.rows("SELECT count(*) FROM change") == [(0,)]
