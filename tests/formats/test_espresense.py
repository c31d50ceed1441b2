"""Peculiarities of ESPresense."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import BEACON, EDDYSTONE, MAC, UUID


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
def test_espresense_id_is_an_alias_or_the_value(parse, device, read):
    assert parse("espresense", device).reads == (read,)


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
def test_espresense_other_topics_have_no_reads(parse, topic, kind):
    assert parse("espresense", {"mac": "c30a114e7f21", "rssi": -72}, topic=topic) == Parsed(kind)
