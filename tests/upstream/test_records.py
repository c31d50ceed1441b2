"""Assets, locations and tags of a box are equal at a second edge, whatever is done to them."""

from __future__ import annotations

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.people import organizations
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.upstream import local_records, upstreams
from tests.conftest import Cast
from tests.upstream.world import Sender


def test_the_records_of_a_box_are_copied(sender: Sender) -> None:
    """With all fields, parents first, whatever their order by id."""
    dock = locations.create(sender.actor, name="Dock", external_key="DOCK", tags=[NewTag("barcode", "D 1")])
    for number in range(5):
        locations.create(sender.actor, name=f"Gate {number}", parent_id=dock.id)
    assets.create(
        sender.actor,
        name="Pallet",
        external_key="P-1",
        description="blue\nwood",
        is_active=False,
        metadata='{"b":1.0,"a":[12345678901234567890123,1e22,"ü"]}',
        valid_to=clock.now() + clock.DAY,
        tags=[NewTag("rfid", "E2801"), NewTag("ble", "AA:BB")],
    )
    sender.settle()
    sender.assert_equal()


def test_changes_follow(sender: Sender) -> None:
    asset = assets.create(sender.actor, name="Pallet", tags=[NewTag("rfid", "E1"), NewTag("rfid", "E2")])
    place, other = (locations.create(sender.actor, name=name) for name in ("Dock", "Yard"))
    sender.settle()
    before = sender.there(asset.external_key)
    assert before
    assets.patch(sender.actor, asset.id, {"name": "Box", "description": "new", "metadata": '{"x": {"y": []}}'})
    assets.rename(sender.actor, asset.id, "BOX-1")
    assets.detach_tag(sender.actor, asset.id, asset.tags[0].id)
    assets.attach_tag(sender.actor, asset.id, NewTag("barcode", "123"))
    locations.patch(sender.actor, place.id, {"name": "Dock 2", "parent_id": other.id})
    sender.settle()
    sender.assert_equal()
    assert sender.there("BOX-1") == ("Box", before[1]), "the same record"
    assets.patch(sender.actor, asset.id, {"description": None, "valid_to": clock.now() + 2 * clock.DAY})
    locations.patch(sender.actor, place.id, {"parent_id": None})
    sender.settle()
    sender.assert_equal()


def test_deleted_records_are_deleted_there(sender: Sender) -> None:
    """Also a whole branch of the tree, and a key and a tag that are used again at once."""
    top = locations.create(sender.actor, name="Hall", external_key="HALL")
    below = locations.create(sender.actor, name="Row", external_key="ROW", parent_id=top.id)
    asset = assets.create(sender.actor, name="Old", external_key="P-1", tags=[NewTag("rfid", "E1")])
    sender.settle()
    locations.patch(sender.actor, top.id, {"name": "Hall 2"})
    assets.delete(sender.actor, asset.id)
    locations.delete(sender.actor, below.id)
    locations.delete(sender.actor, top.id)
    assets.create(sender.actor, name="New", external_key="P-1", tags=[NewTag("rfid", "E1")])
    sender.settle()
    sender.assert_equal()
    assert sender.service.rows("SELECT count(*) FROM asset WHERE deleted_at IS NULL") == [(1,)]


def test_a_restored_asset_returns(sender: Sender) -> None:
    asset = assets.create(sender.actor, name="Pallet", external_key="P-1", tags=[NewTag("rfid", "E1")])
    sender.settle()
    assets.delete(sender.actor, asset.id)
    sender.settle()
    assert sender.there("P-1") is None
    assets.restore(sender.actor, asset.id)
    sender.settle()
    sender.assert_equal()


def test_a_tag_moves_from_one_asset_to_another(sender: Sender) -> None:
    first = assets.create(sender.actor, name="One", tags=[NewTag("rfid", "E1")])
    second = assets.create(sender.actor, name="Two", tags=[NewTag("rfid", "E2")])
    sender.settle()
    assets.detach_tag(sender.actor, first.id, first.tags[0].id)
    assets.detach_tag(sender.actor, second.id, second.tags[0].id)
    assets.attach_tag(sender.actor, first.id, NewTag("rfid", "E2"))
    assets.attach_tag(sender.actor, second.id, NewTag("rfid", "E1"))
    sender.settle()
    sender.assert_equal()


def test_a_record_that_is_not_in_effect_is_copied(sender: Sender) -> None:
    """Lists do not show it, there neither."""
    later = clock.now() + clock.DAY
    asset = assets.create(sender.actor, name="Next", external_key="P-1", valid_from=later, valid_to=later + clock.DAY)
    sender.settle()
    sender.assert_equal()
    assets.patch(sender.actor, asset.id, {"name": "Next year"})
    sender.settle()
    sender.assert_equal()


def test_nothing_is_written_when_nothing_differs(sender: Sender) -> None:
    for number in range(120):
        assets.create(sender.actor, name=f"Pallet {number}")
    sender.settle()
    before = sender.service.rows("SELECT max(no), (SELECT max(updated_at) FROM asset) FROM audit")
    sender.client.requests = 0
    asset_id = sender.box.rows("SELECT id FROM asset LIMIT 1")[0][0]
    assets.patch(sender.actor, asset_id, {})
    sender.settle()
    assert sender.service.rows("SELECT max(no), (SELECT max(updated_at) FROM asset) FROM audit") == before
    assert sender.client.requests == 1, "one list of one key"


def test_records_of_another_organization_stay_here(sender: Sender) -> None:
    other = organizations.add_organization(shell(), "Other").id
    assets.create(shell(other), name="Secret", external_key="P-9")
    assets.create(sender.actor, name="Pallet", external_key="P-1")
    sender.settle()
    assert sender.service.rows("SELECT external_key FROM asset") == [("P-1",)]


def test_copies_of_a_hub_are_left_to_the_hub(sender: Sender) -> None:
    """Also one that was the box's own before: it is neither changed nor deleted there."""
    own, copy = (assets.create(sender.actor, name=name, external_key=name) for name in ("OWN", "COPY"))
    execute("INSERT INTO mirror (record_id, peer, home) VALUES (?, 0, 'Hub')", (copy.id,))
    sender.settle()
    assert sender.service.rows("SELECT external_key FROM asset") == [("OWN",)]
    execute("INSERT INTO mirror (record_id, peer, home) VALUES (?, 0, 'Hub')", (own.id,))
    execute("UPDATE asset SET name = 'Changed at the hub' WHERE id = ?", (own.id,))
    upstreams.retry(sender.actor)
    sender.settle()
    assert sender.there("OWN") == ("OWN", sender.service.rows("SELECT id FROM asset")[0][0])


def test_records_that_are_equal_already_do_not_count_as_written(sender: Sender) -> None:
    """After the service was removed and added again, the page said that all records had been written again."""
    place = locations.create(sender.actor, name="Dock", tags=[NewTag("barcode", "D 1")])
    asset = assets.create(sender.actor, name="Pallet", metadata='{"a": 1.0}', tags=[NewTag("rfid", "E1")])
    locations.create(sender.actor, name="Gate", parent_id=place.id)
    sender.settle()
    assert sender.row.written == 3
    upstreams.remove(sender.actor)
    sender.add_service()
    requests = sender.client.writes
    sender.settle()
    assert (sender.row.written, sender.client.writes) == (0, requests)
    assets.patch(sender.actor, asset.id, {"name": "Box"})
    sender.settle()
    assert (sender.row.written, sender.client.writes) == (1, requests + 1)
    sender.assert_equal()


def test_damaged_metadata_is_not_sent(cast: Cast) -> None:
    row = assets.create(shell(cast.acme), name="Pallet", metadata='{"a":1}')
    execute("UPDATE asset SET metadata = '{' WHERE id = ?", (row.id,))
    fields = local_records.read(cast.acme, [row.id])[row.id].fields
    assert fields["name"] == "Pallet"
    assert "metadata" not in fields
