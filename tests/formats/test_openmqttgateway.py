"""Peculiarities of OpenMQTTGateway."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import BEACON, EDDYSTONE, MAC, PLAIN_UUID, UUID


@pytest.mark.parametrize(
    ("device", "read"),
    [
        ({"id": MAC.lower()}, Read("ble", MAC, (), None, -74.0)),
        (
            {"id": UUID, "mac": MAC, "uuid": PLAIN_UUID, "major": 10, "minor": 257},
            Read("ble", MAC, (BEACON,), None, -74.0),
        ),
        ({"id": PLAIN_UUID, "mac": MAC, "major": 10, "minor": 257}, Read("ble", MAC, (BEACON,), None, -74.0)),
        ({"id": UUID, "major": 10, "minor": 257}, Read("ble", BEACON, (), None, -74.0)),
        (
            {"id": MAC, "manufacturerdata": "4c000215" + PLAIN_UUID + "000a0101c5"},
            Read("ble", MAC, (BEACON,), None, -74.0),
        ),
        (
            {
                "id": MAC,
                "servicedatauuid": "0xfeaa",
                "servicedata": "00ee00112233445566778899aabbccddeeff0000",
            },
            Read("ble", MAC, (EDDYSTONE,), None, -74.0),
        ),
        (
            {
                "id": MAC,
                "servicedatauuid": "0xfdcd",
                "servicedata": "00ee00112233445566778899aabbccddeeff0000",
            },
            Read("ble", MAC, (), None, -74.0),
        ),
    ],
)
def test_omg_id_is_the_mac_or_the_beacon_uuid(parse, device, read):
    assert parse("openmqttgateway", {**device, "rssi": -74}).reads == (read,)


@pytest.mark.parametrize("name", ["pallet 71", UUID, ""])
def test_omg_invalid_id_is_skipped(parse, name):
    assert parse("openmqttgateway", {"id": name, "rssi": -74}).skipped == 1


@pytest.mark.parametrize(
    "message",
    [
        {"id": MAC, "presence": "absent"},
        {"id": MAC, "success": True},
        {"id": MAC, "tempc": 21.5, "rssi": None},
    ],
)
def test_omg_message_without_rssi_is_not_a_read(parse, message):
    assert parse("openmqttgateway", message) == Parsed(Kind.STATUS)


@pytest.mark.parametrize("tail", ["SYStoMQTT", "BTtoMQTT/undecoded", "commands/MQTTtoBT/config"])
def test_omg_other_topics_are_ignored(parse, tail):
    parsed = parse("openmqttgateway", {"id": MAC, "rssi": -74}, topic=f"home/gateway/{tail}")
    assert parsed == Parsed(Kind.IGNORED)


@pytest.mark.parametrize(
    ("name", "topic"),
    [("openmqttgateway", "home/gateway/LWT"), ("espresense", "espresense/rooms/dock/status")],
)
def test_the_last_will_of_a_gateway_is_plain_text(parse, name, topic):
    assert parse(name, b"online", topic=topic) == Parsed(Kind.STATUS)
    assert parse(name, b"offline", topic=topic) == Parsed(Kind.OFFLINE)
