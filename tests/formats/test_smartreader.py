"""Peculiarities of SmartReader."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import EPC, MOMENT

HEARTBEAT = {"epc": "*****", "isHeartBeat": True, "firstSeenTimestamp": MOMENT}


def test_the_pseudo_tag_is_neither_read_nor_skipped(parse):
    entries = [HEARTBEAT, {"epc": EPC}, {"epc": "*****"}, {"epc": "AAAA", "isInventoryStatus": True}]
    assert parse("smartreader", {"tag_reads": entries}) == Parsed(Kind.READS, (Read("rfid", EPC),))


def test_a_heartbeat_is_a_status(parse):
    assert parse("smartreader", {"readerName": "dock-1", "tag_reads": [HEARTBEAT]}) == Parsed(Kind.STATUS)


@pytest.mark.parametrize(
    ("message", "parsed"),
    [
        ({"smartreader-mqtt-status": "disconnected"}, Parsed(Kind.OFFLINE)),
        ({"smartreader-mqtt-status": "connected", "readerName": "dock-1"}, Parsed(Kind.STATUS)),
        ({"smartreader-status": "inventory-idle"}, Parsed(Kind.STATUS, note="inventory-idle")),
        ({"readerName": "dock-1", "tag_reads_positioning": [{"epc": EPC}]}, Parsed(Kind.STATUS)),
        ({"command": "start"}, Parsed(Kind.IGNORED)),
    ],
)
def test_smartreader_status_messages(parse, message, parsed):
    assert parse("smartreader", message) == parsed


def test_the_older_bridge_sends_times_as_text_or_numbers(parse):
    message = {
        "reader_name": "dock-1",
        "mac_address": "00:16:25:18:2B:0E",
        "tag_reads": [
            {
                "epc": EPC,
                "antennaPort": "2",
                "peakRssi": "-52.5",
                "firstSeenTimestamp": "2026-03-02T08:15:30.412Z",
            }
        ],
    }
    assert parse("smartreader", message).reads == (Read("rfid", EPC, (), 2, -52.5, MOMENT),)
