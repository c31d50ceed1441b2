"""Sample message of each format as documented, and a version with required fields only.

The identifiers are invented. Times stand for 2026-03-02 08:15:30.412 UTC.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from edge.formats.mapping import parser_for
from edge.formats.mapping_settings import mapping_from
from edge.formats.reads import Parser, Read, WallTime
from edge.formats.sensor_values import SensorValues

MOMENT = 1_772_439_330_412_000
WHOLE_SECOND = MOMENT - 412_000
EPC = "3074257BF7194E4000001A85"
OTHER_EPC = "000000000000000000010077"
MAC = "C3:0A:11:4E:7F:21"
OTHER_MAC = "D4:22:6B:90:5C:3E"
UUID = "5b2f0c1e-8d47-4f0a-9c33-71de20aa4b10"
PLAIN_UUID = UUID.replace("-", "")
EDDYSTONE_ADVERT = "0201060303AAFE1516AAFE00EE00112233445566778899AABBCCDDEEFF"
EDDYSTONE = "00112233445566778899:aabbccddeeff"
BEACON = f"{UUID}:10:257"
ADVERT = "0201061AFF4C0002155B2F0C1E8D474F0A9C3371DE20AA4B10000A0101C5"


class Sample(NamedTuple):
    """Sample of a format. `entries`: path to the list of scans in `message`. `rssi`: path to the strength in a scan.

    Without `entries`, a message is one scan, and several scans are sent as an array of messages.
    """

    message: Any
    reads: tuple[Read, ...]
    bare: Any
    bare_reads: tuple[Read, ...]
    entries: tuple[str, ...]
    rssi: tuple[str, ...]


SAMPLES: dict[str, Sample] = {
    "csl": Sample(
        {
            "sequenceNumber": 0,
            "rfidReaderName": "cs463-dock1",
            "pcEthernetMACAddress": "",
            "numberOfTags": 2,
            "tags": [
                {
                    "epc": EPC,
                    "timeStampOfRead": MOMENT,
                    "timeZone": "-6:00",
                    "antennaPort": 1,
                    "capturePointName": "cs463-dock1-1",
                    "rssi": "-58",
                },
                {
                    "epc": OTHER_EPC,
                    "timeStampOfRead": MOMENT + 43_000,
                    "timeZone": "-6:00",
                    "antennaPort": 2,
                    "capturePointName": "cs463-dock1-2",
                    "rssi": "-63",
                },
            ],
        },
        (Read("rfid", EPC, (), 1, -58.0, MOMENT), Read("rfid", OTHER_EPC, (), 2, -63.0, MOMENT + 43_000)),
        {"tags": [{"epc": EPC}]},
        (Read("rfid", EPC, (), 1),),
        ("tags",),
        ("rssi",),
    ),
    "zebra": Sample(
        {
            "data": {
                "CRC": "7b02",
                "PC": "3000",
                "antenna": 2,
                "channel": 865.7,
                "eventNum": 288,
                "format": "epc",
                "idHex": EPC.lower(),
                "peakRssi": -57,
                "phase": 0.0,
                "reads": 4,
            },
            "timestamp": "2026-03-02T08:15:30.412+0000",
            "type": "INVENTORY",
        },
        (Read("rfid", EPC.lower(), (), 2, -57.0, MOMENT),),
        {"data": {"idHex": EPC.lower()}, "type": "SIMPLE"},
        (Read("rfid", EPC.lower()),),
        (),
        ("data", "peakRssi"),
    ),
    "zebra_sled": Sample(
        {
            "type": "BALANCED_PERFORMANCE",
            "timestamp": "2026-03-02T08:15:30.412Z",
            "data": {
                "tagData": [
                    {
                        "EPCid": EPC,
                        "eventNum": 1,
                        "peakRssi": -46,
                        "seenCount": 2,
                        "channel": 865.7,
                        "phase": 0,
                    }
                ],
                "barcodeData": [{"decodedBarcode": "0109506000134352", "symbology": "Code 128"}],
            },
        },
        (
            Read("rfid", EPC, (), None, -46.0, MOMENT),
            Read("barcode", "0109506000134352", (), None, None, MOMENT),
        ),
        {"data": {"tagData": [{"EPCid": EPC}]}},
        (Read("rfid", EPC),),
        ("data", "tagData"),
        ("peakRssi",),
    ),
    "impinj": Sample(
        {
            "timestamp": "2026-03-02T08:15:30.432087177Z",
            "hostname": "impinj-18-2b-0e",
            "eventType": "tagInventory",
            "tagInventoryEvent": {
                "epc": "MHQle_cZTkAAABqF",
                "epcHex": EPC,
                "tidHex": "E2801190A5030065F26CCBFF",
                "pc": "MAA=",
                "antennaPort": 3,
                "antennaName": "Dock 3",
                "peakRssiCdbm": -5850,
                "frequency": 866900,
                "transmitPowerCdbm": 3000,
                "lastSeenTime": "2026-03-02T08:15:30.412118042Z",
                "phaseAngle": 112.5,
            },
        },
        (Read("rfid", EPC, ("E2801190A5030065F26CCBFF",), 3, -58.5, MOMENT + 118),),
        {"tagInventoryEvent": {"epc": "MHQle_cZTkAAABqF"}},
        (Read("rfid", EPC),),
        (),
        ("tagInventoryEvent", "peakRssiCdbm"),
    ),
    "smartreader": Sample(
        {
            "readerName": "dock-1",
            "mac": "001625182B0E",
            "site": "WH-A",
            "tag_reads": [
                {
                    "epc": EPC,
                    "isHeartBeat": False,
                    "firstSeenTimestamp": MOMENT,
                    "antennaPort": 1,
                    "antennaZone": "INBOUND",
                    "peakRssi": -52.5,
                    "txPower": 30.0,
                    "frequency": 866.9,
                },
                {"epc": "*****", "isHeartBeat": True, "firstSeenTimestamp": MOMENT},
            ],
        },
        (Read("rfid", EPC, (), 1, -52.5, MOMENT),),
        {"tag_reads": [{"epc": EPC}]},
        (Read("rfid", EPC),),
        ("tag_reads",),
        ("peakRssi",),
    ),
    "gl_s10": Sample(
        {
            "dev_id": "ic7b031",
            "dev_sn": "9c41d0f27ab35e18",
            "dev_ble_mac": "C4DEE2310A42",
            "dev_wifi_sta_mac": "C4DEE2310A40",
            "dev_version": "3.0.3",
            "publish_ts": 1772439331380,
            "dev_list_len": 2,
            "dev_list": [
                {"ad": ADVERT, "ts": 1772439330412, "mac": "C30A114E7F21", "rssi": -62},
                {"ad": "020106", "ts": 1772439330655, "mac": "D4226B905C3E", "rssi": -71, "n": "TAG-0071"},
            ],
        },
        (
            Read("ble", MAC, (BEACON,), None, -62.0, MOMENT),
            Read("ble", OTHER_MAC, (), None, -71.0, MOMENT + 243_000),
        ),
        {"dev_list": [{"mac": "C30A114E7F21"}]},
        (Read("ble", MAC),),
        ("dev_list",),
        ("rssi",),
    ),
    "moko": Sample(
        {
            "msg_id": 3070,
            "device_info": {"mac": "40915a1c77e3"},
            "data": [
                {
                    "timestamp": 1772439330412,
                    "timezone": 0,
                    "type_code": 0,
                    "type": "ibeacon",
                    "rssi": -58,
                    "connectable": 0,
                    "mac": "c30a114e7f21",
                    "uuid": "5b2f0c1e8d474f0a9c3371de20aa4b10",
                    "major": 10,
                    "minor": 257,
                    "rssi_1m": -59,
                    "adv_data": ADVERT.lower(),
                }
            ],
        },
        (Read("ble", MAC, (BEACON,), None, -58.0, MOMENT),),
        {"msg_id": 3070, "data": [{"mac": "c30a114e7f21"}]},
        (Read("ble", MAC),),
        ("data",),
        ("rssi",),
    ),
    "ruuvi": Sample(
        {
            "gw_mac": "C4:1F:7A:30:5D:92",
            "rssi": -65,
            "aoa": [],
            "gwts": 1772439330,
            "ts": 1772439330,
            "data": "0201061BFF9904050E5F48A8C81E000CFFEC03ECA156110BCDE71A40C95B08",
            "coords": "",
        },
        (
            Read(
                *("ble", MAC, (), None, -65.0, 1_772_439_330_000_000, None),
                sensors=SensorValues(89, 2890, 3679 * 0.005),
            ),
        ),
        {"gw_mac": "C4:1F:7A:30:5D:92"},
        (Read("ble", MAC),),
        (),
        ("rssi",),
    ),
    "espresense": Sample(
        {
            "mac": "c30a114e7f21",
            "id": f"iBeacon:{UUID}-10-257",
            "name": "Pallet 71",
            "rssi@1m": -59,
            "rssi": -72.14,
            "rxAdj": 0,
            "rssiVar": 1.42,
            "distance": 3.15,
            "var": 0.21,
            "int": 512,
        },
        (Read("ble", MAC, (BEACON,), None, -72.14),),
        {"mac": "c30a114e7f21"},
        (Read("ble", MAC),),
        (),
        ("rssi",),
    ),
    "minew": Sample(
        [
            {
                "timestamp": "2026-03-02T08:15:30.412Z",
                "type": "Gateway",
                "mac": "AC233FC0A7D1",
                "gatewayFree": 91,
                "gatewayLoad": 0.04,
            },
            {
                "timestamp": "2026-03-02T08:15:30.412Z",
                "type": "iBeacon",
                "mac": "C30A114E7F21",
                "bleName": "",
                "ibeaconUuid": "5B2F0C1E8D474F0A9C3371DE20AA4B10",
                "ibeaconMajor": 10,
                "ibeaconMinor": 257,
                "rssi": -61,
                "ibeaconTxPower": -59,
                "battery": 0,
            },
            {
                "timestamp": "2026-03-02T08:15:30.240Z",
                "type": "Unknown",
                "mac": "D4226B905C3E",
                "bleName": "TAG-0071",
                "rssi": -71,
                "rawData": "020106",
            },
        ],
        (
            Read("ble", MAC, (BEACON,), None, -61.0, MOMENT),
            Read("ble", OTHER_MAC, (), None, -71.0, MOMENT - 172_000),
        ),
        [{"mac": "C30A114E7F21"}],
        (Read("ble", MAC),),
        (),
        ("rssi",),
    ),
    "openmqttgateway": Sample(
        {
            "id": MAC,
            "mac_type": 1,
            "rssi": -74,
            "distance": 5.12,
            "brand": "GENERIC",
            "model": "iBeacon",
            "model_id": "IBEACON",
            "mfid": "4c00",
            "uuid": "5b2f0c1e8d474f0a9c3371de20aa4b10",
            "major": 10,
            "minor": 257,
            "txpower": -59,
        },
        (Read("ble", MAC, (BEACON,), None, -74.0),),
        {"id": MAC, "rssi": -74},
        (Read("ble", MAC, (), None, -74.0),),
        (),
        ("rssi",),
    ),
    "kkm": Sample(
        {
            "msg": "advData",
            "gmac": "68B9D3DFE78C",
            "obj": [
                {
                    "type": 4,
                    "dmac": "C30A114E7F21",
                    "refPwr": -59,
                    "uuid": "5B2F0C1E8D474F0A9C3371DE20AA4B10",
                    "majorID": 10,
                    "minorID": 257,
                    "rssi": -60,
                    "time": "2026-03-02 09:15:30",
                },
                {"dmac": "D4226B905C3E", "rssi": "-71", "data1": "020106"},
            ],
            "seq": 181,
        },
        (
            Read("ble", MAC, (BEACON,), None, -60.0, WallTime(1_772_442_930_000_000)),
            Read("ble", OTHER_MAC, (), None, -71.0),
        ),
        {"msg": "advData", "obj": [{"dmac": "C30A114E7F21"}]},
        (Read("ble", MAC),),
        ("obj",),
        ("rssi",),
    ),
    "edge": Sample(
        {
            "reads": [
                {
                    "tag": EPC,
                    "type": "rfid",
                    "antenna": 1,
                    "rssi": -58.5,
                    "time": "2026-03-02T08:15:30.412Z",
                },
                {"tag": MAC.lower(), "type": "ble", "rssi": -70, "time": 1772439330412},
                {"tag": "ABC-123", "type": "barcode"},
            ]
        },
        (
            Read("rfid", EPC, (), 1, -58.5, MOMENT),
            Read("ble", MAC, (), None, -70.0, MOMENT),
            Read("barcode", "ABC-123"),
        ),
        {"tag": EPC},
        (Read("rfid", EPC),),
        ("reads",),
        ("rssi",),
    ),
}

# Mappings must meet the same requirements as formats.
MAPPED: Parser = parser_for(
    mapping_from(
        {
            "list_path": "tags",
            "tag_path": "tagId",
            "antenna_path": "antennaId",
            "rssi_path": "peakRSSI",
            "time_path": "firstSeenTime",
            "time_unit": "us",
        }
    )
)
