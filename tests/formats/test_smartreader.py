"""What is odd about SmartReader."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import EPC, MOMENT

HEARTBEAT = {"epc": "*****", "isHeartBeat": True, "firstSeenTimestamp": MOMENT}


def test_the_tag_that_does_not_exist_is_no_read_and_nothing_skipped(told):
    entries = [HEARTBEAT, {"epc": EPC}, {"epc": "*****"}, {"epc": "AAAA", "isInventoryStatus": True}]
    assert told("smartreader", {"tag_reads": entries}) == Parsed(Kind.READS, (Read("rfid", EPC),))


def test_a_heartbeat_alone_is_a_sign_of_life(told):
    assert told("smartreader", {"readerName": "dock-1", "tag_reads": [HEARTBEAT]}) == Parsed(Kind.STATUS)


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
def test_what_smartreader_says_of_itself(told, message, parsed):
    assert told("smartreader", message) == parsed


def test_the_older_bridge_writes_times_as_text_and_numbers_too(told):
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
    assert told("smartreader", message).reads == (Read("rfid", EPC, (), 2, -52.5, MOMENT),)
