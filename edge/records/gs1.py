"""GS1 parsing: one identity for all encodings of the same item.

An SGTIN, SSCC, GRAI, GIAI or the GLN of a location can be printed as an element string (plain, with a symbology
identifier or in brackets), a Digital Link, an EPC URI or the EPC of an RFID tag. The identity is its element string in
brackets. Codes without a serial number, such as a plain GTIN, identify a product and have no identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

SEPARATOR = "\x1d"  # FNC1, the end of a value of variable length
LONGEST = 512  # characters of a code. Parsing takes quadratic time, in which no other thread runs

_SYMBOLOGY = re.compile(r"^\](?:C1|e0|d2|Q3|J1)")  # symbology identifiers of GS1 element strings
_PLAIN = re.compile(r"(?:00\d{18}|01\d{14}21[!-z]{1,20}|80030\d{13}[!-z]{1,16}|8004[!-z]{4,30}|414\d{13}254[!-z]+)")
_CHECKED = {"00": 18, "01": 14, "8003": 14}  # number of digits up to and including the check digit
_MARKED = re.compile(
    r"^\](?:C1|e0|d2|Q3|J1)(?:(00|01|8003)(\d{14,18}))|^\((00|01|8003)\)(\d{8,18})|^(?i:https?)://.*?/(00|01|8003)/(\d{8,18})"
)
_WRITTEN_SEPARATOR = re.compile(r"<GS>|\{GS\}|\^\]|[|~]")  # of scanners that write it as other characters
_LINK = re.compile(r"(?:\][A-Z][0-9A-Z])?(https?://[^/]+)", re.IGNORECASE)
_URN = re.compile(r"urn:epc:(?:id|tag):[a-z0-9-]+:", re.IGNORECASE)

_EPC = re.compile(r"3[0-46-9][0-9A-F]{22,}")  # headers of the Tag Data Standard


def identity(code: str) -> str | None:
    """Return the identity of a code, such as `(01)80614141123458(21)6789`, or None if it identifies no single item."""
    return cached_identity(code) if len(code) <= LONGEST else None


@lru_cache(maxsize=20_000)
def cached_identity(code: str) -> str | None:
    text = code.strip()
    try:
        if start := _URN.match(text):  # QR codes often use capitals only, because they are smaller
            from edge.records import gs1_epcs

            return gs1_epcs.of_uri(start[0].lower() + text[start.end() :])
        bare = text.upper().replace(" ", "").replace("-", "").removeprefix("0X").lstrip("0")
        if _EPC.fullmatch(bare):
            from edge.records import gs1_epcs

            return gs1_epcs.of_hex(bare)
        return _identity_of_barcode(text)
    except (ValueError, IndexError, KeyError):
        return None


def identify_before_writing(codes: Iterable[str]) -> None:
    """Parse codes ahead of the transaction that looks them up, where the results are then in the cache.

    The first code of a kind loads a library, for up to 0.1 s in which others would wait for the write lock.
    """
    for code in codes:
        identity(code)


@cache
def load_epc_library() -> None:
    """Load the library for EPCs, which takes 25 ms, ahead of a transaction that may need it."""
    from edge.records import gs1_epcs  # noqa: F401  only loaded


def printable(code: str) -> str:
    """Return a code without FNC1 separators, which tag values cannot contain: GS1 element strings in brackets.

    An element string without separators is converted only if it has a symbology identifier, which other programs drop.
    """
    if SEPARATOR not in code and not (_SYMBOLOGY.match(code) and identity(code)):
        return code
    if len(code) > LONGEST:
        return code.replace(SEPARATOR, "")
    from edge.records import gs1_barcodes

    try:
        return gs1_barcodes.as_bracketed(_SYMBOLOGY.sub("", code).lstrip(SEPARATOR))
    except ValueError:
        return code.replace(SEPARATOR, "")


def has_wrong_check_digit(code: str) -> bool:
    """Return True if a code is marked as GS1 but its check digit is wrong, so it was misread or misprinted."""
    match = _MARKED.search(code.strip())
    if match is None:
        return False
    key, digits = (group for group in match.groups() if group)
    length = _CHECKED[key]
    digits = digits[:length].zfill(length)
    from edge.records import gs1_barcodes

    return gs1_barcodes.check_digit(digits[:-1]) != int(digits[-1])


def _identity_of_barcode(text: str) -> str | None:
    link = _LINK.match(text)
    text = text if link else _WRITTEN_SEPARATOR.sub(SEPARATOR, text)
    message = _SYMBOLOGY.sub("", text)
    is_message = message != text or SEPARATOR in text or _PLAIN.fullmatch(text)
    if not (link or is_message or text.startswith("(")):
        return None
    from edge.records import gs1_barcodes  # imported on first use, because its library delays startup by 0.1 s

    if link:
        return gs1_barcodes.of_digital_link(link[1].lower() + text[link.end() :])
    if text.startswith("("):
        return gs1_barcodes.of_bracketed(text)
    return gs1_barcodes.of_message(message.lstrip(SEPARATOR))
