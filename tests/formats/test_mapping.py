from __future__ import annotations

import gzip
import re
import time
from base64 import b64encode
from dataclasses import FrozenInstanceError

import msgspec
import pytest

from edge.formats import registry
from edge.formats.framing import MOST_ENTRIES
from edge.formats.mapping import parser_for
from edge.formats.mapping_settings import Mapping, mapping_from
from edge.formats.paths import Path
from edge.formats.reads import Kind, Malformed, Parsed, Read, WallTime
from edge.formats.sensor_values import SensorValues
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
        ({"tag_path": "epc", "time_path": "t"}, "time_unit is missing: write one of s, ms, us, ns, iso, or a format"),
        (
            {"tag_path": "epc", "time_path": "t", "time_unit": "min"},
            'time_unit is "min": write one of s, ms, us, ns, iso, or a format',
        ),
        (
            {"tag_path": "epc", "time_path": "t", "time_unit": "%d.%m.%Y %d"},  # strptime raises re.error for a message
            "time_unit has %d twice: write each code once",
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


def test_gzip_is_unpacked_up_to_a_limit():
    parse_it = parser_for(mapping_from({"tag_path": "epc"}))
    assert parse_it("t", gzip.compress(msgspec.json.encode({"epc": EPC}))).reads == (Read("rfid", EPC),)
    bomb = gzip.compress(b" " * 50_000_000)
    for payload, reason in (
        (bomb, "more than 1,048,576 bytes"),
        (gzip.compress(b"{}")[:-4], "incomplete"),
        (b"\x1f\x8bxx", "not gzip"),
    ):
        with pytest.raises(Malformed, match=reason):
            parse_it("t", payload)


def test_all_parts_of_a_message_share_the_limit_of_gzip():
    part = b64encode(gzip.compress(b" " * 300_000 + b"{}")).decode()
    parse_it = parser_for(mapping_from({"content_path": "data", "tag_path": "epc"}))
    assert parse_it("t", msgspec.json.encode([{"data": part}] * 3)).kind is Kind.IGNORED
    with pytest.raises(Malformed, match="more than 1,048,576 bytes after gzip"):
        parse_it("t", msgspec.json.encode([{"data": part}] * 4))


def test_an_envelope_without_its_content_is_ignored_with_its_fields():
    parsed = parse({"content_path": "data", "tag_path": "epc"}, {"status": "up"})
    assert (parsed.kind, parsed.note) == (Kind.IGNORED, "nothing at data; the message has status")


def test_sensor_values_are_optional_fields():
    settings = {"tag_path": "mac", "tag_type": "ble", "battery_path": "b", "temperature_path": "t", "button_path": "p"}
    parsed = parse(settings, [{"mac": MAC, "b": 80, "t": "21.5", "p": "pressed"}, {"mac": MAC, "b": "low", "p": 0}])
    assert [read.sensors for read in parsed.reads] == [SensorValues(80, None, 21.5, True), None]
    assert parsed.fields["battery_path"].unreadable == 1


@pytest.mark.parametrize(
    ("unit", "sent", "expected"),
    [
        ("ns", MOMENT * 1000, MOMENT),
        ("ns", str(MOMENT * 1000), MOMENT),
        ("%Y%m%d%H%M%S%z", "20260302091530+0100", 1_772_439_330_000_000),
        ("%d.%m.%Y %H:%M", "02.03.2026 09:15", WallTime(1_772_442_900_000_000)),
        ("%a, %d %b %Y %H:%M:%S %Z", "Mon, 02 Mar 2026 08:15:30 GMT", 1_772_439_330_000_000),
        ("%d.%m.%Y %H:%M:%S%Z", "02.03.2026 08:15:30Z", 1_772_439_330_000_000),
        ("%d.%m.%Y %H:%M:%S %Z", "02.03.2026 08:15:30 CET", None),
        ("%d.%m.%Y", "2026-03-02", None),
        ("ms", MOMENT * 1000, None),
    ],
)
def test_units_and_formats_of_time(unit, sent, expected):
    [read] = parse({"tag_path": "epc", "time_path": "t", "time_unit": unit}, {"epc": EPC, "t": sent}).reads
    assert read.observed_at == expected


@pytest.mark.parametrize(
    ("settings", "payload"),
    [
        ({"payload": "lines", "columns": ["epc"]}, b"1\n" * (MOST_ENTRIES + 1)),
        ({"payload": "lines", "columns": ["header"]}, b"epc\n" + b"1\n" * (MOST_ENTRIES + 1)),
        ({"payload": "msgpack"}, msgspec.msgpack.encode([[]] * (MOST_ENTRIES + 1))),
        ({}, b"[" + b"{}," * MOST_ENTRIES + b"{}]"),
        ({}, b"{}" * (MOST_ENTRIES + 1)),
        ({"list_path": "a"}, b'{"a":[' + b"1," * MOST_ENTRIES + b"1]}"),
        ({"list_path": "a"}, (b'{"a":[' + b"1," * 10_000 + b"1]}") * 2),
        ({"content_path": "c"}, b'{"c":"' + b64encode(b"{}" * (MOST_ENTRIES + 1)) + b'"}'),
    ],
)
def test_a_message_with_very_many_entries_is_refused_in_time(settings, payload):
    """A million of them took seconds in the transaction that all readers share, and 300 MB; gzip makes them 2 KB."""
    parse_it = parser_for(mapping_from({"tag_path": "epc", **settings}))
    began = time.process_time()
    with pytest.raises(Malformed, match="more than 20,000 entries"):
        parse_it("t", payload)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("payload", [b"[" + b"{}," * MOST_ENTRIES + b"{}]", b"{}" * (MOST_ENTRIES + 1)])
def test_so_is_one_of_any_make(payload):
    for name, one in registry.FORMATS.items():
        if name not in ("april_brother", "ruuvi", "espresense"):  # they have no lists
            with pytest.raises(Malformed, match="more than 20,000 entries"):
                one.parse("a/b", payload)
