"""An antenna had a wrong location: history, current location and what is decided next are corrected.

Tests of edge/store/location_corrections.py.
"""

from __future__ import annotations

import pytest

from edge import clock
from edge.clock import SECOND
from edge.errors import Invalid, NotFound
from edge.store import locations, readers
from edge.store.actors import shell
from edge.store.audit_trail import recent
from edge.store.database import execute
from edge.store.location_corrections import Correction, Preview, correct, preview
from edge.store.readers import Placement
from tests.conftest import Cast
from tests.ingest.site import GAP, Site, csl, location_of, message, pipeline, seen


def begin(site: Site) -> tuple[int, int]:
    """The dock's antenna 2 is said to be in the yard, which it is not; a pallet goes past both. Returns the yard."""
    yard = locations.create(shell(site.organization_id), name="Yard").id
    readers.set_antenna(shell(site.organization_id), site.dock_reader, 2, Placement(yard, None, True))
    return yard, clock.now() // SECOND * SECOND - 600 * SECOND


def go_past(site: Site, start: int, *, ports: tuple[int, ...] = (1, 2, 1, 2)) -> None:
    line = pipeline()
    for number, port in enumerate(ports):
        for second in range(40):
            at = start + (number * 40 + second) * SECOND
            line.handle([message(csl(seen(site.epcs[0], at, port)), received_at=at)])


def rows() -> list[tuple[int, int]]:
    return [
        (at, location_id)
        for at, location_id in execute(
            "SELECT h.observed_at, s.location_id FROM history h JOIN source s ON s.no = h.source_no ORDER BY 1"
        )
    ]


def test_stays_at_a_wrong_location_become_one_at_the_right_one(site: Site) -> None:
    yard, start = begin(site)
    go_past(site, start)
    assert {location for _, location in rows()} == {site.dock, yard}
    assert location_of(site.assets[0]) == yard
    correction = Correction(site.dock_reader, 2, yard, site.dock, start, clock.now())
    found = preview(site.organization_id, correction)
    assert found.rows >= 2
    assert (found.assets, found.current) == (1, 1)
    assert location_of(site.assets[0]) == yard  # a preview changes nothing
    assert correct(shell(site.organization_id), correction, GAP) == found
    assert rows() == [(start, site.dock)]
    assert location_of(site.assets[0]) == site.dock
    dwell, last = execute("SELECT dwell_started_at, last_seen_at FROM position").fetchone()
    assert (dwell, last) == (start, start + 159 * SECOND)
    assert preview(site.organization_id, correction) == Preview(0, 0, 0)
    line = recent(site.organization_id, 1)[0]
    assert "history_corrected" in str(line)


def test_reads_that_follow_are_decided_from_corrected_ones(site: Site) -> None:
    """Ingest does not remember the wrong location."""
    yard, start = begin(site)
    line = pipeline()
    for second in range(60):
        at = start + second * SECOND
        line.handle([message(csl(seen(site.epcs[0], at, 2)), received_at=at)])
    correct(shell(site.organization_id), Correction(site.dock_reader, 2, yard, site.dock, start, clock.now()), GAP)
    readers.set_antenna(shell(site.organization_id), site.dock_reader, 2, Placement(site.dock, None, True))
    for second in range(60, 90):
        at = start + second * SECOND
        line.handle([message(csl(seen(site.epcs[0], at, 2)), received_at=at)])
    late = start + 30 * SECOND + 1
    line.handle([message(csl(seen(site.epcs[0], late, 1)), received_at=start + 91 * SECOND)])
    assert rows() == [(start, site.dock)]


def test_only_the_time_the_antenna_and_the_organization_that_are_named_are_corrected(site: Site, cast: Cast) -> None:
    yard, start = begin(site)
    go_past(site, start)
    before = rows()
    actor = shell(site.organization_id)
    later = Correction(site.dock_reader, 2, yard, site.dock, start + 10_000 * SECOND, start + 20_000 * SECOND)
    correct(actor, later, GAP)
    correct(actor, later._replace(port=1, since=start), GAP)
    assert rows() == before
    with pytest.raises(NotFound):
        correct(shell(cast.rival), later._replace(since=start), GAP)
    with pytest.raises(Invalid):
        preview(site.organization_id, later._replace(to_location_id=yard))
    with pytest.raises(Invalid):
        preview(site.organization_id, later._replace(until=start - 1, since=start))
    assert rows() == before
