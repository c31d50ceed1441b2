"""A hub sends the EPCIS events of its sites, also of stays that arrive late and of those that a site corrects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edge.audit.actors import person
from edge.database.connection import execute
from edge.epcis import subscriptions
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import people
from edge.people.people import Role
from edge.records import assets
from tests.epcis.test_same_events import Partner, add_webhook, by_id, queried
from tests.sync.world import EPOCH, GAP, HOUR, Hub, SiteBox


@pytest.fixture
def company(tmp_path: Path) -> tuple[Hub, SiteBox]:
    hub = Hub(tmp_path / "hub", "hub")
    site = SiteBox(tmp_path / "BER", "BER", hub)
    site.pallet = site.add_asset("P-1")
    site.join()
    site.settle()
    return hub, site


def scan_by_hand(site: SiteBox, dock: int, at: int) -> Callable[[], object]:
    """Scan the pallet. Returns what undoes it."""
    ann = person(site.organization_id, people.add_person(site.actor, f"Ann {at}", Role.OPERATOR).id, "Ann")
    key = assets.get(site.organization_id, site.pallet).external_key
    scan = Submitted(f"{at:026}", key, site.docks[dock], at)
    scans.submit(ann, [scan], at)
    return lambda: scans.undo(ann, scan.id, GAP)


def test_a_hub_sends_the_events_that_it_shows(company: tuple[Hub, SiteBox]) -> None:
    hub, site = company
    with hub.in_use():
        partner = Partner(add_webhook(hub.actor))
        subscriptions.log_changes(is_needed=True)

    def assert_same(number: int, wrong: int) -> None:
        site.settle()
        with hub.in_use():
            while subscriptions.log_changes(is_needed=True):
                pass
            partner.receive()
            shown = by_id(queried(hub.organization_id))
            assert by_id(partner.events.values()) == shown
            errors = [event for event in shown.values() if "errorDeclaration" in event]
            assert (len(shown), len(errors)) == (number, wrong)

    site.scan(site.pallet, 0, EPOCH + 5 * HOUR)
    assert_same(1, 0)
    site.scan(site.pallet, 1, EPOCH + 2 * HOUR)  # older
    assert_same(2, 0)
    site.scan(site.pallet, 1, EPOCH + 2 * HOUR - GAP // 2)  # the stay began earlier
    assert_same(3, 1)
    with site.in_use():
        undo = scan_by_hand(site, 2, EPOCH + 8 * HOUR)
    assert_same(4, 1)
    with site.in_use():
        undo()
    assert_same(4, 2)
    with site.in_use():  # a wrong location is corrected
        source = execute("SELECT no FROM source WHERE location_id = ?", (site.docks[0],)).fetchone()[0]
        execute("UPDATE history SET source_no = ? WHERE observed_at = ?", (source, EPOCH + 2 * HOUR - GAP // 2))
    assert_same(5, 3)


def test_a_first_copy_of_a_site_is_few_messages(company: tuple[Hub, SiteBox]) -> None:
    hub, site = company
    with site.in_use():
        for hour in range(120):
            site.scan_now(site.pallet, hour % 2, EPOCH + hour * HOUR)
    with hub.in_use():
        row = add_webhook(hub.actor)
        subscriptions.log_changes(is_needed=True)
    site.settle()
    with hub.in_use():
        while subscriptions.log_changes(is_needed=True):
            pass
        assert execute("SELECT count(*) FROM event WHERE kind = 'asset.history'").fetchone()[0] == 2
        partner = Partner(row)
        partner.receive()
        assert by_id(partner.events.values()) == by_id(queried(hub.organization_id))
        assert len(partner.events) == 120
