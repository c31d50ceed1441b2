"""Documents around EPCIS events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edge import clock
from edge.epcis.query import Event

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
