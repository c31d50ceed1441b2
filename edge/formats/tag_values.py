"""Normalize tag values sent by readers."""

from __future__ import annotations

import re
from functools import lru_cache

from edge.formats import ble, tag_uri
from edge.formats.fields import Unreadable, describe, text
from edge.validation.values import MAX_TEXT, trimmed

_HEX = re.compile(rf"[0-9A-Fa-f]{{1,{MAX_TEXT}}}")
_SEPARATORS = str.maketrans("", "", " -:._")
_SERIALIZED_TID = 24


def value(tag_type: str, sent: object) -> str:
    """Return the value of a tag of any type. Raises Unreadable."""
    if tag_type == "rfid":
        return epc(sent)
    tag = text(sent, "tag")
    if tag is None:
        raise Unreadable("tag is missing")
    return ble.identity(tag) if tag_type == "ble" else tag


def epc(sent: object) -> str:
    """Return an EPC in hex, without separators and without `0x`; a pure identity stays a URI. Raises Unreadable.

    A whole number is an EPC without letters that was sent unquoted. A float has lost digits and is rejected.
    """
    if isinstance(sent, str):
        return _cached_epc(sent) if len(sent) <= MAX_TEXT else _epc(sent)
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
    joined = trimmed(sent).translate(_SEPARATORS).removeprefix("0x").removeprefix("0X")
    if _HEX.fullmatch(joined):
        return joined
    if len(joined) > MAX_TEXT:
        raise Unreadable(f"the EPC is longer than {MAX_TEXT} digits")
    raise Unreadable(f"the EPC is {describe(sent)}, not hexadecimal" if joined else "the EPC is blank")


# Most tags are stationary and are read repeatedly. Long text, up to 1 MiB, is not cached.
_cached_epc = lru_cache(maxsize=4096)(_epc)


def _of_uri(uri: str) -> str:
    digits = tag_uri.hex_of(uri)
    if digits is None and tag_uri.is_pure_identity(uri):
        return uri
    if digits is None:
        raise Unreadable(f"{describe(uri)} is not a tag URI with all its bits, such as urn:epc:tag:sgtin-96:3.0614141…")
    return digits


def tid(sent: object) -> tuple[str, ...]:
    """Return the chip's TID as an alias of the tag, empty if it is unusable.

    Only a serialized TID (at least 96 bits) is unique: a shorter one identifies just the model. If the TID bank could
    not be read, some readers send an error text instead.
    """
    if isinstance(sent, str) and len(sent) >= _SERIALIZED_TID and _HEX.fullmatch(sent):
        return (sent,)
    return ()
