"""Peculiarities of April Brother gateways (MessagePack)."""

from __future__ import annotations

import pytest
from msgspec import msgpack

from edge.formats.reads import Guess, Kind, Malformed, Parsed, Read
from edge.formats.registry import FORMATS, recognize
from tests.formats.reader_samples import ADVERT, BEACON, MAC, OTHER_MAC

DEVICES = [
    bytes.fromhex("00C30A114E7F21C2" + ADVERT),
    bytes.fromhex("04D4226B905C3EB9020106"),
]


PACKED = msgpack.encode(
    {"v": "1.5.3", "mid": 7, "time": 4711, "ip": "10.0.0.7", "mac": "AABBCCDDEEFF", "devices": DEVICES}
)


def test_each_device_of_an_april_brother_gateway_is_a_read():
    parsed = FORMATS["april_brother"].parse("gateway", PACKED)
    assert parsed == Parsed(
        Kind.READS, (Read("ble", MAC, (BEACON,), None, -62.0), Read("ble", OTHER_MAC, (), None, -71.0))
    )


@pytest.mark.parametrize("device", [b"", b"\x00" * 7, 5, None, "Ω" * 20, "0" * 14 + "ΩΩ", "0" * 14 + "1_"])
def test_a_truncated_device_does_not_affect_others(device):
    parsed = FORMATS["april_brother"].parse("gateway", msgpack.encode({"devices": [device, DEVICES[0]]}))
    assert (len(parsed.reads), parsed.skipped) == (1, 1)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        PACKED[:-1],
        PACKED + b"\x00",
        b"{}",
        b"\xc1",
        b"\x81\xc0\xc0",
        b"\x81\x01\x01",
        b"\x91" * 10_000,
        b"\xd4\xfe\x01",
    ],
)
def test_invalid_messagepack_is_rejected(payload):
    with pytest.raises(Malformed):
        FORMATS["april_brother"].parse("gateway", payload)


@pytest.mark.parametrize("payload", [b"\xd4\x05\x01", b"\xd6\xff\x00\x00\x00\x01"])
def test_a_value_of_an_extension_type_does_not_affect_others(payload):
    message = b"\x81\xa7devices\x92" + payload + msgpack.encode(DEVICES[0])
    parsed = FORMATS["april_brother"].parse("gateway", message)
    assert (len(parsed.reads), parsed.skipped) == (1, 1)
    assert " object at " not in parsed.note


def test_the_format_is_recognized():
    assert recognize("gateway", PACKED) == Guess("april_brother")
