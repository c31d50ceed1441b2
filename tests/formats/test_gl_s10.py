"""Peculiarities of GL-S10 gateways."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import ADVERT, BEACON, EDDYSTONE, EDDYSTONE_ADVERT, MAC, MOMENT, OTHER_MAC


def test_gl_s10_older_firmware_sends_one_advertisement_without_a_time(parse):
    message = {"mac": MAC.lower(), "rssi": "-62", "adv_data": ADVERT, "scan_resp": EDDYSTONE_ADVERT}
    parsed = parse("gl_s10", message, topic="gl-s10-scanResult")
    assert parsed.reads == (Read("ble", MAC, (BEACON, EDDYSTONE), None, -62.0),)


def test_gl_s10_reports_each_advertisement_of_a_device(parse):
    scans = [{"mac": "C30A114E7F21", "ad": "020106", "rssi": -62 - n, "ts": 1772439330412 + n} for n in range(7)]
    reads = parse("gl_s10", {"dev_list": scans}).reads
    assert [read.observed_at for read in reads] == [MOMENT + n * 1_000 for n in range(7)]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"dev_list_len": 0, "dev_list": []}, Kind.STATUS),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, Kind.STATUS),
        ({"jsonrpc": "2.0", "id": 1, "method": "reboot"}, Kind.IGNORED),
        ({"dev_list": {}}, Kind.IGNORED),
    ],
)
def test_gl_s10_messages_without_devices(parse, message, kind):
    assert parse("gl_s10", message) == Parsed(kind)


@pytest.mark.parametrize("address", ["C30A114E7F2", "C30A114E7F2G", "", None, 5, True, "C3:0A:11:4E:7F:21:00"])
def test_an_advertisement_without_a_mac_is_skipped(parse, address):
    scans = [
        {"mac": address, "ad": "020106", "rssi": -60},
        {"mac": "D4226B905C3E", "ad": "020106", "rssi": -71},
    ]
    parsed = parse("gl_s10", {"dev_list": scans})
    assert ([read.value for read in parsed.reads], parsed.skipped) == ([OTHER_MAC], 1)
