"""GS1 identities of EPCs: the URI forms and the hexadecimal content of an RFID tag.

`gs1` imports this module when it is needed.
"""

from __future__ import annotations

from epcpy.epc_schemes.base_scheme import GS1Element, TagEncodable
from epcpy.utils.common import ConvertException
from epcpy.utils.parsers import epc_pure_identity_to_gs1_element, hex_to_tag_encodable, tag_uri_to_tag_encodable

_PREFIXES = ("(00)", "(01)", "(8003)", "(8004)", "(414)")
# Lengths in bits by binary header (Tag Data Standard); those that are not listed vary.
_BITS = dict.fromkeys(("2C", "2D", "2E", "2F", "30", "31", "32", "33", "34", "35", "3C"), 96)
_BITS |= {"36": 198, "37": 170, "38": 202, "39": 195, "3E": 174}


def of_uri(uri: str) -> str | None:
    """Return the identity of `urn:epc:id:…` or `urn:epc:tag:…`. Raises ValueError, IndexError or KeyError."""
    try:
        is_tag = uri.startswith("urn:epc:tag:")
        return _identity(tag_uri_to_tag_encodable(uri) if is_tag else epc_pure_identity_to_gs1_element(uri))
    except ConvertException as error:
        raise ValueError from error


def of_hex(digits: str) -> str | None:
    """Return the identity of a tag's EPC. Raises ValueError, IndexError or KeyError."""
    try:
        return _identity(_decoded(digits))
    except ConvertException as error:
        raise ValueError from error


def _decoded(digits: str) -> TagEncodable:
    """Decode a tag's EPC. Raises ValueError if other bits than zeros follow: another number begins like an EPC."""
    surplus = 4 * len(digits) - _BITS.get(digits[:2], 4 * len(digits))
    if surplus < 0 or int(digits, 16) & ((1 << surplus) - 1):
        raise ValueError("not an EPC: too long or too short")
    return hex_to_tag_encodable(digits)


def _identity(epc: object) -> str | None:
    """Return the element string of an EPC. EPCs of these schemes always name one item or location."""
    text = epc.gs1_element_string() if isinstance(epc, GS1Element) else ""
    return text.removesuffix("(254)0") if text.startswith(_PREFIXES) else None


def pure_identity(value: str) -> str | None:
    """Return the EPC URI, such as `urn:epc:id:sgtin:…`, of a tag's value in hexadecimal digits or as URI.

    Element strings and Digital Links do not say how long the company prefix is, so they have none.
    """
    text = value.strip()
    try:
        if text.lower().startswith("urn:epc:id:"):
            return text
        is_tag = text.lower().startswith("urn:epc:tag:")
        epc = tag_uri_to_tag_encodable(text) if is_tag else _decoded(text.upper())
        uri: str = epc.epc_uri
        return uri if uri.startswith("urn:epc:id:") else None
    except (ConvertException, ValueError, IndexError, KeyError, AttributeError):
        return None
