"""Peculiarities of Zebra sleds."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import EPC, MOMENT


def sled(**data):
    return {"type": "BALANCED_PERFORMANCE", "timestamp": "2026-03-02T08:15:30.412Z", "data": data}


def test_a_sled_may_send_barcodes_alone(parse):
    reads = parse("zebra_sled", sled(barcodeData=[{"decodedBarcode": " ABC-1\r\n"}])).reads
    assert reads == (Read("barcode", "ABC-1", observed_at=MOMENT),)


def test_the_separators_of_gs1_data_are_kept(parse):
    code = "]C1010950600013435221ABC\x1d10LOT\x1d"
    assert parse("zebra_sled", sled(barcodeData=[{"decodedBarcode": code}])).reads[0].value == code


@pytest.mark.parametrize("code", [None, "", "  ", 1.5, "x" * 300])
def test_a_barcode_that_is_not_text_is_skipped(parse, code):
    parsed = parse(
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
def test_sled_status_messages(parse, message, parsed):
    assert parse("zebra_sled", message) == parsed
