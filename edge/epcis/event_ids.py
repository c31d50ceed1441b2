"""Ids of events: the hash of an event's content, by the algorithm of CBV 2.0, section 8.9.

Fields and their order: https://github.com/RalphTro/epcis-event-hash-generator. Only fields that `edge.epcis.events`
uses are known here. Declaring an error does not change the id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

_LISTS = {"epcList", "childEPCs"}
_PLACES = {"readPoint", "bizLocation"}
_VOCABULARY = {"bizStep": "https://ref.gs1.org/cbv/BizStep-", "disposition": "https://ref.gs1.org/cbv/Disp-"}
_ORDER = (
    "eventTime",
    "eventTimeZoneOffset",
    "parentID",
    "epcList",
    "childEPCs",
    "action",
    "bizStep",
    "disposition",
    "readPoint",
    "bizLocation",
)


def event_id(event: Mapping[str, Any]) -> str:
    """Return the id of an event with times in UTC with milliseconds, and canonical Digital Links as GS1 ids."""
    digest = hashlib.sha256(text_to_hash(event).encode()).hexdigest()
    return f"ni:///sha-256;{digest}?ver=CBV2.0"


def text_to_hash(event: Mapping[str, Any]) -> str:
    return f"eventType={event['type']}" + "".join(_field(name, event[name]) for name in _ORDER if name in event)


def _field(name: str, value: Any) -> str:
    if name in _LISTS:
        return name + "".join(sorted(f"epc={epc}" for epc in value))
    if name in _PLACES:
        return f"{name}id={value['id']}"
    return f"{name}={_VOCABULARY.get(name, '')}{value}"
