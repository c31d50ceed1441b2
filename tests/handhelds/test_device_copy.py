"""The copy of the assets on a handheld: every change is sent, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.handhelds import device_copy
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import carriers, positions
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast

Copy = dict[int, device_copy.Bucket]


def refresh(organization_id: int, copy: Copy) -> int:
    """Update a device's copy and return the number of buckets sent."""
    digests = "".join(copy[no].digest if no in copy else device_copy.EMPTY for no in range(device_copy.BUCKETS))
    fresh = device_copy.changed_buckets(organization_id, digests)
    copy.update(fresh)
    return len(fresh)


def rows(copy: Copy) -> dict[int, list[Any]]:
    return {row[0]: row for bucket in copy.values() for row in bucket.rows}


def see(organization_id: int, asset_id: int, location_id: int, at: int) -> None:
    positions.record([Scan(organization_id, asset_id, location_id, None, None, at, at, Quality.HANDHELD)], 0)


def test_only_changes_are_sent(cast: Cast) -> None:
    dock = locations.create(shell(cast.acme), name="Dock 1").id
    made = [
        assets.create(shell(cast.acme), name=f"Pallet {no}", tags=[NewTag("barcode", f"BC-{no}")]) for no in range(50)
    ]
    assets.create(shell(cast.rival), name="Theirs")
    copy: Copy = {}
    assert refresh(cast.acme, copy) > 30
    assert len(rows(copy)) == 50
    assert refresh(cast.acme, copy) == 0
    first = made[0]
    assert rows(copy)[first.id] == [first.id, first.external_key, "Pallet 0", None, None, None, ["BC-0"], "c"]

    now = clock.now()
    see(cast.acme, first.id, dock, now)
    assert refresh(cast.acme, copy) == 1
    assert rows(copy)[first.id][3] == dock
    tag = assets.attach_tag(shell(cast.acme), first.id, NewTag("rfid", "E2AA"))
    assert refresh(cast.acme, copy) == 1
    assert rows(copy)[first.id][6:] == [["BC-0", "E2AA"], "cr"]
    assets.detach_tag(shell(cast.acme), first.id, tag.id)
    assets.patch(shell(cast.acme), made[1].id, {"name": "Renamed"})
    assert 1 <= refresh(cast.acme, copy) <= 2
    assert (rows(copy)[first.id][6], rows(copy)[made[1].id][2]) == (["BC-0"], "Renamed")
    assets.delete(shell(cast.acme), made[2].id)
    assert refresh(cast.acme, copy) == 1
    assert made[2].id not in rows(copy)


def test_an_asset_seen_constantly_is_sent_at_most_every_ten_minutes(cast: Cast) -> None:
    dock = locations.create(shell(cast.acme), name="Dock 1").id
    pallet = assets.create(shell(cast.acme), name="Pallet").id
    start = clock.now() // (600 * clock.SECOND) * 600 * clock.SECOND
    see(cast.acme, pallet, dock, start)
    copy: Copy = {}
    refresh(cast.acme, copy)
    see(cast.acme, pallet, dock, start + 500 * clock.SECOND)
    assert refresh(cast.acme, copy) == 0
    see(cast.acme, pallet, dock, start + 601 * clock.SECOND)
    assert refresh(cast.acme, copy) == 1


def test_a_copy_has_a_limited_number_of_codes(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 500 tags for each of 20,000 assets it would take more memory than the service has."""
    dock = locations.create(shell(cast.acme), name="Dock 1").id
    ids = []
    for number in range(4):
        tags = [NewTag("barcode", f"{number}-{at}") for at in range(2)]
        ids.append(assets.create(shell(cast.acme), name="Pallet", tags=tags).id)
        see(cast.acme, ids[-1], dock, clock.now() - (4 - number) * clock.HOUR)
    monkeypatch.setattr(device_copy, "MAX_CODES", 5)
    monkeypatch.setattr(device_copy, "TOGETHER", 3)
    copy: Copy = {}
    refresh(cast.acme, copy)
    assert set(rows(copy)) == {ids[3], ids[2]}, "those that were seen last"
    assert rows(copy)[ids[3]][-2:] == [["3-0", "3-1"], "cc"]


def test_an_asset_on_a_carrier_names_it(cast: Cast) -> None:
    """Contents move with their carrier on the device, too, before the server has answered."""
    dock = locations.create(shell(cast.acme), name="Dock 1").id
    pallet, crate = (assets.create(shell(cast.acme), name=name).id for name in ("Pallet", "Crate"))
    now = clock.now()
    for one in (pallet, crate):
        see(cast.acme, one, dock, now)
    carriers.load(shell(cast.acme), pallet, crate, now)
    copy: Copy = {}
    refresh(cast.acme, copy)
    assert (rows(copy)[crate][8:], rows(copy)[pallet][8:]) == ([pallet], [])
    carriers.unload_all(cast.acme, pallet, now + clock.SECOND)
    assert refresh(cast.acme, copy) == 1
    assert rows(copy)[crate][8:] == []
