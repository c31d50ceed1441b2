"""Checks of the service that gets copies of this box's records, and of its broker.

Modules of `edge.upstream` are imported in functions, since a box without an upstream should not load them.
"""

from __future__ import annotations

from edge.operations.doctor.findings import Finding, Subject, ok, some, warning
from edge.sync.store import change_feed


def upstream_equal(_: Subject) -> Finding:
    """Check that each service takes records, and that none differs there."""
    if not change_feed.has_upstream():
        return ok("no other service gets the records of this box")
    from edge.upstream import counterparts, upstreams

    rows = upstreams.all_upstreams()
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


def bridge_connected(subject: Subject) -> Finding:
    """Check that mosquitto is connected to the broker of each service, and bridges all readers."""
    from edge.upstream import bridges

    rows = bridges.all_bridges()
    if not rows:
        return ok("no other broker gets the messages of readers")
    values = subject.ask_broker()
    for row in rows:
        state = values.get(row.state_topic)
        if state is None:
            return warning(
                f"the broker does not know the bridge to {row.url}",
                "install its configuration with the two commands that edge upstream bridge printed",
            )
        if state != "1":
            return warning(
                f"the bridge to {row.url} is not connected; messages wait at this broker",
                "see /var/log/mosquitto/mosquitto.log for the cause, then run edge upstream bridge again",
            )
        if missing := bridges.missing_topics(row):
            return warning(
                f"not bridged to {row.url}: {some(missing)}", "edge upstream bridge again, with the same options"
            )
    return ok(f"connected to {some([row.url for row in rows])}")
