"""Check of event destinations."""

from __future__ import annotations

from edge.events import destinations
from edge.operations.doctor.findings import Finding, Subject, ok, some, warning


def events_delivered(_: Subject) -> Finding:
    troubles = destinations.troubles()
    if troubles:
        return warning(
            f"events are not accepted: {some(troubles)}",
            "fix the receiver; then: edge events test NAME, and edge events enable NAME",
        )
    return ok(f"{len(destinations.all_destinations())} event destinations, all working")
