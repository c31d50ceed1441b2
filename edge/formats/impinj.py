"""Impinj R700 and R720 (IoT device interface).

All kinds of events arrive on one topic, each with its own key, such as `tagInventoryEvent`. The connect, last will and
disconnect messages may use the same topic. They are plain text, and the last one is empty by default.
"""

from __future__ import annotations

import binascii
from base64 import b64decode

from edge.formats.fields import (
    MILLISECOND,
    Fields,
    Unreadable,
    describe,
    first,
    number,
    one_line,
    rssi,
)
from edge.formats.framing import IGNORED, OFFLINE, STATUS, antenna, bare, each, instant, optional, read_of, single
from edge.formats.reads import Kind, Parsed, PartialRead, Read
from edge.formats.tag_values import epc, tid

_EVENTS = frozenset(
    (
        "tagInventoryEvent",
        "antennaConnectedEvent",
        "antennaDisconnectedEvent",
        "antennaActivationEvent",
        "inventoryStatusEvent",
        "inventoryTerminatedEvent",
        "diagnosticEvent",
        "overflowEvent",
        "gpiTransitionEvent",
        "tagLocationEntryEvent",
        "tagLocationUpdateEvent",
        "tagLocationExitEvent",
    )
)
_PLAIN_TEXT = {b"connected": STATUS, b"connection lost": OFFLINE, b"disconnected": OFFLINE, b"": OFFLINE}


def parse(_topic: str, payload: bytes) -> Parsed:
    return _PLAIN_TEXT.get(bare(payload).lower()) or each(payload, _event)


def is_typical(_topic: str, event: Fields) -> bool:
    """Return True if only these readers send such messages. For recognizing the format only."""
    kind = event.get("eventType")
    return not _EVENTS.isdisjoint(event) or (isinstance(kind, str) and f"{kind}Event" in _EVENTS)


def _event(event: Fields) -> Parsed:
    """Parse an event by its key, because early 7.x firmware omits `eventType`."""
    if "tagInventoryEvent" in event or event.get("eventType") == "tagInventory":
        return single(event, _tag)
    for key, details in event.items():
        if key.endswith("Event") and isinstance(details, dict):
            return Parsed(Kind.STATUS, note=_note(key, details))
    return STATUS if isinstance(event.get("eventType"), str) else IGNORED


def _tag(event: Fields) -> Read | PartialRead:
    tag = event.get("tagInventoryEvent")
    if not isinstance(tag, dict):
        raise Unreadable(f"tagInventoryEvent is {describe(tag)}, not an object")
    return read_of(
        "rfid",
        _epc(tag),
        _tid(tag),
        antenna(tag.get("antennaPort")),
        _strength(tag),
        instant(first(tag, "lastSeenTime") or event.get("timestamp"), MILLISECOND),
    )


@optional
def _strength(tag: Fields) -> float | None:
    hundredths = number(first(tag, "peakRssiCdbm"), "peakRssiCdbm")
    return rssi(None if hundredths is None else hundredths / 100)


def _epc(tag: Fields) -> str:
    spelt = first(tag, "epcHex")
    return epc(_hex(tag.get("epc")) if spelt is None else spelt)


def _tid(tag: Fields) -> tuple[str, ...]:
    try:
        return tid(first(tag, "tidHex") or _hex(tag.get("tid")))
    except Unreadable:
        return ()


def _hex(sent: object) -> str | None:
    """Convert base64url, with or without padding, to hex."""
    if sent is None:
        return None
    if not isinstance(sent, str):
        raise Unreadable(f"the EPC is {describe(sent)}, not text")
    padding = "=" * (-len(sent) % 4)
    try:
        return b64decode(sent + padding, altchars="-_", validate=True).hex().upper()
    except (binascii.Error, ValueError):
        raise Unreadable(f"the EPC is {describe(sent)}, not base64url") from None


def _note(key: str, details: Fields) -> str | None:
    if key in ("antennaConnectedEvent", "antennaDisconnectedEvent"):
        state = key.removeprefix("antenna").removesuffix("Event").lower()
        return one_line(f"antenna {details.get('antennaPort')} {state}")
    if key == "overflowEvent":
        return one_line(f"buffer overflow: {details.get('eventsPurged')} events lost")
    if key == "inventoryStatusEvent":
        return one_line(f"inventory {details.get('inventoryStatus')}")
    return "inventory ended" if key == "inventoryTerminatedEvent" else None
