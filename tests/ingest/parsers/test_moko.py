"""BLE gateways: what is odd about each."""

from __future__ import annotations

import pytest

from edge.ingest.reads import Kind, Parsed, Read
from tests.ingest.parsers.reader_samples import ADVERT, BEACON, MAC, MOMENT, OTHER_MAC, UUID

PLAIN_UUID = UUID.replace("-", "")
EDDYSTONE_ADVERT = "0201060303AAFE1516AAFE00EE00112233445566778899AABBCCDDEEFF"
EDDYSTONE = "00112233445566778899:aabbccddeeff"


def test_gl_s10_older_firmware_sends_one_advertisement_without_a_time(told):
    message = {"mac": MAC.lower(), "rssi": "-62", "adv_data": ADVERT, "scan_resp": EDDYSTONE_ADVERT}
    parsed = told("gl_s10", message, topic="gl-s10-scanResult")
    assert parsed.reads == (Read("ble", MAC, (BEACON, EDDYSTONE), None, -62.0),)


def test_gl_s10_tells_one_device_as_often_as_it_was_heard(told):
    heard = [{"mac": "C30A114E7F21", "ad": "020106", "rssi": -62 - n, "ts": 1772439330412 + n} for n in range(7)]
    reads = told("gl_s10", {"dev_list": heard}).reads
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
def test_gl_s10_windows_and_answers_without_devices(told, message, kind):
    assert told("gl_s10", message) == Parsed(kind)


@pytest.mark.parametrize("address", ["C30A114E7F2", "C30A114E7F2G", "", None, 5, True, "C3:0A:11:4E:7F:21:00"])
def test_an_advertiser_without_a_mac_is_skipped_beside_its_neighbours(told, address):
    heard = [
        {"mac": address, "ad": "020106", "rssi": -60},
        {"mac": "D4226B905C3E", "ad": "020106", "rssi": -71},
    ]
    parsed = told("gl_s10", {"dev_list": heard})
    assert ([read.value for read in parsed.reads], parsed.skipped) == ([OTHER_MAC], 1)


OLDER_MOKO = {
    "msg_id": 3004,
    "device_info": {"device_id": "40915a1c77e2", "mac": "40915A1C77E2"},
    "data": [
        {
            "type": 1,
            "value": {
                "mac": "C30A114E7F21",
                "timestamp": "2026-3-2&8:15:30+00",
                "type": "iBeacon",
                "rssi": -58,
                "uuid": PLAIN_UUID.upper(),
                "major": 10,
                "minor": 257,
                "rssi@1m": -59,
            },
        },
        {
            "type": 0,
            "value": {
                "mac": "D4226B905C3E",
                "timestamp": "2026-3-2&8:15:30+00",
                "type": "Unknown",
                "rssi": -71,
                "raw data": EDDYSTONE_ADVERT,
                "name": "TAG-0071",
            },
        },
    ],
}
WHOLE_SECOND = MOMENT - 412_000


def test_moko_3004_with_a_list_is_the_older_generations_scan_report(told):
    assert told("moko", OLDER_MOKO).reads == (
        Read("ble", MAC, (BEACON,), None, -58.0, WHOLE_SECOND),
        Read("ble", OTHER_MAC, (EDDYSTONE,), None, -71.0, WHOLE_SECOND),
    )


@pytest.mark.parametrize(
    "message",
    [
        {"msg_id": 3004, "device_info": {}, "data": {"timestamp": 1772439330412, "net_interface": 0}},
        {"msg_id": 3003, "device_info": {}, "data": {"net_status": 1}},
        {"msg_id": 3070, "device_info": {}, "data": []},
    ],
)
def test_moko_3004_with_an_object_is_the_newer_generations_heartbeat(told, message):
    assert told("moko", message) == Parsed(Kind.STATUS)


@pytest.mark.parametrize("message", [{"msg_id": 1018, "data": {}}, {"msg_id": 3004, "data": 5}, {"msg_id": 3003}])
def test_moko_commands_to_a_gateway_and_unknown_shapes_are_ignored(told, message):
    assert told("moko", message).kind is Kind.IGNORED


def moko_time(told, stamp):
    entry = {"mac": "c30a114e7f21", "rssi": -58, "timestamp": stamp}
    return told("moko", {"msg_id": 3070, "data": [entry]})


@pytest.mark.parametrize(
    ("stamp", "observed_at"),
    [
        ("2026-3-2&8:15:30+00", WHOLE_SECOND),
        ("2026-3-2&2:15:30-06", WHOLE_SECOND),
        ("2026-03-02&16:15:30+8", WHOLE_SECOND),
        ("1970-1-1&0:0:5+08", None),
        (1772439330412, MOMENT),
        ("1772439330412", MOMENT),
        (4711, None),
        (0, None),
        (None, None),
    ],
)
def test_moko_times_of_both_generations_and_uptimes_that_are_none(told, stamp, observed_at):
    assert moko_time(told, stamp).reads[0].observed_at == observed_at


@pytest.mark.parametrize("stamp", ["2026-3-2&8:15:30", "2026-3-32&8:15:30+00", "today&now", True])
def test_moko_text_that_is_no_time_skips_the_entry(told, stamp):
    assert moko_time(told, stamp).skipped == 1


def test_moko_vendor_tags_and_their_scan_response_are_read(told):
    entry = {"mac": "c30a114e7f21", "type_code": 1, "adv_data": "020106", "rsp_data": EDDYSTONE_ADVERT}
    assert told("moko", {"msg_id": 3070, "data": [entry]}).reads == (Read("ble", MAC, (EDDYSTONE,)),)


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("moko", b"\xef\x30\x00\x10"),
        ("minew", b"\xbb\x00\x01"),
        ("minew", b"\xbb\x01\x01"),
        ("minew", b"\xbb\x02"),
    ],
)
def test_a_binary_message_is_ignored_with_what_to_choose_instead(told, name, payload):
    parsed = told(name, payload)
    assert parsed.kind is Kind.IGNORED
    assert "to JSON" in parsed.note


def test_minew_gateway_element_alone_is_a_heartbeat(told):
    gateway = {"timestamp": "2026-03-02T08:15:30.412Z", "type": "Gateway", "mac": "AC233FC0A7D1"}
    assert told("minew", [gateway]) == Parsed(Kind.STATUS)


def test_minew_compact_mode_is_read_without_its_gateway(told):
    message = [
        {"gateway": "AC233FC0A7D1", "locator": 1},
        {"mac": "C30A114E7F21", "no": 7, "rssi": -61, "timestamp": "2026-03-02T08:15:30.412Z"},
    ]
    assert told("minew", message) == Parsed(Kind.READS, (Read("ble", MAC, (), None, -61.0, MOMENT),))


def test_minew_raw_data_gives_the_identity_that_is_not_decoded(told):
    message = [{"type": "Unknown", "mac": "C30A114E7F21", "rssi": -61, "rawData": ADVERT}, {"mac": OTHER_MAC}]
    assert told("minew", message).reads[0].aliases == (BEACON,)


RUUVI_TOPIC = f"ruuvi/C4:1F:7A:30:5D:92/{MAC}"


@pytest.mark.parametrize(
    ("ts", "observed_at"),
    [
        (1772439330, WHOLE_SECOND),
        ("1772439330", WHOLE_SECOND),
        ("1772439330.412", MOMENT),
        (1772439330.412, MOMENT),
    ],
)
def test_ruuvi_seconds_are_text_or_a_number(told, ts, observed_at):
    assert told("ruuvi", {"gw_mac": "C4:1F:7A:30:5D:92", "rssi": -65, "ts": ts}).reads[0].observed_at == observed_at


def test_ruuvi_counter_in_place_of_a_time_is_no_time(told):
    message = {"gw_mac": "C4:1F:7A:30:5D:92", "rssi": -65, "cnt": 4711, "data": ADVERT}
    assert told("ruuvi", message).reads == (Read("ble", MAC, (BEACON,), None, -65.0),)


def test_ruuvi_tag_is_the_last_level_of_the_topic(told):
    message = {"gw_mac": "C4:1F:7A:30:5D:92", "rssi": -65}
    assert told("ruuvi", message, topic=f"site/a/b/{OTHER_MAC}").reads[0].value == OTHER_MAC
    parsed = told("ruuvi", message, topic="ruuvi/all")
    assert (parsed.skipped, parsed.note) == (1, '"all" is not a MAC')


@pytest.mark.parametrize(
    ("state", "kind"),
    [("online", Kind.STATUS), ("offline", Kind.OFFLINE), ("asleep", Kind.IGNORED), ([], Kind.IGNORED)],
)
def test_ruuvi_gateway_status_is_its_will(told, state, kind):
    assert told("ruuvi", {"state": state}, topic="ruuvi/C4:1F:7A:30:5D:92/gw_status") == Parsed(kind)


@pytest.mark.parametrize(
    ("device", "read"),
    [
        ({"id": MAC.lower()}, Read("ble", MAC, (), None, -74.0)),
        (
            {"id": UUID, "mac": MAC, "uuid": PLAIN_UUID, "major": 10, "minor": 257},
            Read("ble", MAC, (BEACON,), None, -74.0),
        ),
        ({"id": PLAIN_UUID, "mac": MAC, "major": 10, "minor": 257}, Read("ble", MAC, (BEACON,), None, -74.0)),
        ({"id": UUID, "major": 10, "minor": 257}, Read("ble", BEACON, (), None, -74.0)),
        (
            {"id": MAC, "manufacturerdata": "4c000215" + PLAIN_UUID + "000a0101c5"},
            Read("ble", MAC, (BEACON,), None, -74.0),
        ),
        (
            {
                "id": MAC,
                "servicedatauuid": "0xfeaa",
                "servicedata": "00ee00112233445566778899aabbccddeeff0000",
            },
            Read("ble", MAC, (EDDYSTONE,), None, -74.0),
        ),
        (
            {
                "id": MAC,
                "servicedatauuid": "0xfdcd",
                "servicedata": "00ee00112233445566778899aabbccddeeff0000",
            },
            Read("ble", MAC, (), None, -74.0),
        ),
    ],
)
def test_omg_id_is_the_mac_or_the_beacon_with_the_mac_beside_it(told, device, read):
    assert told("openmqttgateway", {**device, "rssi": -74}).reads == (read,)


@pytest.mark.parametrize("name", ["pallet 71", UUID, ""])
def test_omg_id_that_is_no_identity_is_skipped(told, name):
    assert told("openmqttgateway", {"id": name, "rssi": -74}).skipped == 1


@pytest.mark.parametrize(
    "message",
    [
        {"id": MAC, "presence": "absent"},
        {"id": MAC, "success": True},
        {"id": MAC, "tempc": 21.5, "rssi": None},
    ],
)
def test_omg_message_without_rssi_is_no_sighting(told, message):
    assert told("openmqttgateway", message) == Parsed(Kind.STATUS)


@pytest.mark.parametrize("tail", ["SYStoMQTT", "BTtoMQTT/undecoded", "commands/MQTTtoBT/config"])
def test_omg_other_topics_are_ignored(told, tail):
    parsed = told("openmqttgateway", {"id": MAC, "rssi": -74}, topic=f"home/gateway/{tail}")
    assert parsed == Parsed(Kind.IGNORED)


@pytest.mark.parametrize(
    ("name", "topic"),
    [("openmqttgateway", "home/gateway/LWT"), ("espresense", "espresense/rooms/dock/status")],
)
def test_the_will_of_a_gateway_is_one_plain_word(told, name, topic):
    assert told(name, b"online", topic=topic) == Parsed(Kind.STATUS)
    assert told(name, b"offline", topic=topic) == Parsed(Kind.OFFLINE)


@pytest.mark.parametrize(
    ("device", "read"),
    [
        ({"mac": "c30a114e7f21", "id": "c30a114e7f21"}, Read("ble", MAC)),
        ({"mac": "c30a114e7f21", "id": "irk:0A1B2C"}, Read("ble", MAC, ("irk:0a1b2c",))),
        ({"id": "irk:0A1B2C"}, Read("ble", "irk:0a1b2c")),
        ({"id": f"iBeacon:{UUID.upper()}-10-257"}, Read("ble", BEACON)),
        ({"id": f"iBeacon:{UUID}-70000-1"}, Read("ble", f"ibeacon:{UUID}-70000-1")),
        (
            {"mac": "c30a114e7f21", "id": "eddy:00112233445566778899-AABBCCDDEEFF"},
            Read("ble", MAC, (EDDYSTONE,)),
        ),
        ({"id": "C30A114E7F21"}, Read("ble", MAC)),
    ],
)
def test_espresense_id_is_an_identity_beside_the_mac_or_alone(told, device, read):
    assert told("espresense", device).reads == (read,)


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("espresense/devices/c30a114e7f21/dock/sub", Kind.IGNORED),
        ("espresense/rooms/dock/telemetry", Kind.STATUS),
        ("espresense/rooms/dock/max_distance", Kind.IGNORED),
        ("espresense/settings/phone/config", Kind.IGNORED),
        ("espresense/rooms/dock/status", Kind.IGNORED),
    ],
)
def test_espresense_other_topics_are_no_scans(told, topic, kind):
    assert told("espresense", {"mac": "c30a114e7f21", "rssi": -72}, topic=topic) == Parsed(kind)
