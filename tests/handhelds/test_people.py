"""Where a person is cannot be learned through what an operator does with other assets."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.database.connection import hide_people
from edge.errors import Invalid
from edge.expected_lists import expected_lists
from edge.handhelds import stock_takes
from edge.handhelds.scans import Result
from edge.records import assets
from edge.tracking import carriers, report, tracked_people
from edge.tracking.tracked_people import PeopleSetting
from tests.conftest import Cast
from tests.expected_lists.yard import Yard as ListYard
from tests.tracking.test_carriers import START, Yard


@pytest.fixture
def yard(cast: Cast) -> Yard:
    return Yard(cast)


def progress_of(yard: Yard) -> stock_takes.Progress:
    take = stock_takes.find_stock_take(yard.organization_id, "take")
    assert take
    return stock_takes.progress(take)


def becomes_a_person(yard: Yard, asset_id: int) -> None:
    tracked_people.save(shell(yard.organization_id), PeopleSetting(key_prefix=yard.keys[asset_id]))


def test_nothing_is_put_onto_a_person(yard: Yard) -> None:
    """The load would have the person's stays, past and future."""
    becomes_a_person(yard, yard.pallet)
    wheel = assets.create(shell(yard.organization_id), name="Wheel")
    yard.keys[wheel.id] = wheel.external_key
    yard.scan(yard.pallet, yard.gate, 60)
    answer = yard.answers[yard.scan(wheel.id, yard.rack, 30, onto=yard.pallet)]
    assert answer.result is Result.REFUSED
    assert "cannot be a carrier" in answer.reason
    assert not carriers.load(yard.olga, yard.pallet, wheel.id, START)
    assert report.moves(yard.organization_id, wheel.id) == []


def test_a_load_no_longer_follows_a_carrier_that_has_become_a_person(yard: Yard) -> None:
    becomes_a_person(yard, yard.pallet)
    yard.scan(yard.pallet, yard.gate, 60)
    yard.read(yard.pallet, yard.rack, 600)
    assert yard.at(yard.box) == yard.dock


def test_a_repeated_scan_does_not_tell_whether_a_person_is_still_there(yard: Yard) -> None:
    becomes_a_person(yard, yard.pallet)
    hide_people(True)
    first, second = (yard.answers[yard.scan(yard.pallet, yard.dock, at)].result for at in (30, 60))
    assert (first, second) == (Result.RECORDED, Result.RECORDED)


def test_a_stock_take_shows_nothing_of_an_asset_that_became_a_person(yard: Yard) -> None:
    begun = START + 10 * clock.SECOND
    stock_takes.begin(
        yard.olga, "take", yard.dock, with_sublocations=False, expected=[yard.pallet, yard.crate], started_at=begun
    )
    yard.scan(yard.pallet, yard.gate, 60)
    yard.read(yard.crate, yard.dock, 700)
    becomes_a_person(yard, yard.pallet)
    progress = progress_of(yard)
    assert (progress.expected, [one[0] for one in progress.seen]) == ([yard.crate], [yard.crate])
    assert stock_takes.finish(yard.olga, "take", begun)
    assert progress_of(yard).seen == []


def test_expected_lists_leave_people_out(cast: Cast) -> None:
    yard = ListYard(cast.acme)
    yard.load(3, 0, 1)
    yard.load(3, 1, 1)
    before = yard.add_list(0, at_dock=True, name="Before")
    tracked_people.save(actors.shell(cast.acme), PeopleSetting(key_prefix="P-0"))
    yard.scan(3, 5)
    assert yard.results(before)["missing"] == ["P-0"]
    with pytest.raises(Invalid, match="No asset has the key or tag P-0"):
        expected_lists.create(yard.olga, "Truck", ["P-0"], location_id=yard.dock)
    listed = expected_lists.create(yard.olga, "Truck", ["P-3"], location_id=yard.dock, with_contents=True)
    assert yard.results(listed) == {"missing": ["P-1", "P-3"]}
