"""What others change at the service is listed, never overwritten without a decision, and does not stop the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.records import assets, locations, lookup
from edge.records.tags import NewTag
from edge.upstream import counterparts, upstreams
from tests.upstream.world import Sender

OTHERS = [NewTag("rfid", "E9")]


def there(sender: Sender, do: Callable[[int], object], key: str = "P-1") -> None:
    """Let somebody else do something with a record of the service."""
    with sender.elsewhere():
        row = lookup.asset_by_key(sender.service.organization_id, key) or lookup.location_by_key(
            sender.service.organization_id, key
        )
        do(row.id if row else 0)


@pytest.fixture
def asset(sender: Sender) -> assets.AssetRow:
    row = assets.create(sender.actor, name="Pallet", external_key="P-1", tags=[NewTag("rfid", "E1")])
    sender.settle()
    return row


def retry(sender: Sender) -> list[str]:
    upstreams.retry(sender.actor)
    sender.settle()
    return sender.troubles()


def overwrite(sender: Sender, *ids: int) -> int:
    number = upstreams.overwrite(sender.actor, ids)
    sender.settle()
    return number


CHANGES: dict[str, tuple[Callable[[Sender, int], object], str]] = {
    "name": (lambda on, no: assets.patch(on.service.actor, no, {"name": "Theirs"}), "others changed its name"),
    "metadata": (
        lambda on, no: assets.patch(on.service.actor, no, {"metadata": '{"x":1}'}),
        "others changed its metadata",
    ),
    "key": (lambda on, no: assets.rename(on.service.actor, no, "THEIRS"), "others changed its key"),
    "attached": (lambda on, no: assets.attach_tag(on.service.actor, no, OTHERS[0]), "others changed its tags"),
    "detached": (
        lambda on, no: assets.detach_tag(on.service.actor, no, assets.get(on.service.organization_id, no).tags[0].id),
        "others changed its tags",
    ),
    "deleted": (lambda on, no: assets.delete(on.service.actor, no), "others deleted it"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_there_is_listed_and_decided(sender: Sender, asset: assets.AssetRow, change: str) -> None:
    do, text = CHANGES[change]
    there(sender, lambda no: do(sender, no))
    before = sender.contents(sender.service)
    assets.patch(sender.actor, asset.id, {"description": "ours"})
    sender.settle()
    assert sender.troubles() == [f"changed there: {text}"]
    assert retry(sender) == [f"changed there: {text}"]
    assert sender.contents(sender.service) == before, "nothing is overwritten"
    assets.create(sender.actor, name="Another")
    sender.settle()
    assert sender.there("ASSET-0001"), "others continue"
    assert overwrite(sender, asset.id) == 1
    sender.assert_equal()


def test_a_change_there_is_detected_once_a_day(sender: Sender, asset: assets.AssetRow) -> None:
    there(sender, lambda no: assets.patch(sender.service.actor, no, {"name": "Theirs"}))
    sender.settle()
    assert sender.troubles() == []
    sender.clock.advance(clock.DAY + clock.HOUR)
    sender.settle()
    assert sender.troubles() == ["changed there: others changed its name"]


def test_the_value_of_the_service_can_be_kept(sender: Sender, asset: assets.AssetRow) -> None:
    there(sender, lambda no: assets.patch(sender.service.actor, no, {"name": "Theirs"}))
    assert retry(sender)
    assets.patch(sender.actor, asset.id, {"name": "Theirs"})
    sender.settle()
    sender.assert_equal()


def test_overwriting_is_for_one_time(sender: Sender, asset: assets.AssetRow) -> None:
    there(sender, lambda no: assets.patch(sender.service.actor, no, {"name": "Theirs"}))
    retry(sender)
    overwrite(sender, asset.id)
    there(sender, lambda no: assets.patch(sender.service.actor, no, {"name": "Again"}))
    assert retry(sender) == ["changed there: others changed its name"]


def test_an_equal_record_is_matched_by_its_key(sender: Sender) -> None:
    with sender.elsewhere():
        theirs = assets.create(sender.service.actor, name="Pallet", external_key="P-1", valid_from=clock.EARLIEST)
    assets.create(
        sender.actor, name="Pallet", external_key="P-1", valid_from=clock.EARLIEST, tags=[NewTag("rfid", "E1")]
    )
    sender.settle()
    sender.assert_equal()
    assert sender.there("P-1") == ("Pallet", theirs.id)


def test_a_different_record_with_the_key_is_listed(sender: Sender) -> None:
    with sender.elsewhere():
        assets.create(sender.service.actor, name="Theirs", external_key="P-1", tags=OTHERS)
    asset = assets.create(sender.actor, name="Ours", external_key="P-1")
    sender.settle()
    assert sender.troubles() == ["changed there: exists there with another name, valid_from, tags"]
    assert overwrite(sender, asset.id) == 1
    sender.assert_equal()


def test_a_tag_of_another_record_there(sender: Sender) -> None:
    """The rest of the record is written. It heals when the tag is free."""
    with sender.elsewhere():
        theirs = assets.create(sender.service.actor, name="Theirs", external_key="X-9", tags=OTHERS)
    asset = assets.create(sender.actor, name="Ours", external_key="P-1", tags=[NewTag("rfid", "E1"), *OTHERS])
    sender.settle()
    assert sender.troubles() == ["taken there: its tag rfid:E9 belongs to asset X-9 there"]
    assert overwrite(sender, asset.id) == 0, "a tag cannot be taken away"
    there(sender, lambda no: assets.detach_tag(sender.service.actor, no, theirs.tags[0].id), "X-9")
    sender.clock.advance(clock.HOUR)
    sender.settle()
    assert sender.troubles() == []
    with sender.elsewhere():
        row = lookup.asset_by_key(sender.service.organization_id, "P-1")
        assert row
        shown = assets.get(sender.service.organization_id, row.id).tags
        assert {tag.value for tag in shown} == {"E1", "E9"}


def test_a_key_that_lists_there_do_not_show(sender: Sender) -> None:
    with sender.elsewhere():
        later = clock.now() + clock.DAY
        assets.create(sender.service.actor, name="Theirs", external_key="P-1", valid_from=later)
    assets.create(sender.actor, name="Ours", external_key="P-1")
    sender.settle()
    assert sender.troubles() == [
        "taken there: its key P-1 belongs to another record there, perhaps one that is not in effect"
    ]


def test_a_record_that_is_deleted_here_and_changed_there(sender: Sender, asset: assets.AssetRow) -> None:
    there(sender, lambda no: assets.patch(sender.service.actor, no, {"name": "Theirs"}))
    assets.delete(sender.actor, asset.id)
    sender.settle()
    assert sender.troubles() == ["changed there: is deleted here, but others changed its name"]
    assert sender.there("P-1")
    overwrite(sender, asset.id)
    sender.assert_equal()


def test_children_wait_for_their_parent(sender: Sender) -> None:
    with sender.elsewhere():
        locations.create(sender.service.actor, name="Theirs", external_key="HALL")
    hall = locations.create(sender.actor, name="Ours", external_key="HALL")
    locations.create(sender.actor, name="Row", external_key="ROW", parent_id=hall.id)
    sender.settle()
    assert sorted(sender.troubles()) == [
        "changed there: exists there with another name, valid_from",
        "waits: its parent HALL is not there yet",
    ]
    overwrite(sender, hall.id)
    sender.assert_equal()


def test_a_location_with_records_of_others_stays(sender: Sender) -> None:
    hall = locations.create(sender.actor, name="Hall", external_key="HALL")
    sender.settle()
    with sender.elsewhere():
        locations.create(sender.service.actor, name="Theirs", parent_external_key="HALL")
    locations.delete(sender.actor, hall.id)
    sender.settle()
    [trouble] = sender.troubles()
    assert trouble.startswith("refused: is deleted here, but the service responded 409")


def test_troubles_are_checked_ever_later(sender: Sender) -> None:
    with sender.elsewhere():
        assets.create(sender.service.actor, name="Theirs", external_key="P-1")
    assets.create(sender.actor, name="Ours", external_key="P-1")
    sender.settle()
    checks = []
    for minute in range(24 * 60):
        sender.clock.advance(clock.SECOND * 60)
        sender.client.requests = 0
        sender.settle()
        if sender.client.requests:
            checks.append(minute)
    assert len(checks) < 10
    assert counterparts.count(sender.row.no)[1] == {"changed there": 1}
