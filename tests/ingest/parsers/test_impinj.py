"""Zebra sleds, Impinj and SmartReader: what is odd about each."""

from __future__ import annotations

import pytest

from edge.ingest.reads import Kind, Malformed, Parsed, Read
from tests.ingest.parsers.reader_samples import EPC, MOMENT, OTHER_EPC

TID = "E2801190A5030065F26CCBFF"


def sled(**data):
    return {"type": "BALANCED_PERFORMANCE", "timestamp": "2026-03-02T08:15:30.412Z", "data": data}


def test_a_sled_may_send_barcodes_alone(told):
    reads = told("zebra_sled", sled(barcodeData=[{"decodedBarcode": " ABC-1\r\n"}])).reads
    assert reads == (Read("barcode", "ABC-1", observed_at=MOMENT),)


def test_the_separators_of_gs1_data_are_kept(told):
    code = "]C1010950600013435221ABC\x1d10LOT\x1d"
    assert told("zebra_sled", sled(barcodeData=[{"decodedBarcode": code}])).reads[0].value == code


@pytest.mark.parametrize("code", [None, "", "  ", 1.5, "x" * 300])
def test_a_barcode_that_is_no_text_is_skipped_beside_its_neighbours(told, code):
    parsed = told(
        "zebra_sled",
        sled(tagData=[{"EPCid": EPC}], barcodeData=[{"decodedBarcode": code}, {"decodedBarcode": "A"}]),
    )
    assert [read.value for read in parsed.reads] == [EPC, "A"]
    assert parsed.skipped == 1


@pytest.mark.parametrize(
    ("message", "parsed"),
    [
        ({"eventName": "heartbeat", "data": {"batteryAlert": {}}}, Parsed(Kind.STATUS)),
        ({"eventName": "batteryAlert", "data": {}}, Parsed(Kind.STATUS, note="batteryAlert")),
        ({"connectionState": "CONNECTED"}, Parsed(Kind.STATUS)),
        ({"connectionState": "DISCONNECTED"}, Parsed(Kind.OFFLINE)),
        ({"eventName": "mqttConnEVT", "data": {"connectionState": "DISCONNECTED"}}, Parsed(Kind.OFFLINE)),
        (sled(tagData=[], barcodeData=[]), Parsed(Kind.STATUS)),
        (sled(), Parsed(Kind.IGNORED)),
        ({"data": []}, Parsed(Kind.IGNORED)),
    ],
)
def test_what_a_sled_says_of_itself(told, message, parsed):
    assert told("zebra_sled", message) == parsed


def impinj(**tag):
    return {"timestamp": "2026-03-02T08:15:30.432087177Z", "tagInventoryEvent": tag}


def test_the_default_event_of_an_r700(told):
    message = impinj(
        epc="4oARkKUDAGXybMv_", antennaPort=1, peakRssiCdbm=-7150, frequency=865700, transmitPowerCdbm=3000
    )
    expected = Read("rfid", "E2801190A5030065F26CCBFF", (), 1, -71.5, MOMENT + 20_087)
    assert told("impinj", message).reads == (expected,)


@pytest.mark.parametrize(
    ("spelt", "value"),
    [
        ("MHQle_cZTkAAABqF", EPC),
        ("-_-_", "FBFFBF"),
        ("EjRWeA==", "12345678"),
        ("EjRWeA", "12345678"),
        ("EjRW-A", "123456F8"),
        ("MHQle_cZTkAAABqFAAE=", EPC + "0001"),
    ],
)
def test_epcs_are_base64url_padded_or_not(told, spelt, value):
    assert told("impinj", impinj(epc=spelt)).reads[0].value == value


@pytest.mark.parametrize("spelt", ["***", "A", "MHQ=e_cZ", "é", 5, True, "", None])
def test_an_epc_that_is_not_base64url_is_skipped(told, spelt):
    parsed = told("impinj", [impinj(epc=spelt), impinj(epcHex=EPC)])
    assert ([read.value for read in parsed.reads], parsed.skipped) == ([EPC], 1)


def test_the_hexadecimal_epc_wins_and_may_stand_alone(told):
    assert told("impinj", impinj(epcHex=EPC)).reads[0].value == EPC
    assert told("impinj", impinj(epc="AAAA", epcHex=EPC)).reads[0].value == EPC


def test_the_read_time_wins_over_the_time_of_queueing(told):
    read_at = "2026-03-02T08:15:30.412118042Z"
    assert told("impinj", impinj(epcHex=EPC, lastSeenTime=read_at)).reads[0].observed_at == MOMENT + 118
    assert told("impinj", impinj(epcHex=EPC)).reads[0].observed_at == MOMENT + 20_087


def test_a_tid_in_either_spelling_is_another_identity(told):
    assert told("impinj", impinj(epcHex=EPC, tidHex=TID)).reads[0].aliases == (TID,)
    assert told("impinj", impinj(epcHex=EPC, tid="4oARkKUDAGXybMv_")).reads[0].aliases == (TID,)
    assert told("impinj", impinj(epcHex=EPC, tid="*")).reads[0].aliases == ()


def test_a_webhook_sends_the_same_events_as_an_array(told):
    assert len(told("impinj", [impinj(epcHex=EPC), impinj(epcHex=OTHER_EPC)]).reads) == 2


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"connected", Kind.STATUS),
        (b"connection lost", Kind.OFFLINE),
        (b"Connection lost\n", Kind.OFFLINE),
        (b"disconnected", Kind.OFFLINE),
        (b"", Kind.OFFLINE),
    ],
)
def test_connect_will_and_farewell_are_plain_text(told, payload, kind):
    assert told("impinj", payload) == Parsed(kind)


def test_other_plain_text_is_refused(told):
    with pytest.raises(Malformed):
        told("impinj", b"reader is on fire")


@pytest.mark.parametrize(
    ("event", "note"),
    [
        ({"antennaDisconnectedEvent": {"antennaPort": 2, "antennaName": "Dock"}}, "antenna 2 disconnected"),
        ({"antennaConnectedEvent": {"antennaPort": 2}}, "antenna 2 connected"),
        ({"inventoryStatusEvent": {"inventoryStatus": "idle"}}, "inventory idle"),
        ({"inventoryTerminatedEvent": {}}, "inventory ended"),
        (
            {"overflowEvent": {"eventsPurged": 17, "eventsRemaining": 100_000}},
            "buffer overflow: 17 events lost",
        ),
        ({"gpiTransitionEvent": {"gpi": 1}}, None),
        ({"diagnosticEvent": {}}, None),
        ({"tagLocationEntryEvent": {"epc": "AAAA", "locationXCm": 12}}, None),
        ({"eventType": "somethingNew"}, None),
    ],
)
def test_other_events_are_a_sign_of_life(told, event, note):
    assert told("impinj", {"timestamp": "2026-03-02T08:15:30Z", **event}) == Parsed(Kind.STATUS, note=note)


@pytest.mark.parametrize("event", [{"tagInventoryEvent": 5}, {"eventType": "tagInventory"}])
def test_a_tag_event_without_its_tag_is_skipped(told, event):
    assert told("impinj", event).skipped == 1


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
