"""Peculiarities of Minew gateways."""

from __future__ import annotations

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import ADVERT, BEACON, MAC, MOMENT, OTHER_MAC


def test_minew_gateway_element_alone_is_a_heartbeat(parse):
    gateway = {"timestamp": "2026-03-02T08:15:30.412Z", "type": "Gateway", "mac": "AC233FC0A7D1"}
    assert parse("minew", [gateway]) == Parsed(Kind.STATUS)


def test_minew_compact_mode_is_read_without_its_gateway(parse):
    message = [
        {"gateway": "AC233FC0A7D1", "locator": 1},
        {"mac": "C30A114E7F21", "no": 7, "rssi": -61, "timestamp": "2026-03-02T08:15:30.412Z"},
    ]
    assert parse("minew", message) == Parsed(Kind.READS, (Read("ble", MAC, (), None, -61.0, MOMENT),))


def test_minew_raw_data_has_the_identity_if_it_is_not_decoded(parse):
    message = [{"type": "Unknown", "mac": "C30A114E7F21", "rssi": -61, "rawData": ADVERT}, {"mac": OTHER_MAC}]
    assert parse("minew", message).reads[0].aliases == (BEACON,)
