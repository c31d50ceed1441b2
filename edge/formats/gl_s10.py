"""GL.iNet GL-S10: a list of advertisements (firmware 3), or one per message (older, open firmware)."""

from __future__ import annotations

from edge.formats import ble
from edge.formats.fields import MILLISECOND, Fields
from edge.formats.framing import IGNORED, STATUS, collect, each, instant, single
from edge.formats.reads import Parsed, PartialRead, Read


def parse(_topic: str, payload: bytes) -> Parsed:
    return each(payload, _message)


def is_typical(_topic: str, message: Fields) -> bool:
    """Return True if only these gateways send such messages. For recognizing the format only."""
    return "dev_list" in message or {"adv_data", "scan_resp"} <= message.keys()


def _message(message: Fields) -> Parsed:
    window = message.get("dev_list")
    if isinstance(window, list):
        return collect(window, _read)
    if "adv_data" in message or "scan_resp" in message:
        return single(message, _read)
    return STATUS if "jsonrpc" in message and "method" not in message else IGNORED


def _read(scan: Fields) -> Read | PartialRead:
    others = ble.advertised(scan.get("ad"), scan.get("adv_data"), scan.get("scan_resp"))
    return ble.sighting(scan.get("mac"), others, scan.get("rssi"), instant(scan.get("ts"), MILLISECOND))
