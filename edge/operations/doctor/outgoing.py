"""Checks of what edge sends: notices to people, events to other programs, and commands to outputs."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from edge.events import destinations
from edge.operations.doctor.findings import Finding, Subject, ok, some, warning
from edge.rules.channels import channels
from edge.rules.outputs import outputs
from edge.sync.store import change_feed
from edge.sync.store import state as sync_state

MOST_NAMES = 5  # each takes up to 10 s without an answer


def channels_send(_: Subject) -> Finding:
    return _finding(
        channels.troubles(),
        ("people are not notified", "all channels work ({})", "there are no channels"),
        "correct the channel under Channels, or the mail server; then: edge channel test NAME",
        channels.all_channels(),
    )


def events_delivered(_: Subject) -> Finding:
    return _finding(
        destinations.troubles(),
        ("events are not accepted", "{} event destinations, all working", "0 event destinations, all working"),
        "fix the receiver; then: edge events test NAME, and edge events enable NAME",
        destinations.all_destinations(),
    )


def outputs_switch(_: Subject) -> Finding:
    return _finding(
        outputs.troubles(),
        ("outputs cannot be switched", "all outputs can be switched ({})", "there are no outputs"),
        "check the broker, and its ACL if edge does not write it; then: edge output test NAME",
        outputs.all_outputs(),
    )


def names_resolved(subject: Subject) -> Finding:
    """Check that the names to which edge sends can be resolved."""
    urls = [subject.broker_url, *(row.url for row in destinations.all_destinations())]
    urls += [state.here.url] if (state := sync_state.site_state()) else []
    if change_feed.has_upstream():
        from edge.upstream import upstreams  # not loaded on a box without one

        urls += [row.url for row in upstreams.all_upstreams()]
    names = sorted({name for url in urls if (name := urlsplit(url).hostname)})
    unknown = [name for name in names[:MOST_NAMES] if not _is_known(name)]
    if unknown:
        return warning(
            f"cannot be resolved: {some(unknown)}",
            f"getent hosts {unknown[0]}; cat /etc/resolv.conf. Set the DNS server of the network, or fix the name",
        )
    return ok("all names to which edge sends can be resolved")


def _is_known(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def _finding(troubles: list[str], texts: tuple[str, str, str], advice: str, rows: Sequence[object]) -> Finding:
    """Return the finding for the names in `troubles`. `texts`: of the fault, of working rows, and of none."""
    fault, working, none = texts
    if troubles:
        return warning(f"{fault}: {some(troubles)}", advice)
    return ok(working.format(len(rows)) if rows else none)
