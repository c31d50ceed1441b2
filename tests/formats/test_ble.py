from __future__ import annotations

import pytest

from edge.formats import ble, tag_values
from edge.validation.values import TAG_TYPES
from tests.formats.reader_samples import ADVERT, BEACON, MAC, UUID

FLAGS = "020106"
IBEACON = "1AFF" + "4C000215" + UUID.replace("-", "") + "000A" + "0101" + "C5"
EDDYSTONE_UID = "1516" + "AAFE" + "00" + "EE" + "00112233445566778899" + "AABBCCDDEEFF"
EDDYSTONE_URL = "0C16" + "AAFE" + "10" + "EE" + "00" + "6578616D706C65"
EDDYSTONE_LONG_URL = "1616" + "AAFE" + "10" + "EE" + "00" + "6578616D706C65" * 2 + "2F00"
EDDYSTONE_EID = "0D16" + "AAFE" + "30" + "EE" + "0011223344556677"
RUUVI = "1BFF" + "9904" + "050E5F48A8C81E000CFFEC03ECA156110BCDE71A40C95B08"


@pytest.mark.parametrize(
    ("advertisement", "identities"),
    [
        (ADVERT, (BEACON,)),
        (FLAGS + IBEACON, (BEACON,)),
        (FLAGS + IBEACON.lower(), (BEACON,)),
        ("0x" + FLAGS + IBEACON, (BEACON,)),
        (bytes.fromhex(IBEACON).hex(":"), (BEACON,)),
        ([*bytes.fromhex(FLAGS + IBEACON)], (BEACON,)),
        ([*bytes.fromhex(IBEACON), 256], ()),
        ([True, *bytes.fromhex(IBEACON)], ()),
        (IBEACON + EDDYSTONE_UID, (BEACON, "00112233445566778899:aabbccddeeff")),
        (IBEACON + IBEACON, (BEACON,)),
        (FLAGS + EDDYSTONE_URL + EDDYSTONE_EID, ()),
        (FLAGS + EDDYSTONE_LONG_URL, ()),
        (FLAGS + RUUVI, ()),
        ("00" + IBEACON, ()),
        (IBEACON[:-4], ()),
        ("1AFF4C000215", ()),
        ("FF", ()),
        ("01", ()),
        ("", ()),
        ("not hex", ()),
        ("ABC", ()),
        (None, ()),
        (5, ()),
    ],
)
def test_only_a_complete_beacon_is_an_identity(advertisement, identities):
    assert ble.advertised(advertisement) == identities


@pytest.mark.parametrize(
    ("spelt", "identity"),
    [
        ("c30a114e7f21", MAC),
        ("C3:0A:11:4E:7F:21", MAC),
        ("c3-0a-11-4e-7f-21", MAC),
        (BEACON, BEACON),
        (f"{UUID.replace('-', '').upper()}:10:257", BEACON),
        (f"iBeacon:{UUID}-10-257", BEACON),
        (f"{UUID}_0010_257", BEACON),
        ("eddy:00112233445566778899-AABBCCDDEEFF", "00112233445566778899:aabbccddeeff"),
        ("tile:ABC", "tile:abc"),
        (f"{UUID}:10:70000", f"{UUID}:10:70000"),
    ],
)
def test_identities_are_normalized(spelt, identity):
    assert ble.identity(spelt) == identity
    assert ble.identity(identity) == identity


@pytest.mark.parametrize(("major", "minor"), [(None, 1), (1, None), (-1, 1), (65_536, 1), (1.5, 1), (True, 1), ("", 1)])
def test_a_beacon_without_both_numbers_is_ignored(major, minor):
    assert ble.ibeacon(UUID, major, minor) == ()


def test_every_tag_type_can_be_read():
    sent = {"rfid": "3074 257B", "ble": "c30a114e7f21", "barcode": " abc\n"}
    assert {kind: tag_values.value(kind, sent[kind]) for kind in TAG_TYPES} == {
        "rfid": "3074257B",
        "ble": MAC,
        "barcode": "abc",
    }


@pytest.mark.parametrize("numbers", [(10, 257), ("10", "257"), ("0x000A", "0x101")])
def test_the_numbers_of_a_beacon_may_be_hexadecimal_with_a_prefix(numbers):
    assert ble.ibeacon(UUID, *numbers) == (BEACON,)
    assert ble.ibeacon(UUID, "0x10000", "0x") == ()
