"""Mappings with expressions, and the example mappings with their own messages."""

from __future__ import annotations

import json
from base64 import b64encode

import cbor2
import pytest
from msgspec import msgpack

from edge.formats.examples import examples
from edge.formats.mapping import parser_for
from edge.formats.mapping_settings import mapping_from
from edge.formats.reads import Kind, Malformed, Parsed, Read
from edge.formats.sensor_values import SensorValues
from tests.formats.reader_samples import ADVERT, BEACON, EPC, MAC, MOMENT, OTHER_EPC, UUID

SECONDS = MOMENT // 1_000_000 * 1_000_000
EXAMPLES = {
    "aruba": Read("ble", MAC, (BEACON,), None, -66.0, SECONDS, "ap-dock-1"),
    "cassia": Read("ble", MAC, (BEACON,), None, -58.0, MOMENT),
    "keonn": Read("rfid", EPC, (), 1, -58.0, MOMENT),
    "kontakt": Read("ble", MAC, (), None, -71.0, SECONDS, "portal-beam-7"),
    "lines": Read("rfid", EPC, (), 1, -58.0, MOMENT),
    "llrp": Read("rfid", EPC, (), 1, -61.0, MOMENT),
    "shelly": Read("ble", MAC, (), None, -58.0),
    "shelly-topic": Read("ble", MAC, (), None, -58.0, antenna_name="shelly-dock"),
    "tasmota": Read("rfid", "04A2B3C4"),
    "uns": Read("rfid", EPC, (), None, None, MOMENT, "antenna2"),
    "value": Read("rfid", EPC),
}


def parse(settings, message, topic="site/dock/reads") -> Parsed:
    payload = message if isinstance(message, bytes) else json.dumps(message).encode()
    return parser_for(mapping_from(settings))(topic, payload)


def test_every_example_has_an_expected_result():
    assert examples().keys() == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_parses_its_own_message(name):
    example = examples()[name]
    parsed = parser_for(mapping_from(example.mapping))(example.topic, example.payload)
    assert parsed == Parsed(Kind.READS, (EXAMPLES[name],))
    assert example.title


@pytest.mark.parametrize("rssi", [{"avg": -66}, {"last": -66}, {"max": -66}, {"history": [{"time": 1, "rssi": -66}]}])
def test_access_points_report_rssi_by_their_transport_profile(rssi):
    mapping = examples()["aruba"].mapping
    message = {"reported": [{"mac": MAC, "rssi": rssi}]}
    assert [read.rssi for read in parse(mapping, message).reads] == [-66.0]


def test_access_points_forward_advertisements_as_they_are():
    mapping = examples()["aruba"].mapping
    raw = b64encode(bytes.fromhex(ADVERT)).decode()
    entry = {"mac": MAC, "frameType": "adv_ind", "data": raw, "rssi": -61, "addrType": "random"}
    message = {"reporter": {"name": "ap-1"}, "reported": [], "bleData": [entry]}
    assert parse(mapping, message).reads == (Read("ble", MAC, (BEACON,), None, -61.0, antenna_name="ap-1"),)


@pytest.mark.parametrize(
    ("settings", "message", "read"),
    [
        pytest.param({"tag_path": "$topic[-1]"}, {"rssi": 1}, Read("rfid", "3074"), id="the tag in the topic"),
        pytest.param(
            {"tag_path": "e", "antenna_path": "$topic[0]"},
            {"e": EPC},
            Read("rfid", EPC, antenna_name="site"),
            id="name",
        ),
        pytest.param(
            {"tag_path": "e", "antenna_path": "$topic[2]"}, {"e": EPC}, Read("rfid", EPC, antenna=2), id="number"
        ),
        pytest.param({"tag_path": "e", "antenna_path": "$topic[9]"}, {"e": EPC}, Read("rfid", EPC), id="not there"),
        pytest.param(
            {"tag_path": "e", "reader_path": "gate", "antenna_path": "a"},
            {"e": EPC, "gate": "G1", "a": 2},
            Read("rfid", EPC, antenna_name="G1/2"),
            id="several readers in one topic",
        ),
        pytest.param(
            {"uuid_path": "u", "major_path": "a", "minor_path": "i"},
            {"u": UUID.upper(), "a": "10", "i": 257},
            Read("ble", BEACON),
            id="a beacon by its three fields",
        ),
        pytest.param({"advertisement_path": "raw"}, {"raw": ADVERT}, Read("ble", BEACON), id="raw advertisement"),
        pytest.param(
            {"advertisement_path": "raw", "tag_path": "mac", "tag_type": "ble"},
            {"raw": b64encode(bytes.fromhex(ADVERT)).decode(), "mac": MAC},
            Read("ble", MAC, (BEACON,)),
            id="raw advertisement in base64",
        ),
        pytest.param(
            {"advertisement_path": "raw"}, {"raw": ADVERT[10:]}, Read("ble", BEACON), id="manufacturer data alone"
        ),
        pytest.param(
            {"advertisement_path": "raw", "company_data": "0499[18:24]"},
            {"raw": "0201061BFF9904050E5F48A8C81E000CFFEC03ECA156110BCDE71A40C95B08"},
            Read("ble", "E7:1A:40:C9:5B:08", sensors=SensorValues(89, 2890, 18.395)),
            id="bytes of a company",
        ),
        pytest.param(
            {"tag_path": "e", "tag_encoding": "base64"}, {"e": "MHQle_cZTkAAABqF"}, Read("rfid", EPC), id="base64"
        ),
        pytest.param({"tag_path": "e", "tag_prefix": "EPC:"}, {"e": f"EPC:{EPC}"}, Read("rfid", EPC), id="a prefix"),
        pytest.param({"tag_path": "e", "epc_strip": ["pc"]}, {"e": f"3000{EPC}"}, Read("rfid", EPC), id="PC word"),
        pytest.param(
            {"tag_path": "e", "epc_strip": ["pc", "crc"]}, {"e": f"3000{EPC}7B02"}, Read("rfid", EPC), id="PC and CRC"
        ),
        pytest.param(
            {"tag_path": "join('', [a, b])"}, {"a": EPC[:12], "b": EPC[12:]}, Read("rfid", EPC), id="expression"
        ),
        pytest.param({"tag_path": "@"}, [EPC], Read("rfid", EPC), id="a list of bare tags"),
        pytest.param({"tag_path": "@"}, EPC, Read("rfid", EPC), id="a bare value in quotes"),
        pytest.param(
            {"payload": "msgpack", "tag_path": "e"},
            msgpack.encode({"e": bytes.fromhex(EPC)}),
            Read("rfid", EPC),
            id="bytes",
        ),
        pytest.param(
            {"payload": "cbor", "tag_path": "e", "rssi_path": "r"},
            cbor2.dumps({"e": bytes.fromhex(EPC), "r": -58}),
            Read("rfid", EPC, (), None, -58.0),
            id="CBOR",
        ),
        pytest.param(
            {"payload": "lines", "columns": "header", "delimiter": ";", "tag_path": "EPC", "rssi_path": "RSSI"},
            f"\ufeffEPC; RSSI\n{EPC};-58 dBm\n".encode(),
            Read("rfid", EPC, (), None, -58.0),
            id="csv with its header",
        ),
        pytest.param(
            {"payload": "lines", "delimiter": "\\t", "tag_path": "[1]"},
            f"1\t{EPC}".encode(),
            Read("rfid", EPC),
            id="tabs",
        ),
        pytest.param(
            {"payload": "lines", "tag_path": "[1]"}, f"tag,{EPC}".encode(), Read("rfid", EPC), id="columns by number"
        ),
    ],
)
def test_a_mapping_can_use_fields_outside_the_entry(settings, message, read):
    assert parse(settings, message, "site/dock/2/3074") == Parsed(Kind.READS, (read,))


def test_nested_lists_can_use_fields_of_enclosing_entries():
    settings = {
        "list_path": ["ports", "tags"],
        "tag_path": "epc",
        "antenna_path": "^.port",
        "time_path": "^.^.at",
        "time_unit": "us",
    }
    message = {
        "at": MOMENT,
        "ports": [{"port": 1, "tags": [{"epc": EPC}]}, {"port": 2, "tags": [{"epc": OTHER_EPC}, {"epc": EPC}]}, {}],
    }
    reads = parse(settings, message).reads
    assert [(read.value, read.antenna, read.observed_at) for read in reads] == [
        (EPC, 1, MOMENT),
        (OTHER_EPC, 2, MOMENT),
        (EPC, 2, MOMENT),
    ]


def test_an_entry_that_fails_the_condition_is_not_a_read():
    settings = {"list_path": "tags", "tag_path": "epc", "condition": "state != 'OFF' && rssi > `-70`"}
    tags = [{"epc": EPC, "state": "OFF", "rssi": -50}, {"epc": EPC, "state": "ON", "rssi": -80}]
    assert parse(settings, {"tags": tags}) == Parsed(Kind.STATUS)
    assert len(parse(settings, {"tags": [*tags, {"epc": EPC, "state": "ON", "rssi": -60}]}).reads) == 1


@pytest.mark.parametrize("sent", [f"3400{EPC[:-4]}", f"30{EPC[:2]}", "30"])
def test_a_pc_word_that_does_not_fit_is_a_bad_read(sent):
    assert parse({"tag_path": "e", "epc_strip": "pc"}, {"e": sent}).skipped == 1


def test_a_failing_expression_skips_its_entry_with_a_reason():
    parsed = parse({"list_path": "tags", "tag_path": "join('', a)"}, {"tags": [{"a": 5}, {"a": [EPC]}]})
    assert (len(parsed.reads), parsed.skipped) == (1, 1)
    assert str(parsed.note).startswith("entry 1: join('', a): ")


def test_a_missing_field_is_reported_with_the_existing_fields():
    assert parse({"list_path": "tgs", "tag_path": "e"}, {"seq": 1, "tags": []}).note == (
        "list_path tgs is not a list; the message has seq, tags"
    )
    assert parse({"tag_path": "epc"}, {"EPC": EPC}).note == "nothing at epc; the message has EPC"


@pytest.mark.parametrize("payload", [b"", b"\xff\xfe", b"a" * 200_000])
def test_unreadable_lines_are_rejected(payload):
    with pytest.raises(Malformed):
        parse({"payload": "lines", "tag_path": "[0]"}, payload)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tag_path": "a[?"}, "or an expression of JMESPath"),
        ({"tag_path": "e", "condition": "nosuch(e)"}, ""),
        ({"tag_path": "e", "payload": "xml"}, "write one of json, lines, msgpack, cbor"),
        ({"tag_path": "e", "delimiter": ",,"}, "the one character between two columns"),
        ({"tag_path": "e", "columns": [1]}, "write a list of names"),
        ({"tag_path": "e", "epc_strip": ["tid"]}, "epc_strip has tid: write some of pc, crc"),
        ({"tag_path": "e", "company_data": "Ruuvi"}, "such as 0499[18:24]"),
        ({"tag_path": "e", "list_path": ["a"] * 5}, "write 4 at most"),
        ({"tag_path": "e", "tag_prefix": "x" * 101}, "at most 100 characters"),
        ([], "write an object"),
    ],
)
def test_invalid_settings_have_instructions(settings, expected):
    if not expected:
        assert parse(settings, {"e": EPC}).skipped == 1
        return
    with pytest.raises(ValueError, match=r".") as refused:
        mapping_from(settings)
    assert expected in str(refused.value)
