"""An administrator keeps the values of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge import clock
from edge.errors import Conflict, EdgeError, NotFound
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.upstream import decisions, upstreams
from tests.upstream.strict_records import Records, Row
from tests.upstream.strict_service import StrictService
from tests.upstream.strict_world import StrictSender, strict_sender


@pytest.fixture
def sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictSender]:
    with strict_sender(tmp_path, monkeypatch, StrictService()) as one:
        yield one


def listed(sender: StrictSender) -> dict[int, str]:
    sender.settle_again()
    return sender.troubles()


def keep(sender: StrictSender, record_id: int) -> None:
    decisions.keep_theirs(sender.actor, sender.client, record_id)
    sender.settle()


CHANGES: dict[str, Callable[[Records, Row], object]] = {
    "fields": lambda records, row: records.patch(
        "assets", row, {"name": "Theirs", "metadata": {"x": [1.5, "ü"]}, "is_active": False, "description": "a\nb"}
    ),
    "window": lambda records, row: records.patch(
        "assets", row, {"valid_from": "2026-01-02T03:04:05.678+01:00", "valid_to": "2099-01-01T00:00:00Z"}
    ),
    "key": lambda records, row: records.rename("assets", row, {"external_key": "THEIRS"}),
    "detached": lambda records, row: records.detach(row, row.tags[0]["id"]),
    "attached": lambda records, row: records.attach(row, {"tag_type": "ble", "value": "AA"}),
    "deletion": lambda records, row: records.delete("assets", row),
}


@pytest.mark.parametrize("change", CHANGES)
def test_values_of_the_service_are_taken_over(sender: StrictSender, change: str) -> None:
    tags = [NewTag("rfid", "E1"), NewTag("rfid", "E2")]
    asset = assets.create(sender.actor, name="Ours", external_key="P-1", tags=tags)
    sender.settle()
    CHANGES[change](sender.records, next(iter(sender.records.rows["assets"].values())))
    assert listed(sender)[asset.id].startswith("changed there")
    keep(sender, asset.id)
    sender.assert_equal()
    writes = sender.records.writes
    sender.settle_again()
    assert sender.records.writes == writes
    with pytest.raises(NotFound):
        keep(sender, asset.id)


def test_a_location_with_its_parent(sender: StrictSender) -> None:
    ids = [locations.create(sender.actor, name=name, external_key=name).id for name in ("A", "B")]
    child = locations.create(sender.actor, name="C", external_key="C", parent_id=ids[0]).id
    sender.settle()
    there = {row.key: row for row in sender.records.rows["locations"].values()}
    sender.records.patch("locations", there["C"], {"parent_id": there["B"].id})
    assert list(listed(sender)) == [child]
    keep(sender, child)
    sender.assert_equal()
    theirs = sender.records.create("locations", {"name": "Theirs"})
    sender.records.patch("locations", there["C"], {"parent_id": theirs.id})
    assert list(listed(sender)) == [child]
    with pytest.raises(Conflict, match="not a location of this box"):
        keep(sender, child)


def test_a_record_that_existed_before(sender: StrictSender) -> None:
    sender.records.create("assets", {"name": "Theirs", "external_key": "P-1"})
    asset = assets.create(sender.actor, name="Ours", external_key="P-1", valid_to=clock.now() + clock.DAY)
    assert "exists there with another" in listed(sender)[asset.id]
    keep(sender, asset.id)
    sender.assert_equal()


def test_a_record_that_is_deleted_here_stays_there(sender: StrictSender) -> None:
    asset = assets.create(sender.actor, name="Ours", external_key="P-1")
    sender.settle()
    row = next(iter(sender.records.rows["assets"].values()))
    sender.records.patch("assets", row, {"name": "Theirs"})
    assets.delete(sender.actor, asset.id)
    assert "is deleted here" in listed(sender)[asset.id]
    keep(sender, asset.id)
    assert listed(sender) == {}
    assert sender.records.find("assets", "P-1") is row


def test_values_that_this_box_cannot_have_change_nothing(sender: StrictSender) -> None:
    """The tag belongs to another record here, so the new name is not taken over either."""
    first = assets.create(sender.actor, name="One", external_key="P-1")
    sender.settle()
    row = next(iter(sender.records.rows["assets"].values()))
    sender.records.patch("assets", row, {"name": "Theirs"})
    sender.records.attach(row, {"tag_type": "rfid", "value": "E1"})
    assets.create(sender.actor, name="Two", external_key="P-2", tags=[NewTag("rfid", "E1")])
    assert first.id in listed(sender)
    with pytest.raises(EdgeError):
        keep(sender, first.id)
    assert assets.get(sender.actor.organization_id, first.id).name == "One"
    assert upstreams.overwrite(sender.actor, [first.id]) == 1
