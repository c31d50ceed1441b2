from __future__ import annotations

import msgspec
import pytest

from edge.formats.reads import Kind, Parsed, Read, WallTime
from edge.formats.registry import FORMATS
from tests.formats.reader_samples import BEACON, EPC, MAC, MOMENT, UUID

TID = "E2801190A5030065F26CCBFF"
SIMPLE = {
    "data": {"eventNum": 289, "format": "epc", "idHex": "3374257bf40c0e4000000190"},
    "timestamp": "2026-03-02T08:15:30.412+0000",
    "type": "SIMPLE",
}
HEARTBEAT = {
    "component": "RG",
    "data": {
        "radio_control": {
            "antennas": {"1": "connected", "2": "disconnected"},
            "numErrors": 0,
            "numTagReads": 1520,
            "radioActivity": "active",
            "radioConnection": "connected",
            "status": "running",
        },
        "system": {"GPI": {"1": "HIGH"}, "flash": None, "systemtime": "02/03/2026 08:15"},
        "userapps": [],
    },
    "eventNum": 41,
    "timestamp": "2026-03-02T08:15:00.001+0000",
    "type": "heartbeat",
}
BLE = {
    "data": {
        "Adapter": "/org/bluez/hci0",
        "Address": MAC,
        "AddressType": "random",
        "Alias": "C3-0A-11-4E-7F-21",
        "Connected": False,
        "RSSI": -66,
        "UUIDs": [],
        "beaconType": "IBEACON",
        "iBeacon": {"uuid": UUID, "major": 10, "minor": 257, "txPower": -59},
    },
    "eventNum": 1911,
    "timestamp": "2026-03-02T08:15:30.412+00:00",
    "type": "BLE_DATA",
}
TAG_READ = Read("rfid", "3374257bf40c0e4000000190", observed_at=MOMENT)
BLE_READ = Read("ble", MAC, (BEACON,), None, -66.0, MOMENT)


def event(kind="INVENTORY", time="2026-03-02T08:15:30.412+0000", **data):
    return {"data": {"eventNum": 1, "idHex": EPC.lower(), **data}, "timestamp": time, "type": kind}


@pytest.mark.parametrize(
    "kind",
    ["SIMPLE", "CUSTOM", "INVENTORY", "PORTAL", "CONVEYOR", "DIRECTIONALITY", "RAW_DIRECTIONALITY"],
)
def test_every_operating_mode_is_parsed(parse, kind):
    (read,) = parse("zebra", event(kind, antenna=2)).reads
    assert (read.value, read.antenna) == (EPC.lower(), 2)


def test_antenna_and_rssi_are_optional(parse):
    assert parse("zebra", SIMPLE) == Parsed(Kind.READS, (TAG_READ,))


@pytest.mark.parametrize("between", ["", " ", "\n"])
def test_tags_advertisements_and_heartbeats_may_be_concatenated(parse, between):
    run_together = between.join(msgspec.json.encode(message).decode() for message in (SIMPLE, HEARTBEAT, BLE)).encode()
    assert parse("zebra", run_together) == Parsed(Kind.READS, (TAG_READ, BLE_READ), note="antenna 2 disconnected")


def test_an_array_may_have_tags_and_advertisements(parse):
    assert parse("zebra", [BLE, SIMPLE, BLE]).reads == (BLE_READ, TAG_READ, BLE_READ)


@pytest.mark.parametrize(
    "spelt",
    [
        "2026-03-02T08:15:30.412Z",
        "2026-03-02T08:15:30.412+00:00",
        "2026-03-02T10:15:30.412+0200",
        "2026-03-02T02:15:30.412-06:00",
    ],
)
def test_every_notation_of_the_utc_offset_is_accepted(parse, spelt):
    assert parse("zebra", event(time=spelt)).reads[0].observed_at == MOMENT


@pytest.mark.parametrize("spelt", [None, "", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00"])
def test_a_blank_or_impossible_time_is_unknown(parse, spelt):
    assert parse("zebra", event(time=spelt)).reads[0].observed_at is None


def test_a_time_without_a_zone_is_a_wall_time(parse):
    assert parse("zebra", event(time="2026-03-02T08:15:30.412")).reads[0].observed_at == WallTime(MOMENT)


@pytest.mark.parametrize("spelt", ["soon", "2026-13-02T08:15:30Z", True, ["2026"]])
def test_an_invalid_time_is_left_out(parse, spelt):
    parsed = parse("zebra", [SIMPLE, event(time=spelt)])
    assert (parsed.reads[1].observed_at, parsed.skipped) == (None, 0)
    assert parsed.note.endswith(", not a time: left out")


def test_future_and_old_times_are_unchanged(parse):
    """Check that the parser does not judge times."""
    minutes = [event(time=f"2026-03-02T07:{number // 60:02}:{number % 60:02}Z") for number in range(1_000)]
    reads = parse("zebra", minutes).reads
    assert len(reads) == 1_000
    assert reads[0].observed_at == MOMENT - 4_530_412_000
    assert parse("zebra", event(time="2099-01-01T00:00:00Z")).reads[0].observed_at > MOMENT


def test_fastid_splits_epc_from_tid_by_the_pc_word(parse):
    long_epc = EPC + "00112233"
    for pc, value in (("3000", EPC), ("3400", EPC), ("4000", long_epc), ("1000", EPC[:8])):
        (read,) = parse("zebra", event(format="fastID", PC=pc, idHex=value + TID)).reads
        assert (read.value, read.aliases) == (value, (value + TID, TID))


@pytest.mark.parametrize("pc", [None, "", "F800", "0000", "zzzz", 3000])
def test_fastid_without_a_usable_pc_is_24_digits_and_24(parse, pc):
    (read,) = parse("zebra", event(format="fastID", PC=pc, idHex=EPC + TID)).reads
    assert (read.value, read.aliases) == (EPC, (EPC + TID, TID))


def test_fastid_that_cannot_be_split_is_unchanged(parse):
    (read,) = parse("zebra", event(format="fastID", idHex=EPC)).reads
    assert (read.value, read.aliases) == (EPC, ())


def test_a_tid_is_an_alias_unless_it_is_an_error_text(parse):
    assert parse("zebra", event(TID=TID)).reads[0].aliases == (TID,)
    assert parse("zebra", event(TID="Tag memory overrun error while reading")).reads[0].aliases == ()


def test_the_atr7000_calls_the_strength_rssi(parse):
    (read,) = parse("zebra", event("RAW_DIRECTIONALITY", rssi=-63, antenna=13, azimuth=12.5, elevation=40)).reads
    assert (read.rssi, read.antenna) == (-63.0, 13)


def test_an_event_without_idhex_is_skipped(parse):
    parsed = parse("zebra", {"data": {"eventNum": 1}, "type": "SIMPLE"})
    assert (parsed.kind, parsed.reads, parsed.skipped, parsed.note) == (
        Kind.READS,
        (),
        1,
        "the EPC is missing",
    )


@pytest.mark.parametrize(
    ("data", "alias"),
    [
        (
            {
                "beaconType": "IBEACON",
                "iBeacon": {"uuid": UUID.upper().replace("-", ""), "major": "10", "minor": 257},
            },
            BEACON,
        ),
        ({"beaconType": "ALTBEACON", "altBeacon": {"beaconId": UUID, "major": 10, "minor": 257}}, BEACON),
        (
            {
                "beaconType": "EDDYSTONE_UID",
                "eddystone": {"namespace": "00112233445566778899", "instance": "AABBCCDDEEFF"},
            },
            "00112233445566778899:aabbccddeeff",
        ),
        ({"beaconType": "EDDYSTONE_URL", "eddystone": {"url": "https://example.com"}}, None),
        ({"beaconType": "GENERIC_BLE"}, None),
        ({"beaconType": "IBEACON", "iBeacon": {"uuid": UUID, "major": 70_000, "minor": 1}}, None),
    ],
)
def test_an_advertisement_is_one_read_by_mac_with_its_beacon_identity(parse, data, alias):
    message = {"data": {"Address": MAC.lower(), "RSSI": -66, **data}, "timestamp": None, "type": "BLE_DATA"}
    assert parse("zebra", message).reads == (Read("ble", MAC, (alias,) if alias else (), None, -66.0),)


def management(kind, data):
    return {"component": "RG", "data": data, "eventNum": 1, "timestamp": "2026-03-02T08:15:00Z", "type": kind}


@pytest.mark.parametrize(
    ("message", "note"),
    [
        (HEARTBEAT, "antenna 2 disconnected"),
        (management("heartbeat", {"radio_control": {}}), None),
        (management("heartbeat", {}), None),
        (management("heartbeat", None), None),
        (
            management(
                "heartbeat",
                {
                    "radio_control": {
                        "antennas": {"1": "disconnected", "2": "connected", "4": "disconnected"},
                        "radioActivity": "inactive",
                        "radioConnection": "disconnected",
                        "numErrors": 3,
                    }
                },
            ),
            "antennas 1, 4 disconnected, radio disconnected, radio inactive, errors: 3",
        ),
        (management("error", {"message": "CPU over\nlimit"}), "error: CPU over limit"),
        (management("warning", {"message": "Flash 91 %"}), "warning: Flash 91 %"),
        (management("error", {}), "error"),
        (management("gpi", {"pin": 1, "state": "LOW"}), "input 1 LOW"),
        (management("gpo", {"pin": 2, "state": "HIGH"}), "output 2 HIGH"),
        (management("firmwareUpdateProgress", {"progress": 40}), "firmware update"),
        (management("userapp", {"event": "anything"}), None),
        ({"command": "get_status", "command_id": "7", "response": "success"}, None),
    ],
)
def test_management_events_are_a_status_with_a_note(parse, message, note):
    assert parse("zebra", message) == Parsed(Kind.STATUS, note=note)


def test_a_command_to_the_reader_is_ignored(parse):
    assert parse("zebra", {"command": "start", "command_id": "7", "payload": {}}).kind is Kind.IGNORED


def test_a_batch_of_256_kilobytes_is_parsed_completely():
    payload = msgspec.json.encode([event(reads=number) for number in range(1_700)])
    assert len(payload) < 256_000
    assert len(FORMATS["zebra"].parse("t", payload).reads) == 1_700
