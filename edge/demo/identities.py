"""Tag values in real GS1, MAC and iBeacon formats, numbered by serial."""

from __future__ import annotations

from typing import NamedTuple

SEVEN_DIGIT_PREFIX = 5  # partition: 24 bits of company prefix


class Beacon(NamedTuple):
    uuid: str
    major: int
    minor: int

    @property
    def triple(self) -> str:
        return f"{self.uuid}:{self.major}:{self.minor}"


def grai_epc(prefix: str, asset_type: int, serial: int, filter_value: int = 0) -> str:
    return _epc96(0x33, filter_value, (int(prefix), 24), (asset_type, 20), (serial, 38))


def sgtin_epc(prefix: str, item: int, serial: int, filter_value: int = 0) -> str:
    return _epc96(0x30, filter_value, (int(prefix), 24), (item, 20), (serial, 38))


def giai_epc(prefix: str, reference: int, filter_value: int = 0) -> str:
    return _epc96(0x34, filter_value, (int(prefix), 24), (reference, 58))


def chip_epc(serial: int) -> str:
    """Return the EPC of an unwritten tag: the chip maker's default."""
    return f"E2801160600002{serial:010X}"


def grai_barcode(prefix: str, asset_type: int, serial: int) -> str:
    """Return the element string of a GS1-128 label, without the symbology prefix that a scanner may add."""
    digits = f"{prefix}{asset_type:05d}"
    return f"80030{digits}{_check_digit(digits)}{serial}"


def giai_barcode(prefix: str, reference: int) -> str:
    return f"8004{prefix}{reference}"


def static_mac(serial: int) -> str:
    """Return a static random address: its top bits are 11."""
    return f"C3:0A:11:4E:{serial >> 8:02X}:{serial & 0xFF:02X}"


def private_mac(serial: int) -> str:
    """Return a resolvable private address, as phones use: its top bits are 01."""
    return f"4D:71:E8:0C:{serial >> 8:02X}:{serial & 0xFF:02X}"


def _epc96(header: int, filter_value: int, *fields: tuple[int, int]) -> str:
    number = (header << 3 | filter_value) << 3 | SEVEN_DIGIT_PREFIX
    for value, bits in fields:
        number = number << bits | value
    return f"{number:024X}"


def _check_digit(digits: str) -> int:
    """Return the GS1 check digit: weights 3 and 1 alternate from the last digit."""
    return -sum(int(digit) * (3, 1)[position % 2] for position, digit in enumerate(reversed(digits))) % 10
