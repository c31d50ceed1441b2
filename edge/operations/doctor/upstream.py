"""Check of the service that gets copies of this box's records."""

from __future__ import annotations

from edge.operations.doctor.findings import Finding, Subject, ok, some, warning
from edge.upstream import counterparts, upstreams


def upstream_equal(_: Subject) -> Finding:
    """Check that each service takes records, and that none differs there."""
    rows = upstreams.all_upstreams()
    if not rows:
        return ok("no other service gets the records of this box")
    if troubles := upstreams.troubles():
        return warning(some(troubles), "edge upstream show; check the service and its credentials; changes wait")
    if paused := [row.url for row in rows if row.paused_at is not None]:
        return warning(f"paused: {some(paused)}", "edge upstream resume")
    differing = [(row, sum(counterparts.count(row.no)[1].values())) for row in rows]
    texts = [
        f"{number} {'record differs' if number == 1 else 'records differ'} at {row.url}"
        for row, number in differing
        if number
    ]
    if texts:
        return warning(some(texts), "edge upstream show lists them with reasons")
    return ok(f"records are equal at {some([row.url for row in rows])}")


def _counted(number: int) -> str:
    return "1 record differs" if number == 1 else f"{number} records differ"
