"""Bodies of EPCIS webhooks: the EPCIS events that belong to an event of the log.

They are those of `GET /epcis/events`, with the same ids. A stay that later reads have replaced is left out, as it is
there. Each attempt of an event has the same body unless the history has changed in between.
"""

from __future__ import annotations

from zoneinfo import ZoneInfo

from edge import clock
from edge.epcis import query
from edge.epcis.documents import query_document
from edge.epcis.names import Names
from edge.events.destinations import Destination
from edge.events.log import Event, EventKind
from edge.validation import json_text


def body(destination: Destination, event: Event | None, base: str, zone: ZoneInfo) -> bytes | None:
    """Return the document for an event, or None if there is nothing to send. `base` is the address of this box.

    Without an event, the document is a test. Raises Conflict at a hub with its history in PostgreSQL.
    """
    if event is None:
        return json_text.encode(query_document([], clock.now(), destination.name))
    names = Names(destination.organization_id, base)
    if event.kind is EventKind.ASSET_PASSED:
        made = query.of_passage(destination.organization_id, event.data["passage"]["id"], names, zone)
    else:
        made = query.of_move(destination.organization_id, event.subject_id, event.at, names, zone)
    return json_text.encode(query_document(made, event.at, destination.name)) if made else None
