"""Fifty payload shapes from public documentation of vendors, each with the mapping that reads it.

The values are made up. `mapping` is None for shapes that a built-in format reads, then `format` names it.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from typing import Any, NamedTuple

EPC = "3074257BF7194E4000001A85"
MAC = "C30A114E7F21"
WHEN = 1_772_442_930_412_000  # 2026-03-02T09:15:30.412Z
ADVERT = "0201061AFF4C000215FDA50693A4E24FB1AFCFC6EB0764782500010002C5"
BEACON = "fda50693-a4e2-4fb1-afcf-c6eb07647825:1:2"
URI = "urn:epc:id:sgtin:0614141.812345.6789"


class Shape(NamedTuple):
    """`expected`: tag, antenna or its name, RSSI, time in microseconds (negative: local time), battery, temperature."""

    name: str
    payload: bytes
    mapping: dict[str, Any]
    expected: tuple[Any, ...]
    topic: str = "site/gate/7"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _b64(value: object) -> str:
    return b64encode(value if isinstance(value, bytes) else _json(value)).decode()


_LORA = {"ble": [{"mac": MAC, "rssi": -71, "batt": 88}]}

SHAPES = [
    # Fixed RFID readers
    Shape("SpringCard reader event", _json({"Interface": "UHF", "TagId": EPC, "RSSI": -51, "Move": "Insert"}),
          {"tag_path": "TagId", "rssi_path": "RSSI", "condition": "Move != 'Remove'"}, (EPC, None, -51)),
    Shape("Starfish Rail hub", _json([{"S": "082", "E": "R", "U": "082B278907"}]),
          {"tag_path": "U", "antenna_path": "S", "condition": "E != 'U' && E != 'S'"}, ("082B278907", 82)),
    Shape("Newland URF", _json({"Cmd": "TAG", "Data": [{"EPC": EPC, "Ant": 2, "RSSI": "-58.5"}]}),
          {"list_path": "Data", "tag_path": "EPC", "antenna_path": "Ant", "rssi_path": "RSSI"}, (EPC, 2, -58.5)),
    Shape("Keonn AdvanNet", _json({"devid": "gate", "reads": [{"EPC": EPC, "ant": 1, "ts": WHEN // 1000}]}),
          {"list_path": "reads", "tag_path": "EPC", "antenna_path": "ant", "time_path": "ts", "time_unit": "ms"},
          (EPC, 1, None, WHEN)),
    Shape("Kathrein ReaderStart", _json({"tags": [{"epc": " ".join(EPC[n:n + 4] for n in range(0, 24, 4)),
          "antenna": "3", "rssi": -612}]}),
          {"list_path": "tags", "tag_path": "epc", "antenna_path": "antenna", "rssi_path": "scale(rssi, `0.1`)"},
          (EPC, 3, -61.2)),
    Shape("FEIG with hundredths of dBm", _json({"items": [{"id": EPC, "ants": [{"no": 4, "rssi": 5850}]}]}),
          {"list_path": "items", "tag_path": "id", "antenna_path": "ants[0].no",
           "rssi_path": "scale(ants[0].rssi, `-0.01`)"}, (EPC, 4, -58.5)),
    Shape("ThingMagic Sargas, PC word and CRC", _json({"tag": f"3000{EPC}9A3B", "ant": 1}),
          {"tag_path": "tag", "epc_strip": ["pc", "crc"], "antenna_path": "ant"}, (EPC, 1)),
    Shape("Alien, a line of text", f"Tag:{EPC}, Disc:2026/03/02 09:15:30, Ant:0, RSSI:-60.1".encode(),
          {"payload": "lines", "columns": ["tag", "disc", "ant", "rssi"], "tag_path": "match(tag, 'Tag:(.*)')",
           "time_path": "match(disc, '[0-9].*')", "time_unit": "%Y/%m/%d %H:%M:%S",
           "rssi_path": "match(rssi, '-[0-9.]+')"}, (EPC, None, -60.1, -1_772_442_930_000_000)),
    Shape("Caen, lines with a heading", f"epc;antenna;rssi\n{EPC};2;-47\n".encode(),
          {"payload": "lines", "delimiter": ";", "columns": ["header"], "tag_path": "epc", "antenna_path": "antenna",
           "rssi_path": "rssi"}, (EPC, 2, -47)),
    Shape("LLRP bridge, nested", _json({"tagReportData": [{"epc96": {"epc": EPC}, "antennaID": {"antennaID": 2},
          "peakRSSI": {"peakRSSI": -55}, "firstSeenTimestampUTC": {"microseconds": str(WHEN)}}]}),
          {"list_path": "tagReportData", "tag_path": "epc96.epc", "antenna_path": "antennaID.antennaID",
           "rssi_path": "peakRSSI.peakRSSI", "time_path": "firstSeenTimestampUTC.microseconds", "time_unit": "us"},
          (EPC, 2, -55, WHEN)),
    Shape("Nordic ID, base64 EPC", _json({"inventory": [{"epc": _b64(bytes.fromhex(EPC)), "a": 1}]}),
          {"list_path": "inventory", "tag_path": "epc", "tag_encoding": "base64", "antenna_path": "a"}, (EPC, 1)),
    Shape("Turck TBEN, an object with EPCs as keys", _json({"tags": {EPC: {"rssi": -61, "ant": 2}}}),
          {"list_path": "items(tags)", "tag_path": "key", "rssi_path": "value.rssi", "antenna_path": "value.ant"},
          (EPC, 2, -61)),
    Shape("Balluff, parallel arrays", _json({"epc": [EPC], "rssi": [-64], "port": [3]}),
          {"list_path": "zip(epc, rssi, port)", "tag_path": "[0]", "rssi_path": "[1]", "antenna_path": "[2]"},
          (EPC, 3, -64)),
    Shape("SICK RFU, a telegram", f"\x02{EPC}|2|-59\x03".encode(),
          {"payload": "lines", "delimiter": "|", "tag_path": "match([0], '[0-9A-F]+')", "antenna_path": "[1]",
           "rssi_path": "match([2], '-?[0-9]+')"}, (EPC, 2, -59)),
    Shape("Siemens RF600, XML events as JSON", _json({"frame": {"report": {"ue": [{"tag": {"tagID": EPC,
          "antennaName": "Antenna01", "rSSI": "112"}}]}}}),
          {"list_path": "frame.report.ue", "tag_path": "tag.tagID", "antenna_path": "tag.antennaName",
           "rssi_path": "scale(tag.rSSI, `0.5`, `-110`)"}, (EPC, "Antenna01", -54)),
    Shape("Invengo, nanoseconds", _json({"EPC": EPC, "Antenna": 4, "ReadTime": WHEN * 1000}),
          {"tag_path": "EPC", "antenna_path": "Antenna", "time_path": "ReadTime", "time_unit": "ns"},
          (EPC, 4, None, WHEN)),
    Shape("Chafon, German time", _json({"EPC": EPC, "zeit": "02.03.2026 09:15:30"}),
          {"tag_path": "EPC", "time_path": "zeit", "time_unit": "%d.%m.%Y %H:%M:%S"},
          (EPC, None, None, -1_772_442_930_000_000)),
    Shape("Times-7 with reader in the topic", _json({"e": EPC}), {"tag_path": "e", "reader_path": "$topic[1]"},
          (EPC, "gate")),
    Shape("EPCIS object event, pure identity", _json({"type": "ObjectEvent", "epcList": [URI],
          "eventTime": "2026-03-02T09:15:30.412Z", "readPoint": {"id": "urn:epc:id:sgln:0614141.00777.0"}}),
          {"list_path": "epcList", "tag_path": "@", "time_path": "$.eventTime", "time_unit": "iso"},
          (URI, None, None, WHEN)),
    Shape("EPCIS document", _json({"epcisBody": {"eventList": [{"epcList": [URI], "eventTime":
          "2026-03-02T10:15:30.412+01:00"}]}}),
          {"list_path": ["epcisBody.eventList", "epcList"], "tag_path": "@", "time_path": "^.eventTime",
           "time_unit": "iso"}, (URI, None, None, WHEN)),
    Shape("Tag URI with filter", _json({"uri": "urn:epc:tag:sgtin-96:3.0614141.812345.6789"}), {"tag_path": "uri"},
          ("3074257BF7194E4000001A85",)),
    Shape("Raw URI", _json({"uri": f"urn:epc:raw:96.x{EPC}"}), {"tag_path": "uri"}, (EPC,)),
    # Cloud envelopes
    Shape("AWS IoT rule with base64", _json({"topic": "r/1", "encoded_payload": _b64({"epc": EPC, "ant": 2})}),
          {"content_path": "encoded_payload", "tag_path": "epc", "antenna_path": "ant", "reader_path": "^.topic"},
          (EPC, "r/1/2")),
    Shape("Azure IoT Hub, body as text", _json({"body": json.dumps({"reads": [{"epc": EPC}]}), "systemProperties":
          {"iothub-connection-device-id": "dock-3"}}),
          {"content_path": "body", "list_path": "reads", "tag_path": "epc",
           "reader_path": '^.^.systemProperties."iothub-connection-device-id"'}, (EPC, "dock-3")),
    Shape("Azure Event Grid, an array", _json([{"data": {"body": _b64({"epc": EPC})}}]),
          {"content_path": "data.body", "tag_path": "epc"}, (EPC,)),
    Shape("Google Pub/Sub push", _json({"message": {"data": _b64([{"epc": EPC}]), "attributes": {"deviceId": "d1"}}}),
          {"content_path": "message.data", "tag_path": "epc", "reader_path": "^.message.attributes.deviceId"},
          (EPC, "d1")),
    Shape("AWS Greengrass stream, gzip in base64", _json({"data": _b64(gzip.compress(_json({"epc": EPC})))}),
          {"content_path": "data", "tag_path": "epc"}, (EPC,)),
    Shape("gzip of JSON", gzip.compress(_json({"reads": [{"epc": EPC}]})), {"list_path": "reads", "tag_path": "epc"},
          (EPC,)),
    Shape("Sparkplug as JSON", _json({"timestamp": WHEN // 1000, "metrics": [{"name": "tag/epc", "value": EPC}]}),
          {"list_path": "metrics", "condition": "name == 'tag/epc'", "tag_path": "value", "time_path": "$.timestamp",
           "time_unit": "ms"}, (EPC, None, None, WHEN)),
    Shape("AWS SNS, JSON in a string in JSON", _json({"Type": "Notification", "Message": json.dumps({"tag": EPC})}),
          {"tag_path": "json(Message).tag"}, (EPC,)),
    Shape("CloudEvents", _json({"specversion": "1.0", "time": "2026-03-02T09:15:30.412Z", "data": {"epc": EPC}}),
          {"content_path": "data", "tag_path": "epc", "time_path": "^.time", "time_unit": "iso"},
          (EPC, None, None, WHEN)),
    # LoRaWAN servers
    Shape("The Things Stack, decoded", _json({"end_device_ids": {"device_id": "t1"}, "uplink_message":
          {"decoded_payload": _LORA, "received_at": "2026-03-02T09:15:30.412000000Z"}}),
          {"list_path": "uplink_message.decoded_payload.ble", "tag_path": "mac", "tag_type": "ble",
           "rssi_path": "rssi",
           "battery_path": "batt", "reader_path": "$.end_device_ids.device_id"}, (MAC, "t1", -71, None, 88)),
    Shape("The Things Stack, frm_payload", _json({"uplink_message": {"frm_payload":
          _b64(bytes.fromhex(f"01{MAC}B9"))}}),
          {"tag_path": "part(hex(uplink_message.frm_payload), `2`, `14`)", "tag_type": "ble",
           "rssi_path": "scale(hex_number(part(hex(uplink_message.frm_payload), `14`, `16`)), `1`, `-256`)"},
          (MAC, None, -71)),
    Shape("ChirpStack, objectJSON", _json({"devEUI": "0102", "objectJSON": json.dumps(_LORA)}),
          {"content_path": "objectJSON", "list_path": "ble", "tag_path": "mac", "tag_type": "ble", "rssi_path": "rssi",
           "battery_path": "batt"}, (MAC, None, -71, None, 88)),
    Shape("ChirpStack 4, the device is the tag", _json({"deviceInfo": {"devEui": "24e124128b012345"}, "rxInfo":
          [{"gatewayId": "gw1", "rssi": -102}], "object": {"temperature": 21.5, "battery": 77}}),
          {"tag_path": "deviceInfo.devEui", "tag_type": "ble", "antenna_path": "rxInfo[0].gatewayId",
           "rssi_path": "rxInfo[0].rssi", "temperature_path": "object.temperature", "battery_path": "object.battery"},
          ("24e124128b012345", "gw1", -102, None, 77, 21.5)),
    Shape("AWS IoT Core for LoRaWAN", _json({"PayloadData": _b64(bytes.fromhex(MAC)), "WirelessMetadata": {"LoRaWAN":
          {"DevEui": "a1", "Timestamp": "2026-03-02T09:15:30.412Z", "Gateways": [{"Rssi": -98}]}}}),
          {"tag_path": "hex(PayloadData)", "tag_type": "ble", "rssi_path": "WirelessMetadata.LoRaWAN.Gateways[0].Rssi",
           "reader_path": "WirelessMetadata.LoRaWAN.DevEui", "time_path": "WirelessMetadata.LoRaWAN.Timestamp",
           "time_unit": "iso"}, (MAC, "a1", -98, WHEN)),
    Shape("Actility ThingPark", _json({"DevEUI_uplink": {"DevEUI": "20635F00C5000660", "LrrRSSI": "-60.0",
          "Time": "2026-03-02T10:15:30.412+01:00"}}),
          {"tag_path": "DevEUI_uplink.DevEUI", "tag_type": "ble", "rssi_path": "DevEUI_uplink.LrrRSSI",
           "time_path": "DevEUI_uplink.Time", "time_unit": "iso"}, ("20635F00C5000660", None, -60, WHEN)),
    Shape("Milesight gateway", _json({"devEUI": "24E124128B012345", "rxInfo": [{"rssi": -57}], "battery": 96,
          "temperature": "20.5"}),
          {"tag_path": "devEUI", "tag_type": "ble", "rssi_path": "rxInfo[0].rssi", "battery_path": "battery",
           "temperature_path": "temperature"}, ("24E124128B012345", None, -57, None, 96, 20.5)),
    # BLE gateways
    Shape("Cassia", _json({"bdaddrs": [{"bdaddr": MAC, "bdaddrType": "random"}], "adData": ADVERT, "rssi": -58}),
          {"tag_path": "bdaddrs[0].bdaddr", "tag_type": "ble", "advertisement_path": "adData", "rssi_path": "rssi"},
          (MAC, None, -58)),
    Shape("Kontakt.io", _json({"events": [{"ble": {"advertisingAddress": MAC}, "rssi": -66, "timestamp": WHEN // 1000,
          "telemetry": {"batteryLevel": 91}}]}),
          {"list_path": "events", "tag_path": "ble.advertisingAddress", "tag_type": "ble", "rssi_path": "rssi",
           "time_path": "timestamp", "time_unit": "ms", "battery_path": "telemetry.batteryLevel"},
          (MAC, None, -66, WHEN, 91)),
    Shape("Aruba telemetry", _json({"reporter": {"mac": "9C"}, "reported": [{"mac": MAC, "rssi": {"avg": -70},
          "sensors": {"battery": 64, "temperatureC": 19.5}}]}),
          {"list_path": "reported", "tag_path": "mac", "tag_type": "ble", "rssi_path": "rssi.avg",
           "battery_path": "sensors.battery", "temperature_path": "sensors.temperatureC"},
          (MAC, None, -70, None, 64, 19.5)),
    Shape("Alcatel Stellar", _json([{"addr": MAC, "rssi": -63, "timestamp": WHEN // 1_000_000}]),
          {"tag_path": "addr", "tag_type": "ble", "rssi_path": "rssi", "time_path": "timestamp", "time_unit": "s"},
          (MAC, None, -63, WHEN // 1_000_000 * 1_000_000)),
    Shape("Shelly script", _json({"addr": MAC, "rssi": -55, "advData": ADVERT}),
          {"advertisement_path": "advData", "rssi_path": "rssi"}, (BEACON, None, -55)),
    Shape("Tasmota", _json({"DetectedDevice": {MAC: {"RSSI": -77}}}),
          {"list_path": "items(DetectedDevice)", "tag_path": "key", "tag_type": "ble", "rssi_path": "value.RSSI"},
          (MAC, None, -77)),
    Shape("Quuppa", _json({"tags": [{"tagId": MAC, "batteryVoltage": 2.9, "lastAreaName": "Dock"}]}),
          {"list_path": "tags", "tag_path": "tagId", "tag_type": "ble", "volts_path": "batteryVoltage",
           "antenna_path": "lastAreaName"}, (MAC, "Dock", None, None, 90)),
    Shape("Wirepas", _json({"source_address": "123456", "data": {"batt_mv": 2950, "button": 1}}),
          {"tag_path": "source_address", "tag_type": "ble", "volts_path": "scale(data.batt_mv, `0.001`)",
           "button_path": "data.button"}, ("123456", None, None, None, 95)),
    Shape("Blueup, tenths of a degree", _json({"devices": [{"id": MAC, "t": 215, "r": -49}]}),
          {"list_path": "devices", "tag_path": "id", "tag_type": "ble", "rssi_path": "r",
           "temperature_path": "scale(t, `0.1`)"}, (MAC, None, -49, None, None, 21.5)),
    Shape("Estimote, MAC in a name", _json({"name": f"beacon-{MAC}-v2", "rssi": "-61 dBm"}),
          {"tag_path": "match(name, '([0-9A-F]{12})')", "tag_type": "ble", "rssi_path": "rssi"}, (MAC, None, -61)),
    Shape("RFC 8949 CBOR", bytes.fromhex("a16365706378183330373432353742463731393445343030303030314138") + b"5",
          {"payload": "cbor", "tag_path": "epc"}, (EPC,)),
    # Not read: a binary format of its own
    Shape("Sparkplug B, Protobuf", bytes.fromhex("0888eafee9ca331203"), {"tag_path": "epc"}, (EPC,)),
]  # fmt: skip
