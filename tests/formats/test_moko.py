"""Peculiarities of MOKO gateways."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Malformed, Parsed, Read
from tests.formats.reader_samples import (
    BEACON,
    EDDYSTONE,
    EDDYSTONE_ADVERT,
    MAC,
    MOMENT,
    OTHER_MAC,
    PLAIN_UUID,
    WHOLE_SECOND,
)

OLDER_MOKO = {
    "msg_id": 3004,
    "device_info": {"device_id": "40915a1c77e2", "mac": "40915A1C77E2"},
    "data": [
        {
            "type": 1,
            "value": {
                "mac": "C30A114E7F21",
                "timestamp": "2026-3-2&8:15:30+00",
                "type": "iBeacon",
                "rssi": -58,
                "uuid": PLAIN_UUID.upper(),
                "major": 10,
                "minor": 257,
                "rssi@1m": -59,
            },
        },
        {
            "type": 0,
            "value": {
                "mac": "D4226B905C3E",
                "timestamp": "2026-3-2&8:15:30+00",
                "type": "Unknown",
                "rssi": -71,
                "raw data": EDDYSTONE_ADVERT,
                "name": "TAG-0071",
            },
        },
    ],
}


def test_moko_3004_with_a_list_is_the_older_generations_scan_report(parse):
    assert parse("moko", OLDER_MOKO).reads == (
        Read("ble", MAC, (BEACON,), None, -58.0, WHOLE_SECOND),
        Read("ble", OTHER_MAC, (EDDYSTONE,), None, -71.0, WHOLE_SECOND),
    )


@pytest.mark.parametrize(
    "message",
    [
        {"msg_id": 3004, "device_info": {}, "data": {"timestamp": 1772439330412, "net_interface": 0}},
        {"msg_id": 3003, "device_info": {}, "data": {"net_status": 1}},
        {"msg_id": 3070, "device_info": {}, "data": []},
    ],
)
def test_moko_3004_with_an_object_is_the_newer_generations_heartbeat(parse, message):
    assert parse("moko", message) == Parsed(Kind.STATUS)


@pytest.mark.parametrize("message", [{"msg_id": 1018, "data": {}}, {"msg_id": 3004, "data": 5}, {"msg_id": 3003}])
def test_moko_commands_to_a_gateway_and_unknown_shapes_are_ignored(parse, message):
    assert parse("moko", message).kind is Kind.IGNORED


def moko_time(parse, stamp):
    entry = {"mac": "c30a114e7f21", "rssi": -58, "timestamp": stamp}
    return parse("moko", {"msg_id": 3070, "data": [entry]})


@pytest.mark.parametrize(
    ("stamp", "observed_at"),
    [
        ("2026-3-2&8:15:30+00", WHOLE_SECOND),
        ("2026-3-2&2:15:30-06", WHOLE_SECOND),
        ("2026-03-02&16:15:30+8", WHOLE_SECOND),
        ("1970-1-1&0:0:5+08", None),
        (1772439330412, MOMENT),
        ("1772439330412", MOMENT),
        (4711, None),
        (0, None),
        (None, None),
    ],
)
def test_moko_times_of_both_generations_and_uptimes(parse, stamp, observed_at):
    assert moko_time(parse, stamp).reads[0].observed_at == observed_at


@pytest.mark.parametrize("stamp", ["2026-3-2&8:15:30", "2026-3-32&8:15:30+00", "today&now", True])
def test_moko_invalid_time_is_left_out(parse, stamp):
    assert moko_time(parse, stamp).reads[0].observed_at is None


def test_moko_vendor_tags_and_their_scan_response_are_read(parse):
    entry = {"mac": "c30a114e7f21", "type_code": 1, "adv_data": "020106", "rsp_data": EDDYSTONE_ADVERT}
    assert parse("moko", {"msg_id": 3070, "data": [entry]}).reads == (Read("ble", MAC, (EDDYSTONE,)),)


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("moko", b"\xef\x30\x00\x10"),
        ("minew", b"\xbb\x00\x01"),
        ("minew", b"\xbb\x01\x01"),
        ("minew", b"\xbb\x02"),
    ],
)
def test_a_binary_message_is_ignored_with_instructions(parse, name, payload):
    parsed = parse(name, payload)
    assert parsed.kind is Kind.IGNORED
    assert "to JSON" in parsed.note


@pytest.mark.parametrize("name", ["moko", "minew"])
def test_other_binary_messages_have_instructions(parse, name):
    with pytest.raises(Malformed, match="to JSON"):
        parse(name, b"\xec\x20\xc4\xde\xe2")
