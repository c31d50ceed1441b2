"""What a code means by GS1 standards: one identity for all spellings of one thing.

A printed element string, with a symbology identifier or in brackets, a Digital Link, an EPC URI and the EPC of an RFID
tag name the same SGTIN, SSCC, GRAI or GIAI. The identity is its element string in brackets. Codes that name only a kind
of thing, such as a GTIN without a serial number, have none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from epcpy.epc_schemes.base_scheme import GS1Element
from epcpy.utils.common import ConvertException
from epcpy.utils.parsers import epc_pure_identity_to_gs1_element, hex_to_tag_encodable, tag_uri_to_tag_encodable

SEPARATOR = "\x1d"  # FNC1, which ends a value of variable length

_SYMBOLOGY = re.compile(r"^\](?:C1|e0|d2|Q3|J1)")  # identifiers that announce an element string
_OF_EPC = ("(00)", "(01)", "(8003)", "(8004)")
_PLAIN = re.compile(r"(?:00\d{18}|01\d{14}21[!-z]{1,20}|80030\d{13}[!-z]{1,16}|8004[!-z]{4,30})")
_CHECKED = {"00": 18, "01": 14, "8003": 14}  # digits with the check digit at their end
_MARKED = re.compile(
    r"^\](?:C1|e0|d2|Q3|J1)(?:(00|01|8003)(\d{14,18}))|^\((00|01|8003)\)(\d{8,18})|^(?i:https?)://.*?/(00|01|8003)/(\d{8,18})"
)
_LINK = re.compile(r"https?://[^/]+", re.IGNORECASE)
_URN = re.compile(r"urn:epc:(?:id|tag):[a-z0-9-]+:", re.IGNORECASE)

# The first byte of an EPC (Tag Data Standard, EPC binary headers), and its length in hexadecimal digits at least.
_HEADERS = {"30": 24, "31": 24, "33": 24, "34": 24, "36": 50, "37": 43, "38": 51}
_HEX = re.compile(r"[0-9A-F]+")


@lru_cache(maxsize=20_000)
def identity(code: str) -> str | None:
    """`(01)80614141123458(21)6789` and the like, or None for a code that names no single thing by GS1 standards."""
    text = code.strip()
    try:
        if start := _URN.match(text):  # a QR code of capitals only is smaller
            return _of_epc_uri(start[0].lower() + text[start.end() :])
        bare = text.upper().replace(" ", "").replace("-", "").removeprefix("0X").lstrip("0")
        if len(bare) >= _HEADERS.get(bare[:2], len(bare) + 1) and _HEX.fullmatch(bare):
            return _of_epc(hex_to_tag_encodable(bare))
        return _of_barcode(text)
    except (ConvertException, ValueError, IndexError, KeyError):
        return None  # it only looked like one of these


def printable(code: str) -> str:
    """A code as it can be stored: an element string in brackets, since tag values cannot have its separators.

    Only with its symbology identifier is one known that has no separators, and other programs drop that.
    """
    if SEPARATOR not in code and not (_SYMBOLOGY.match(code) and identity(code)):
        return code
    from edge.records import gs1_barcodes

    try:
        return gs1_barcodes.as_bracketed(_SYMBOLOGY.sub("", code).lstrip(SEPARATOR))
    except ValueError:
        return code.replace(SEPARATOR, "")


def has_wrong_check_digit(code: str) -> bool:
    """Whether a code is marked as GS1 and its check digit is wrong: it was misread or misprinted."""
    found = _MARKED.search(code.strip())
    if found is None:
        return False
    key, digits = (part for part in found.groups() if part)
    length = _CHECKED[key]
    digits = digits[:length].zfill(length)
    from edge.records import gs1_barcodes

    return gs1_barcodes.check_digit(digits[:-1]) != int(digits[-1])


def _of_barcode(text: str) -> str | None:
    link = _LINK.match(text)
    message = _SYMBOLOGY.sub("", text)
    is_message = message != text or SEPARATOR in text or _PLAIN.fullmatch(text)
    if not (link or is_message or text.startswith("(")):
        return None
    from edge.records import gs1_barcodes  # when the first barcode arrives: its library delays the start by 0.1 s

    if link:
        return gs1_barcodes.of_digital_link(link[0].lower() + text[link.end() :])
    if text.startswith("("):
        return gs1_barcodes.of_bracketed(text)
    return gs1_barcodes.of_message(message.lstrip(SEPARATOR))


def _of_epc_uri(uri: str) -> str | None:
    is_tag = uri.startswith("urn:epc:tag:")
    return _of_epc(tag_uri_to_tag_encodable(uri) if is_tag else epc_pure_identity_to_gs1_element(uri))


def _of_epc(epc: object) -> str | None:
    """Its element string is the identity: an EPC of these kinds always has its serial number."""
    text = epc.gs1_element_string() if isinstance(epc, GS1Element) else ""
    return text if text.startswith(_OF_EPC) else None
