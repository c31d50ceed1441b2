"""Sensor values in BLE advertisements: battery, temperature and button.

Understood: Eddystone TLM, Ruuvi (data format 5), unencrypted BTHome version 2, and the Bluetooth battery service.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

FULL, EMPTY = 3000, 2000  # mV of a lithium cell such as CR2032
_LOWEST, _HIGHEST = -100.0, 200.0  # °C

_EDDYSTONE = bytes.fromhex("AAFE")
_TLM = b"\x20\x00"
_BTHOME = bytes.fromhex("D2FC")
_BATTERY_SERVICE = bytes.fromhex("0F18")
_RUUVI = bytes.fromhex("9904")
_BTHOME_BATTERY, _BTHOME_VOLTAGE, _BTHOME_BUTTON = 0x01, 0x0C, 0x3A
_BTHOME_TEMPERATURES = {0x02: 0.01, 0x45: 0.1, 0x57: 1.0, 0x58: 0.35}
# Bytes of each BTHome object that may precede these, by number. Objects are in ascending order.
_BTHOME_OBJECTS = {
    1: (0x00, 0x01, 0x09, *range(0x0F, 0x12), *range(0x15, 0x30), 0x3A, 0x46, 0x57, 0x58),
    2: (0x02, 0x03, 0x06, 0x07, 0x08, *range(0x0C, 0x0F), 0x12, 0x13, 0x14, 0x3C, 0x3D, *range(0x3F, 0x42), 0x43, 0x44),
    3: (0x04, 0x05, 0x0A, 0x0B, 0x42),
    4: (0x3E,),
}
_BTHOME_SIZES = {0x45: 2} | {number: size for size, numbers in _BTHOME_OBJECTS.items() for number in numbers}


class SensorValues(Struct, frozen=True, gc=False):
    """Values sent with a read. `battery` in percent, `temperature` in °C; None if not sent."""

    battery: int | None = None
    millivolts: int | None = None
    temperature: float | None = None
    is_pressed: bool = False


def of_numbers(battery: object = None, volts: object = None, celsius: object = None) -> SensorValues | None:
    """Return decoded values, without those that are no plausible numbers."""
    percent, voltage = _number(battery), _number(volts)
    return _plausible(
        SensorValues(
            None if percent is None else round(percent),
            None if voltage is None else round(voltage * 1000),
            _number(celsius),
        )
    )


def of_structures(structures: Iterator[tuple[int, bytes]]) -> SensorValues | None:
    """Return the values in the structures (type, data) of an advertisement, None if there are none."""
    for kind, data in structures:
        values = None
        if kind == 0xFF and data.startswith(_RUUVI):
            values = _ruuvi(data[2:])
        elif kind == 0x16:
            values = _of_service(data[:2], data[2:])
        if values and (checked := _plausible(values)):
            return checked
    return None


def _of_service(service: bytes, data: bytes) -> SensorValues | None:
    if service == _EDDYSTONE and data.startswith(_TLM) and len(data) >= 6:
        degrees = int.from_bytes(data[4:6], signed=True)
        return SensorValues(None, int.from_bytes(data[2:4]) or None, None if degrees == -0x8000 else degrees / 256)
    if service == _BATTERY_SERVICE and len(data) == 1:
        return SensorValues(data[0])
    if service == _BTHOME and data and data[0] & 1 == 0 and data[0] >> 5 == 2:
        return _bthome(data[1:])
    return None


def _bthome(data: bytes) -> SensorValues:
    battery = millivolts = temperature = None
    is_pressed = False
    at = 0
    while at < len(data) and (size := _BTHOME_SIZES.get(data[at])):
        number, value = data[at], data[at + 1 : at + 1 + size]
        if len(value) < size:
            break
        if number == _BTHOME_BATTERY:
            battery = value[0]
        elif number == _BTHOME_VOLTAGE:
            millivolts = int.from_bytes(value, "little")
        elif number in _BTHOME_TEMPERATURES:
            temperature = int.from_bytes(value, "little", signed=True) * _BTHOME_TEMPERATURES[number]
        elif number == _BTHOME_BUTTON:
            is_pressed = is_pressed or value[0] not in (0x00, 0x80)  # none, hold
        at += 1 + size
    return SensorValues(battery, millivolts, temperature, is_pressed)


def _ruuvi(data: bytes) -> SensorValues | None:
    if len(data) < 15 or data[0] != 5:
        return None
    degrees, power = int.from_bytes(data[1:3], signed=True), int.from_bytes(data[13:15]) >> 5
    return SensorValues(None, None if power == 2047 else power + 1600, None if degrees == -0x8000 else degrees * 0.005)


def _plausible(values: SensorValues) -> SensorValues | None:
    """Return the values without impossible ones; a battery in volts is estimated in percent. None if none is left."""
    battery, millivolts, temperature = values.battery, values.millivolts, values.temperature
    millivolts = millivolts if millivolts is not None and 500 <= millivolts <= 20_000 else None
    battery = battery if battery is not None and 0 <= battery <= 100 else None
    if battery is None and millivolts is not None:
        battery = max(0, min(100, round((millivolts - EMPTY) * 100 / (FULL - EMPTY))))
    if temperature is not None and not _LOWEST <= temperature <= _HIGHEST:
        temperature = None
    if battery is None and temperature is None and not values.is_pressed:
        return None
    return SensorValues(battery, millivolts, temperature, values.is_pressed)


def _number(value: object) -> float | None:
    """Return a finite number, also one sent as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e6 else None  # also drops NaN
