"""Who is told of events."""

from __future__ import annotations

from edge.ops.findings import Finding, Subject, ok, some, warning
from edge.store import event_destinations


def events_delivered(_: Subject) -> Finding:
    troubles = event_destinations.troubles()
    if troubles:
        return warning(
            f"events are not taken: {some(troubles)}", "mend the receiver; then: edge events test NAME, and enable NAME"
        )
    return ok(f"{len(event_destinations.all_destinations())} destinations of events, none of them in trouble")
