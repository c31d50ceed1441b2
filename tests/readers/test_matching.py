"""Matching of tags to assets: exact value first, then match key."""

from __future__ import annotations

import pytest

from edge.audit.actors import shell
from edge.readers.matching import NoAsset, TagMatcher
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.conftest import Cast

BEACON = "5b2f0c1e-8d47-4f0a-9c33-71de20aa4b10"


def tagged(organization_id: int, tag_type: str, value: str) -> int:
    return assets.create(shell(organization_id), name="thing", tags=[NewTag(tag_type, value)]).id


def match(organization_id: int, tag_type: str, value: str, *aliases: str) -> int | NoAsset:
    matcher = TagMatcher()
    matcher.prepare((organization_id, tag_type, one) for one in (value, *aliases))
    return matcher.match(organization_id, tag_type, value, aliases)


@pytest.mark.parametrize(
    ("tag_type", "registered", "read"),
    [
        ("rfid", "3074257BF7194E4000001A85", "3074257bf7194e4000001a85"),
        ("rfid", "10018", "000000000000000000010018"),
        ("rfid", "3074 257B F719 4E40 0000 1A85", "3074257BF7194E4000001A85"),
        ("rfid", "0x10018", "00010018"),
        ("ble", "c3:0a:11:4e:7f:21", "C30A114E7F21"),
        ("ble", "C3-0A-11-4E-7F-21", "C3:0A:11:4E:7F:21"),
        ("ble", f"{BEACON}:10:257", f"{BEACON.upper().replace('-', '')}:10:257"),
        ("barcode", "]C1ABC-1", "ABC-1\r\n"),
        ("barcode", "ABC-1", "]Q3ABC-1"),
    ],
)
def test_spellings_of_one_identity_match(cast: Cast, tag_type: str, registered: str, read: str) -> None:
    asset = tagged(cast.acme, tag_type, registered)
    assert match(cast.acme, tag_type, read) == asset


@pytest.mark.parametrize(
    ("tag_type", "registered", "read"),
    [
        ("rfid", "10018", "10019"),
        ("rfid", "PALLET-7", "PALLET7"),
        ("rfid", "0000", "000000000000000000000000"),
        ("ble", f"{BEACON}:102:57", f"{BEACON}:10:257"),
        ("barcode", "abc-1", "ABC-1"),
        ("barcode", "00123", "123"),
    ],
)
def test_different_identities_do_not_match(cast: Cast, tag_type: str, registered: str, read: str) -> None:
    tagged(cast.acme, tag_type, registered)
    assert match(cast.acme, tag_type, read) is NoAsset.UNMATCHED


def test_one_value_under_two_types_is_two_identities(cast: Cast) -> None:
    by_rfid, by_barcode = tagged(cast.acme, "rfid", "1234"), tagged(cast.acme, "barcode", "1234")
    assert match(cast.acme, "rfid", "1234") == by_rfid
    assert match(cast.acme, "barcode", "1234") == by_barcode


def test_two_tags_with_one_match_key_are_ambiguous_unless_one_is_exact(cast: Cast) -> None:
    first, _ = tagged(cast.acme, "rfid", "ABC"), tagged(cast.acme, "rfid", "0ABC")
    assert match(cast.acme, "rfid", "00ABC") is NoAsset.AMBIGUOUS
    assert match(cast.acme, "rfid", "ABC") == first


def test_an_alias_counts_when_the_first_identity_is_unknown(cast: Cast) -> None:
    asset = tagged(cast.acme, "ble", f"{BEACON}:10:257")
    assert match(cast.acme, "ble", "C3:0A:11:4E:7F:21", f"{BEACON}:10:257") == asset


def test_a_location_tag_is_not_an_asset(cast: Cast) -> None:
    locations.create(shell(cast.acme), name="Dock", tags=[NewTag("rfid", "10018")])
    assert match(cast.acme, "rfid", "10018") is NoAsset.LOCATION
    assert match(cast.acme, "rfid", "010018") is NoAsset.LOCATION


def test_matches_are_cached_until_a_tag_changes(cast: Cast) -> None:
    matcher = TagMatcher()

    def ask() -> int | NoAsset:
        matcher.prepare([(cast.acme, "rfid", "10018")])
        return matcher.match(cast.acme, "rfid", "10018")

    assert ask() is NoAsset.UNMATCHED
    asset = tagged(cast.acme, "rfid", "10018")
    assert ask() == asset
    assets.delete(shell(cast.acme), asset)
    assert ask() is NoAsset.UNMATCHED


def test_another_organizations_tag_is_unknown(cast: Cast) -> None:
    tagged(cast.rival, "rfid", "10018")
    assert match(cast.acme, "rfid", "10018") is NoAsset.UNMATCHED
