"""Attaching a tag takes over the scans that waited for it, for every way of attaching (interface: Tracking)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.audit import actors, trail
from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.handhelds import scans
from edge.handhelds.scans import Result, Submitted
from edge.people import people
from edge.people.people import Role
from edge.readers import kept_messages, unknown_tags
from edge.readers.unknown_tags import Sighting
from edge.records import assets, locations
from edge.records.tags import NewTag, match_key
from edge.sync.store import record_copies
from edge.sync.store.exchange import AssetRecord
from edge.tracking import board, report
from tests.conftest import Cast

AT = 1_700_000_000_000_000
EPC = "E28011700000020A7B2C3D4E"

Attach = Callable[[Cast, NewTag], int]


def create_with(cast: Cast, tag: NewTag) -> int:
    return assets.create(shell(cast.acme), name="Pallet", tags=[tag]).id


def attach_to(cast: Cast, tag: NewTag) -> int:
    asset_id = assets.create(shell(cast.acme), name="Pallet").id
    assets.attach_tag(shell(cast.acme), asset_id, tag)
    return asset_id


@pytest.fixture
def dock(cast: Cast) -> int:
    return locations.create(shell(cast.acme), name="Dock").id


@pytest.fixture
def olga(cast: Cast) -> actors.Actor:
    row = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    return actors.person(cast.acme, row.id, row.name)


def scan(olga: actors.Actor, dock: int, code: str, number: int = 1) -> Result:
    return scans.submit(olga, [Submitted(f"scan-{number}", code, dock, AT + number)], AT + 1000)[0].result


@pytest.mark.parametrize("attach", [create_with, attach_to])
@pytest.mark.parametrize(
    ("scanned", "tag"),
    [
        (EPC, NewTag("rfid", EPC)),
        (f"00{EPC.lower()}", NewTag("rfid", EPC)),
        ("aa:bb:cc:00:11:22", NewTag("ble", "AABBCC001122")),
        ("]C14006381333931", NewTag("barcode", "4006381333931")),
    ],
)
def test_waiting_scans_keep_their_person_and_time(
    cast: Cast, olga: actors.Actor, dock: int, attach: Attach, scanned: str, tag: NewTag
) -> None:
    assert scan(olga, dock, scanned) is Result.UNKNOWN
    asset_id = attach(cast, tag)
    where = board.whereabouts(cast.acme, asset_id)
    assert where
    assert (where.location_id, where.last_seen_at) == (dock, AT + 1)
    assert unknown_tags.list_tags(cast.acme) == []
    assert scan(olga, dock, scanned) is Result.RECORDED  # a repeat gets the current answer
    assert len(report.moves(cast.acme, asset_id)) == 1


def test_another_code_and_another_organization_keep_waiting(cast: Cast, olga: actors.Actor, dock: int) -> None:
    scan(olga, dock, "4006381333931", 1)
    scan(olga, dock, "4006381333948", 2)
    assets.create(shell(cast.rival), name="Theirs", tags=[NewTag("barcode", "4006381333948")])
    asset_id = assets.create(shell(cast.acme), name="Ours", tags=[NewTag("barcode", "4006381333931")]).id
    assert [move.observed_at for move in report.moves(cast.acme, asset_id)] == [AT + 1]
    assert [tag.value for tag in unknown_tags.list_tags(cast.acme)] == ["4006381333948"]


def test_the_waiting_code_was_the_label_of_a_location(cast: Cast, olga: actors.Actor, dock: int) -> None:
    scan(olga, dock, "SHELF-LABEL")
    locations.attach_tag(shell(cast.acme), dock, NewTag("barcode", "SHELF-LABEL"))
    assert scan(olga, dock, "SHELF-LABEL") is Result.LOCATION


def test_a_taken_tag_changes_nothing(cast: Cast, olga: actors.Actor, dock: int) -> None:
    asset_id = create_with(cast, NewTag("rfid", EPC))
    lines = trail.recent(cast.acme)
    with pytest.raises(Exception, match="already exists"):
        attach_to(cast, NewTag("rfid", EPC))
    assert report.moves(cast.acme, asset_id) == []
    assert [line.action for line in trail.recent(cast.acme)] == ["asset.created", *(x.action for x in lines)]


def test_two_scans_in_one_millisecond_are_two_rows(cast: Cast, olga: actors.Actor, dock: int) -> None:
    asset_id = create_with(cast, NewTag("rfid", EPC))
    twice = [Submitted("scan-a", EPC, dock, AT), Submitted("scan-b", EPC, dock, AT)]
    assert [answer.result for answer in scans.submit(olga, twice, AT)] == [Result.RECORDED, Result.AGAIN]
    assert [move.observed_at for move in report.moves(cast.acme, asset_id)] == [AT, AT]


def restore_with(cast: Cast, tag: NewTag) -> int:
    asset_id = create_with(cast, tag)
    assets.delete(shell(cast.acme), asset_id)
    keep_read_of(cast, tag)
    return assets.restore(shell(cast.acme), asset_id).id


def copy_from_elsewhere(cast: Cast, tag: NewTag) -> int:
    record = AssetRecord(77, "A-77", "Pallet", None, 1, "{}", AT, None, AT, AT, None, [tag])
    with writing():
        record_copies.write(cast.acme, 77, record, key="A-77")
    return 77


def keep_read_of(cast: Cast, tag: NewTag) -> None:
    """Record a read of the tag while it is unmatched."""
    key = match_key(*tag)
    waits_for = kept_messages.hash_of(cast.acme, tag.tag_type, key)
    with writing():
        unknown_tags.record([Sighting(cast.acme, tag.tag_type, key, 5, tag.value, "unmatched", AT, None)])
        execute(
            "INSERT INTO raw_message (organization_id, reader_id, received_at, waits_for, data, size) "
            "VALUES (?, 5, ?, ?, x'', 1)",
            (cast.acme, AT, waits_for),
        )


@pytest.mark.parametrize("attach", [create_with, attach_to, restore_with, copy_from_elsewhere])
def test_attaching_an_unknown_tag_requests_a_replay_of_its_reads(cast: Cast, attach: Attach) -> None:
    tag = NewTag("rfid", EPC)
    if attach is not restore_with:
        keep_read_of(cast, tag)
    attach(cast, tag)
    expected = kept_messages.hash_of(cast.acme, "rfid", match_key(*tag))
    assert [request.tag_hash for request in kept_messages.requests()] == [expected]
    assert unknown_tags.list_tags(cast.acme) == []


def test_a_scan_that_waited_is_recorded_though_its_location_was_retired(
    cast: Cast, olga: actors.Actor, dock: int
) -> None:
    assert scan(olga, dock, EPC) is Result.UNKNOWN
    locations.delete(shell(cast.acme), dock)
    asset_id = create_with(cast, NewTag("rfid", EPC))
    assert [(move.location_id, move.location_is_live) for move in report.moves(cast.acme, asset_id)] == [(dock, 0)]
    assert scan(olga, dock, EPC) is Result.RECORDED  # a repeat of the recorded scan
    assert scan(olga, dock, EPC, 2) is Result.RETIRED  # new scans at the retired location must name another one
