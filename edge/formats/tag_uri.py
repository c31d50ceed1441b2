"""Convert EPC tag URIs such as `urn:epc:tag:sgtin-96:3.0614141.812345.6789` to hex.

96-bit layout of the EPC Tag Data Standard: header (8 bits), filter (3), partition (3), company prefix, reference,
serial number. The partition determines the sizes of company prefix and reference.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TAG = re.compile(r"urn:epc:tag:([a-z]+-96):([0-7])\.([0-9.]{1,60})")
_PURE = re.compile(
    r"urn:epc:id:(?:(?:sgtin|grai):[0-9]{6,12}\.[0-9]{1,7}\.[!-z]{1,28}|sscc:[0-9]{6,12}\.[0-9]{5,11}|"
    r"giai:[0-9]{6,12}\.[!-z]{1,24})"
)
_RAW = re.compile(r"urn:epc:raw:[0-9]{1,4}\.x([0-9A-F]{1,128})", re.IGNORECASE)

# Bits of a company prefix with 12 to 6 digits; the index is the partition.
_PREFIX_BITS = (40, 37, 34, 30, 27, 24, 20)
_BITS = 96


class _Scheme(NamedTuple):
    header: int
    company_bits: int  # prefix plus reference
    digits: int  # of prefix plus reference, 0 for a reference of variable length
    serial_bits: int


_SCHEMES = {
    "sgtin-96": _Scheme(0x30, 44, 13, 38),
    "sscc-96": _Scheme(0x31, 58, 17, 0),
    "sgln-96": _Scheme(0x32, 41, 12, 41),
    "grai-96": _Scheme(0x33, 44, 12, 38),
    "giai-96": _Scheme(0x34, 82, 0, 0),
}


def is_pure_identity(uri: str) -> bool:
    """True for a URI such as `urn:epc:id:sgtin:0614141.812345.6789`.

    It lacks the filter value and the size of the tag, so it has no hex form. Assets are matched by their GS1 identity.
    """
    return _PURE.fullmatch(uri) is not None


def hex_of(uri: str) -> str | None:
    """Return the EPC in upper-case hex, None if the URI is incomplete or its scheme unknown."""
    if raw := _RAW.fullmatch(uri):
        return raw[1].upper()
    match = _TAG.fullmatch(uri)
    scheme = _SCHEMES.get(match[1]) if match else None
    if match is None or scheme is None:
        return None
    fields = match[3].split(".")
    if len(fields) != (3 if scheme.serial_bits else 2) or not all(fields):
        return None
    return _encoded(scheme, int(match[2]), *fields)


def _encoded(scheme: _Scheme, filter_value: int, prefix: str, reference: str, serial: str = "0") -> str | None:
    partition = 12 - len(prefix)
    if not 0 <= partition < len(_PREFIX_BITS) or (scheme.digits and len(prefix + reference) != scheme.digits):
        return None
    reference_bits = scheme.company_bits - _PREFIX_BITS[partition]
    if int(reference) >> reference_bits or int(serial) >> scheme.serial_bits:
        return None
    bits = (scheme.header << 3 | filter_value) << 3 | partition
    bits = (bits << _PREFIX_BITS[partition] | int(prefix)) << reference_bits | int(reference)
    bits = bits << scheme.serial_bits | int(serial)
    return f"{bits << _BITS - 14 - scheme.company_bits - scheme.serial_bits:0{_BITS // 4}X}"
