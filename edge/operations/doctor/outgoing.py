"""Checks of what edge sends: notices to people, events to other programs, and commands to outputs."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from edge.events import destinations
from edge.events.family import Family
from edge.operations.doctor.findings import Finding, Subject, listing
from edge.rules.channels import channels
from edge.rules.outputs import outputs
from edge.sync.store import change_feed
from edge.sync.store import state as sync_state

MOST_NAMES = 5  # each takes up to 10 s without an answer


def _working(family: Family, fault: str, advice: str, works: str) -> Callable[[Subject], Finding]:
    """Return the check of a family of destinations. `works` has a place for their number."""

    def check(_: Subject) -> Finding:
        return listing(family.troubles(), fault, advice, works.format(len(family.all())))

    return check


channels_send = _working(
    channels.KIND,
    "people are not notified",
    "correct the channel under Channels, or the mail server; then: edge channel test NAME",
    "{} channels, all working",
)
events_delivered = _working(
    destinations.KIND,
    "events are not accepted",
    "fix the receiver; then: edge events test NAME, and edge events enable NAME",
    "{} event destinations, all working",
)
outputs_switch = _working(
    outputs.KIND,
    "outputs cannot be switched",
    "check the broker, and its ACL if edge does not write it; then: edge output test NAME",
    "{} outputs, all working",
)


def names_resolved(subject: Subject) -> Finding:
    """Check that the names to which edge sends can be resolved."""
    urls = [subject.config.mqtt_broker, *(row.url for row in destinations.KIND.all())]
    urls += [state.here.url] if (state := sync_state.site_state()) else []
    if change_feed.has_upstream():
        from edge.upstream import upstreams  # not loaded on a box without one

        urls += [row.url for row in upstreams.all_upstreams()]
    names = sorted({name for url in urls if (name := urlsplit(url).hostname)})
    unknown = [name for name in names[:MOST_NAMES] if not _is_known(name)]
    return listing(
        unknown,
        "cannot be resolved",
        f"getent hosts {''.join(unknown[:1])}; cat /etc/resolv.conf. Set the network's DNS server, or fix the name",
        "all names to which edge sends can be resolved",
    )


def _is_known(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True
