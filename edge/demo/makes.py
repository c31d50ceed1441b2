"""Messages of each make of reader, for reads and for heartbeats."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from edge.clock import rfc3339, to_datetime
from edge.demo.movement import Sighting
from edge.demo.plan import Reader
from edge.validation import json_text

Fields = dict[str, Any]


class Make(NamedTuple):
    """`messages(reader, sightings, number)` numbers its events from `number`; `heartbeat(reader, at)`."""

    messages: Callable[[Reader, Sequence[Sighting], int], list[bytes]]
    heartbeat: Callable[[Reader, int], bytes]


def _csl(reader: Reader, reads: Sequence[Sighting], _number: int) -> list[bytes]:
    """All tags in one message, shape A: UTC in microseconds despite `timeZone`, RSSI as text."""
    tags = [
        {
            "epc": sighting.item.epc,
            "timeStampOfRead": sighting.at // 1000 * 1000,
            "timeZone": "-6:00",
            "antennaPort": sighting.receiver.antenna,
            "capturePointName": f"{reader.device}-{sighting.receiver.antenna}",
            "rssi": f"{sighting.rssi:.0f}",
        }
        for sighting in reads
    ]
    head = {"sequenceNumber": 0, "rfidReaderName": reader.device, "pcEthernetMACAddress": ""}
    return [json_text.encode({**head, "numberOfTags": len(tags), "tags": tags})]


def _csl_heartbeat(reader: Reader, at: int) -> bytes:
    return json_text.encode({"rfidReaderName": reader.device, "heartBeatFlag": "1", "timeStampOfHeartBeat": at})


def _zebra(_reader: Reader, reads: Sequence[Sighting], number: int) -> list[bytes]:
    """Mode INVENTORY with batching: one event as an object, several as an array, BLE events included."""
    events = [
        _zebra_tag(sighting, number + count) if sighting.receiver.antenna else _zebra_beacon(sighting, number + count)
        for count, sighting in enumerate(reads)
    ]
    return [json_text.encode(events if len(events) > 1 else events[0])]


def _zebra_tag(sighting: Sighting, number: int) -> Fields:
    data = {
        "antenna": sighting.receiver.antenna,
        "eventNum": number,
        "format": "epc",
        "idHex": (sighting.item.epc or "").lower(),
        "peakRssi": round(sighting.rssi),
        "reads": 3,
    }
    return {"data": data, "timestamp": rfc3339(sighting.at).replace("Z", "+0000"), "type": "INVENTORY"}


def _zebra_beacon(sighting: Sighting, number: int) -> Fields:
    address, beacon = sighting.item.mac or "", sighting.item.beacon
    data: Fields = {
        "Adapter": "/org/bluez/hci0",
        "Address": address,
        "AddressType": "random",
        "Alias": address.replace(":", "-"),
        "Connected": False,
        "RSSI": round(sighting.rssi),
        "UUIDs": [],
        "beaconType": "IBEACON" if beacon else "GENERIC_BLE",
    }
    if beacon:
        data["iBeacon"] = {"uuid": beacon.uuid, "major": beacon.major, "minor": beacon.minor, "txPower": -59}
    return {"data": data, "eventNum": number, "timestamp": rfc3339(sighting.at), "type": "BLE_DATA"}


def _zebra_heartbeat(reader: Reader, at: int) -> bytes:
    radio = {
        "antennas": {str(port): "connected" for port in reader.antennas},
        "numErrors": 0,
        "radioActivity": "active",
        "radioConnection": "connected",
        "status": "running",
    }
    data = {"radio_control": radio, "system": {"hostName": reader.device, "flash": None}, "userapps": []}
    timestamp = rfc3339(at).replace("Z", "+0000")
    return json_text.encode(
        {"component": "RG", "data": data, "eventNum": 1, "timestamp": timestamp, "type": "heartbeat"}
    )


def _impinj(reader: Reader, reads: Sequence[Sighting], _number: int) -> list[bytes]:
    """One message for each read, with the default fields: EPC in base64url, RSSI in 1/100 dBm."""
    return [
        json_text.encode(
            {
                "timestamp": _nine_digits(sighting.at),
                "hostname": reader.device,
                "eventType": "tagInventory",
                "tagInventoryEvent": {
                    "epc": urlsafe_b64encode(bytes.fromhex(sighting.item.epc or "")).decode(),
                    "antennaPort": sighting.receiver.antenna,
                    "peakRssiCdbm": round(sighting.rssi * 2) * 50,
                    "frequency": 866900,
                    "transmitPowerCdbm": 3000,
                },
            }
        )
        for sighting in reads
    ]


def _impinj_status(reader: Reader, at: int) -> bytes:
    status = {"eventType": "inventoryStatus", "inventoryStatusEvent": {"inventoryStatus": "running"}}
    return json_text.encode({"timestamp": _nine_digits(at), "hostname": reader.device, **status})


def _gl_s10(reader: Reader, reads: Sequence[Sighting], _number: int) -> list[bytes]:
    """One window of raw advertisements."""
    return [_gl_s10_window(reader, reads[-1].at, [_gl_s10_entry(sighting) for sighting in reads])]


def _gl_s10_entry(sighting: Sighting) -> Fields:
    item = sighting.item
    entry = {"ad": _advertisement(sighting), "ts": sighting.at // 1000, "mac": (item.mac or "").replace(":", "")}
    named = {"n": item.key} if item.key and not item.beacon else {}
    return {**entry, "rssi": round(sighting.rssi), **named}


def _advertisement(sighting: Sighting) -> str:
    """Flags, and an iBeacon as Apple's manufacturer data with its power at 1 m."""
    beacon = sighting.item.beacon
    if beacon is None:
        return "020106"
    return f"0201061AFF4C000215{beacon.uuid.replace('-', '').upper()}{beacon.major:04X}{beacon.minor:04X}C5"


def _gl_s10_window(reader: Reader, at: int, entries: list[Fields]) -> bytes:
    head = {"dev_id": "ic7b031", "dev_ble_mac": reader.device, "dev_version": "3.0.3", "publish_ts": at // 1000}
    return json_text.encode({**head, "dev_list_len": len(entries), "dev_list": entries})


def _nine_digits(at: int) -> str:
    return f"{to_datetime(at):%Y-%m-%dT%H:%M:%S.%f}000Z"


MAKES = {
    "csl": Make(_csl, _csl_heartbeat),
    "zebra": Make(_zebra, _zebra_heartbeat),
    "impinj": Make(_impinj, _impinj_status),
    "gl_s10": Make(_gl_s10, lambda reader, at: _gl_s10_window(reader, at, [])),
}
