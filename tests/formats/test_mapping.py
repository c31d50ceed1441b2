from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import msgspec
import pytest

from edge.formats.mapping import parser_for
from edge.formats.mapping_settings import Mapping, mapping_from
from edge.formats.paths import Path
from edge.formats.reads import Kind, Malformed, Parsed, Read
from tests.formats.reader_samples import EPC, MAC, MOMENT, OTHER_EPC


def parse(settings, message):
    return parser_for(mapping_from(settings))("any/topic", msgspec.json.encode(message))


@pytest.mark.parametrize(
    ("settings", "message", "read"),
    [
        pytest.param(
            {"list_path": "reads", "tag_path": "EPC", "time_path": "ts", "time_unit": "ms"},
            {"devid": "gate", "reads": [{"EPC": EPC, "ts": MOMENT // 1000}]},
            Read("rfid", EPC, observed_at=MOMENT),
            id="Keonn, a customary body",
        ),
        pytest.param(
            {"tag_path": "TagId", "rssi_path": "Rssi", "time_path": "DateTime", "time_unit": "iso"},
            {"Interface": "NFC", "TagId": "04A2B3C4", "Rssi": -40, "State": "Insert", "Uptime": 12},
            Read("rfid", "04A2B3C4", (), None, -40.0),
            id="SpringCard without its clock",
        ),
        pytest.param(
            {"tag_path": "EPC", "time_path": "timestamp", "time_unit": "iso"},
            [{"eventID": 7, "EPC": EPC, "timestamp": "2026-03-02T09:15:30.412+0100"}],
            Read("rfid", EPC, observed_at=MOMENT),
            id="portal gate, an array without a name",
        ),
        pytest.param(
            {
                "list_path": "tags",
                "tag_path": "tagId",
                "antenna_path": "antennaId",
                "rssi_path": "peakRSSI",
                "time_path": "firstSeenTime",
                "time_unit": "us",
            },
            {"tags": [{"tagId": EPC, "antennaId": 1, "peakRSSI": -61, "firstSeenTime": MOMENT}]},
            Read("rfid", EPC, (), 1, -61.0, MOMENT),
            id="bridge from LLRP",
        ),
        pytest.param(
            {"list_path": "$.tags", "tag_path": "epc", "antenna_path": "antennas[0]"},
            {"tags": [{"epc": "3074 257B F719 4E40 0000 1A85", "antennas": ["2", "3"]}]},
            Read("rfid", EPC, (), 2),
            id="bridge with groups of four and a list of antennas",
        ),
        pytest.param(
            {
                "list_path": "data",
                "tag_path": "bdaddrs[0].bdaddr",
                "tag_type": "ble",
                "rssi_path": "rssi",
                "time_path": "$.timestamp",
                "time_unit": "ms",
            },
            {"timestamp": MOMENT // 1000, "data": [{"bdaddrs": [{"bdaddr": MAC.lower()}], "rssi": -58}]},
            Read("ble", MAC, (), None, -58.0, MOMENT),
            id="Cassia, whose time stands on the envelope",
        ),
        pytest.param(
            {
                "tag_path": "addr",
                "tag_type": "ble",
                "rssi_path": "rssi",
                "time_path": "time",
                "time_unit": "s",
            },
            {"addr": MAC.lower(), "rssi": -58, "time": MOMENT / 1_000_000},
            Read("ble", MAC, (), None, -58.0, MOMENT),
            id="Shelly script",
        ),
        pytest.param(
            {"list_path": "scan", "tag_path": "code", "tag_type_path": "kind"},
            {"scan": {"code": "A-1", "kind": "Barcode"}},
            Read("barcode", "A-1"),
            id="one object in place of a list, with its type",
        ),
    ],
)
def test_custom_payloads_are_parsed(settings, message, read):
    assert parse(settings, message) == Parsed(Kind.READS, (read,))


def test_a_message_without_the_required_key_is_ignored():
    settings = {"tag_path": "epc", "required_key": "event.read"}
    assert parse(settings, {"epc": EPC, "event": {"read": 1}}).kind is Kind.READS
    assert parse(settings, {"epc": EPC, "event": {"alarm": 1}}).kind is Kind.IGNORED


@pytest.mark.parametrize(
    "message",
    [{}, {"tags": None}, {"tags": "none"}, {"tags": {"list": 5}}, {"tags": [1]}, {"x": {"list": []}}],
)
def test_a_message_without_the_path_is_ignored(message):
    assert parse({"list_path": "tags.list", "tag_path": "epc"}, message).kind is Kind.IGNORED


def test_an_empty_list_is_a_status():
    assert parse({"list_path": "tags", "tag_path": "epc"}, {"tags": []}) == Parsed(Kind.STATUS)


def test_a_misspelled_path_is_reported_with_the_fields_of_the_entry():
    parsed = parse({"list_path": "tags", "tag_path": "epcc"}, {"tags": [{"epc": EPC, "rssi": -60}]})
    assert (parsed.skipped, parsed.note) == (1, "entry 1: nothing at epcc; the entry has epc, rssi")


def test_an_advertisement_without_a_beacon_is_not_reported_as_missing():
    parsed = parse({"advertisement_path": "adv"}, {"adv": "020106"})
    assert parsed.note == "entry 1: no complete iBeacon or Eddystone UID at the mapped path, and no tag"


@pytest.mark.parametrize(("payload", "kind"), [(b"ON", "lines"), (b"\x81\xa3epc", "msgpack")])
def test_a_payload_that_is_not_json_has_instructions(payload, kind):
    with pytest.raises(Malformed, match=f'set "payload": "{kind}"'):
        parser_for(mapping_from({"tag_path": "epc"}))("site/reader", payload)


@pytest.mark.parametrize("bad", [{"epc": "pallet"}, {}, {"epc": EPC, "kind": "nfc"}, {"epc": EPC, "kind": 5}])
def test_a_bad_entry_does_not_affect_others(bad):
    settings = {
        "list_path": "tags",
        "tag_path": "epc",
        "tag_type_path": "kind",
        "time_path": "t",
        "time_unit": "iso",
    }
    good = [{"epc": EPC, "kind": "rfid"}, {"epc": OTHER_EPC, "kind": "rfid"}]
    parsed = parse(settings, {"tags": [good[0], {"kind": "rfid", **bad}, good[1]]})
    assert ([read.value for read in parsed.reads], parsed.skipped) == ([EPC, OTHER_EPC], 1)


def test_an_object_without_the_tag_in_an_array_is_counted():
    assert parse({"tag_path": "EPC"}, [{"EPC": EPC}, {"gateID": "G1"}]).skipped == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "tag_path is missing: write the path of the tag in a read, for example epc"),
        ({"tag_path": " epc."}, 'tag_path is " epc.": write a path such as data.tags or items[0].id, or an expression'),
        ({"tag_path": 5}, "tag_path is 5: write a path such as data.tags or items[0].id"),
        ({"tag_path": "a..b"}, 'tag_path is "a..b": write a path such as data.tags or items[0].id, or an expression'),
        ({"tag_path": "a[x"}, 'tag_path is "a[x": write a path such as data.tags or items[0].id, or an expression'),
        ({"tag_path": "epc", "tag_type": "nfc"}, 'tag_type is "nfc": write one of rfid, ble, barcode'),
        ({"tag_path": "epc", "time_path": "t"}, "time_unit is missing: write one of s, ms, us, iso"),
        (
            {"tag_path": "epc", "time_path": "t", "time_unit": "ns"},
            'time_unit is "ns": write one of s, ms, us, iso',
        ),
        (
            {"tag_path": "epc", "antena_path": "a"},
            "antena_path is not a key of a mapping: write one of tag_path, tag_type, tag_type_path",
        ),
    ],
)
def test_an_invalid_setting_has_the_key_and_instructions(settings, reason):
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        mapping_from(settings)


def test_a_mapping_is_frozen_and_blank_settings_are_ignored():
    mapping = mapping_from({"tag_path": "data.epc", "list_path": "", "tag_type": None, "time_unit": ""})
    assert mapping == Mapping(tag_path=Path("data.epc", ("data", "epc")))
    with pytest.raises(FrozenInstanceError):
        mapping.tag_type = "ble"  # type: ignore[misc]
