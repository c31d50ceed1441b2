"""Tag values as a person may have registered them, from what a reader sent."""

from __future__ import annotations

import re
from functools import lru_cache

from edge.formats import ble, tag_uri
from edge.formats.fields import Unreadable, describe, text
from edge.validation.values import MAX_TEXT

_HEX = re.compile(rf"[0-9A-Fa-f]{{1,{MAX_TEXT}}}")
_SEPARATORS = str.maketrans("", "", " -:._")
_SERIALIZED_TID = 24


def value(tag_type: str, sent: object) -> str:
    """The value of a tag in a format where any type may come."""
    if tag_type == "rfid":
        return epc(sent)
    spelt = text(sent, "tag")
    if spelt is None:
        raise Unreadable("tag is missing")
    return ble.identity(spelt) if tag_type == "ble" else spelt


def epc(sent: object) -> str:
    """Hex as the reader sent it, without what divides its groups and without the 0x of hand-made formats.

    A whole number is an EPC without letters whose quotes were forgotten. One with a decimal point or an exponent
    has lost digits.
    """
    if isinstance(sent, str):
        return _spelt_epc(sent) if len(sent) <= MAX_TEXT else _epc(sent)
    if type(sent) is int and sent >= 0:
        return _epc(str(sent))
    if isinstance(sent, float):
        raise Unreadable(f"the EPC is the number {sent}, which has lost digits: send it in quotes")
    raise Unreadable("the EPC is missing" if sent is None else f"the EPC is {describe(sent)}, not text")


def _epc(sent: str) -> str:
    if _HEX.fullmatch(sent):
        return sent
    if sent.strip().lower().startswith("urn:"):
        return _of_uri(sent.strip())
    joined = sent.strip().translate(_SEPARATORS).removeprefix("0x").removeprefix("0X")
    if _HEX.fullmatch(joined):
        return joined
    if len(joined) > MAX_TEXT:
        raise Unreadable(f"the EPC is longer than {MAX_TEXT} digits")
    raise Unreadable(f"the EPC is {describe(sent)}, not hexadecimal" if joined else "the EPC is blank")


# Most tags stay where they are, and are read again and again. Long text is not kept: it may be 1 MiB of blanks.
_spelt_epc = lru_cache(maxsize=4096)(_epc)


def _of_uri(uri: str) -> str:
    digits = tag_uri.hex_of(uri)
    if digits is None:
        raise Unreadable(f"{describe(uri)} is not a tag URI with all its bits, such as urn:epc:tag:sgtin-96:3.0614141…")
    return digits


def tid(sent: object) -> tuple[str, ...]:
    """The chip's own number as another identity of the tag.

    Only a serialized one, 96 bits and more: a shorter one names the model and is shared by every tag of it.
    A bank that could not be read holds an error sentence instead.
    """
    if isinstance(sent, str) and len(sent) >= _SERIALIZED_TID and _HEX.fullmatch(sent):
        return (sent,)
    return ()
