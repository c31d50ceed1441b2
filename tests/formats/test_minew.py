"""What is odd about gateways of Minew."""

from __future__ import annotations

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import ADVERT, BEACON, MAC, MOMENT, OTHER_MAC


def test_minew_gateway_element_alone_is_a_heartbeat(told):
    gateway = {"timestamp": "2026-03-02T08:15:30.412Z", "type": "Gateway", "mac": "AC233FC0A7D1"}
    assert told("minew", [gateway]) == Parsed(Kind.STATUS)


def test_minew_compact_mode_is_read_without_its_gateway(told):
    message = [
        {"gateway": "AC233FC0A7D1", "locator": 1},
        {"mac": "C30A114E7F21", "no": 7, "rssi": -61, "timestamp": "2026-03-02T08:15:30.412Z"},
    ]
    assert told("minew", message) == Parsed(Kind.READS, (Read("ble", MAC, (), None, -61.0, MOMENT),))


def test_minew_raw_data_gives_the_identity_that_is_not_decoded(told):
    message = [{"type": "Unknown", "mac": "C30A114E7F21", "rssi": -61, "rawData": ADVERT}, {"mac": OTHER_MAC}]
    assert told("minew", message).reads[0].aliases == (BEACON,)
