"""Peculiarities of Impinj readers."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Malformed, Parsed, Read
from tests.formats.reader_samples import EPC, MOMENT, OTHER_EPC

TID = "E2801190A5030065F26CCBFF"


def impinj(**tag):
    return {"timestamp": "2026-03-02T08:15:30.432087177Z", "tagInventoryEvent": tag}


def test_the_default_event_of_an_r700(parse):
    message = impinj(
        epc="4oARkKUDAGXybMv_", antennaPort=1, peakRssiCdbm=-7150, frequency=865700, transmitPowerCdbm=3000
    )
    expected = Read("rfid", "E2801190A5030065F26CCBFF", (), 1, -71.5, MOMENT + 20_087)
    assert parse("impinj", message).reads == (expected,)


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
def test_epcs_are_base64url_padded_or_not(parse, spelt, value):
    assert parse("impinj", impinj(epc=spelt)).reads[0].value == value


@pytest.mark.parametrize("spelt", ["***", "A", "MHQ=e_cZ", "é", 5, True, "", None])
def test_an_epc_that_is_not_base64url_is_skipped(parse, spelt):
    parsed = parse("impinj", [impinj(epc=spelt), impinj(epcHex=EPC)])
    assert ([read.value for read in parsed.reads], parsed.skipped) == ([EPC], 1)


def test_the_hexadecimal_epc_takes_precedence(parse):
    assert parse("impinj", impinj(epcHex=EPC)).reads[0].value == EPC
    assert parse("impinj", impinj(epc="AAAA", epcHex=EPC)).reads[0].value == EPC


def test_the_read_time_takes_precedence_over_the_event_time(parse):
    read_at = "2026-03-02T08:15:30.412118042Z"
    assert parse("impinj", impinj(epcHex=EPC, lastSeenTime=read_at)).reads[0].observed_at == MOMENT + 118
    assert parse("impinj", impinj(epcHex=EPC)).reads[0].observed_at == MOMENT + 20_087


def test_a_tid_in_either_notation_is_an_alias(parse):
    assert parse("impinj", impinj(epcHex=EPC, tidHex=TID)).reads[0].aliases == (TID,)
    assert parse("impinj", impinj(epcHex=EPC, tid="4oARkKUDAGXybMv_")).reads[0].aliases == (TID,)
    assert parse("impinj", impinj(epcHex=EPC, tid="*")).reads[0].aliases == ()


def test_a_webhook_sends_the_same_events_as_an_array(parse):
    assert len(parse("impinj", [impinj(epcHex=EPC), impinj(epcHex=OTHER_EPC)]).reads) == 2


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
def test_connect_will_and_disconnect_are_plain_text(parse, payload, kind):
    assert parse("impinj", payload) == Parsed(kind)


def test_other_plain_text_is_rejected(parse):
    with pytest.raises(Malformed):
        parse("impinj", b"reader is on fire")


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
def test_other_events_are_a_status(parse, event, note):
    assert parse("impinj", {"timestamp": "2026-03-02T08:15:30Z", **event}) == Parsed(Kind.STATUS, note=note)


@pytest.mark.parametrize("event", [{"tagInventoryEvent": 5}, {"eventType": "tagInventory"}])
def test_a_tag_event_without_its_tag_is_skipped(parse, event):
    assert parse("impinj", event).skipped == 1
