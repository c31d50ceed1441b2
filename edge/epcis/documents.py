"""EPCIS events, and the documents around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from edge import clock
from edge.epcis.event_ids import event_id
from edge.epcis.names import Names
from edge.epcis.sources import Found

Event = dict[str, Any]
ERROR_REASON = "did_not_occur"

CONTEXT = "https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld"
VERSIONS = {"GS1-EPCIS-Version": "2.0.0", "GS1-CBV-Version": "2.0.0"}


def query_document(events: Sequence[Event], created_at: int, subscription: str | None = None) -> dict[str, Any]:
    """Return the answer to a query, or the message of a subscription. `created_at` is in µs."""
    results: dict[str, Any] = {"queryName": "SimpleEventQuery", "resultsBody": {"eventList": list(events)}}
    if subscription is not None:
        results["subscriptionID"] = subscription
    return {
        "@context": [CONTEXT],
        "type": "EPCISQueryDocument",
        "schemaVersion": "2.0",
        "creationDate": clock.rfc3339(created_at),
        "epcisBody": {"queryResults": results},
    }


def events(found: Sequence[Found], names: Names, zone: ZoneInfo) -> list[Event]:
    """Return events with the names that the client prefers; the ids are of Digital Links in any case."""
    assets = {asset for one in found for asset in (one.asset_id, one.carrier_id) if asset is not None}
    names.load(assets, {at for one in found for at in (one.location_id, one.read_at) if at is not None})
    return [_shown(_named(one, names, zone), names) for one in found]


def _named(one: Found, names: Names, zone: ZoneInfo) -> Event:
    event: Event = {
        "type": one.type,
        "eventTime": clock.rfc3339(one.at),
        "eventTimeZoneOffset": _offset(one.at, zone),
        "recordTime": clock.rfc3339(one.recorded_at),
    }
    if one.carrier_id is None:
        event["epcList"] = [names.asset(one.asset_id)]
    else:
        event |= {"parentID": names.asset(one.carrier_id), "childEPCs": [names.asset(one.asset_id)]}
    event["action"] = one.action
    if one.step:
        event["bizStep"] = one.step
    if one.disposition:
        event["disposition"] = one.disposition
    if one.door_id is not None:
        event["readPoint"] = {"id": names.door(one.door_id)}
    elif one.read_at is not None:
        event["readPoint"] = {"id": names.location(one.read_at)}
    if one.location_id is not None:
        event["bizLocation"] = {"id": names.location(one.location_id)}
    event["eventID"] = event_id(event)
    if one.error_at is not None:
        event["errorDeclaration"] = {"declarationTime": clock.rfc3339(one.error_at), "reason": ERROR_REASON}
    return event


def _shown(event: Event, names: Names) -> Event:
    if names.as_urn:
        for field in ("epcList", "childEPCs"):
            if field in event:
                event[field] = [names.shown(name) for name in event[field]]
        if "parentID" in event:
            event["parentID"] = names.shown(event["parentID"])
    return event


def _offset(at: int, zone: ZoneInfo) -> str:
    offset = clock.to_datetime(at).astimezone(zone).utcoffset()
    minutes = round(offset.total_seconds() / 60) if offset else 0
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
