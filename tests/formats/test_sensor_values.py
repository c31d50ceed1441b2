"""Battery, temperature and button in advertisements and decoded messages."""

from __future__ import annotations

import pytest

from edge.formats.ble import sensors_in, sensors_of_service
from edge.formats.sensor_values import SensorValues, of_numbers


def service(uuid: str, data: str) -> str:
    """Return an advertisement with service data."""
    content = bytes.fromhex("16") + bytes.fromhex(uuid)[::-1] + bytes.fromhex(data)
    return "020106" + bytes([len(content)]).hex() + content.hex()


@pytest.mark.parametrize(
    ("advertisement", "expected"),
    [
        (service("FEAA", "2000 0BB8 1540 00000001 00000010"), SensorValues(100, 3000, 21.25)),
        (service("FEAA", "2000 09C4 8000 00000001 00000010"), SensorValues(50, 2500)),
        (service("FEAA", "2000 0000 FF80 00000001 00000010"), SensorValues(None, None, -0.5)),
        (service("180F", "2A"), SensorValues(42)),
        (service("FCD2", "40 00 07 01 5F 02 CA09 3A 01"), SensorValues(95, None, 25.06, is_pressed=True)),
        (service("FCD2", "44 00 07 01 5F 3A 00"), SensorValues(95)),
        (service("FCD2", "40 0C B80B 45 1101"), SensorValues(100, 3000, 27.3)),
        (
            "0201061BFF9904050E5F48A8C81E000CFFEC03ECA156110BCDE71A40C95B08",
            SensorValues(89, 2890, 18.395),
        ),
    ],
)
def test_values_of_advertisements(advertisement: str, expected: SensorValues) -> None:
    values = sensors_in(None, advertisement)
    assert values is not None
    assert (values.battery, values.millivolts, values.is_pressed) == (
        expected.battery,
        expected.millivolts,
        expected.is_pressed,
    )
    assert values.temperature == (None if expected.temperature is None else pytest.approx(expected.temperature))


@pytest.mark.parametrize(
    "advertisement",
    [
        "020106",
        "",
        None,
        7,
        service("FCD2", "41 00 01 5F"),  # encrypted
        service("FCD2", "40 F0 01"),  # an unknown object first
        service("FCD2", "40 02 CA"),  # cut off
        service("180F", "FF"),  # 255 %
        service("FEAA", "2000 0B"),
        service("FEAA", "00 BB 00112233445566778899 AABBCCDDEEFF"),  # an identity
        "0201061AFF4C0002155B2F0C1E8D474F0A9C3371DE20AA4B10000A0101C5",
    ],
)
def test_anything_else_has_no_values(advertisement: object) -> None:
    assert sensors_in(advertisement) is None


def test_services_are_named_in_several_ways() -> None:
    for name in ("fcd2", "0xfcd2", "0000fcd2-0000-1000-8000-00805f9b34fb"):
        assert sensors_of_service(name, "4001 32") == SensorValues(50)
    assert sensors_of_service("feaa", "xx") is None
    assert sensors_of_service(None, "4001 32") is None


def test_impossible_numbers_are_ignored() -> None:
    assert of_numbers(80, 2.9, 21.5) == SensorValues(80, 2900, 21.5)
    assert of_numbers("80") == SensorValues(80)
    assert of_numbers(101, -4, 900) is None
    assert of_numbers(float("nan"), float("inf"), True) is None
    assert of_numbers("x", [], {}) is None


def test_gateways_that_decode(parse) -> None:
    (read,) = parse("openmqttgateway", {"id": "C3:0A:11:4E:7F:21", "rssi": -60, "batt": 55, "tempc": 4.5}).reads
    assert read.sensors == SensorValues(55, None, 4.5)
    (read,) = parse("minew", [{"mac": "C30A114E7F21", "rssi": -60, "battery": 0, "temperature": 20}]).reads
    assert read.sensors == SensorValues(None, None, 20.0)
    (read,) = parse("edge", {"tag": "30AA", "battery": 12, "button": True}).reads
    assert read.sensors == SensorValues(12, is_pressed=True)
    (read,) = parse("edge", {"tag": "30AA"}).reads
    assert read.sensors is None
