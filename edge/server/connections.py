"""Limits for connections, which keep slow or greedy clients from locking out others.

Decision record: web/manual/decisions/connections.md
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

MOST_OF_ADDRESS = 200
# A browser opens six connections per page. select() supports about 1,000 files, and a request body may be one more.
MOST = 400
# Connections without a place. They are answered 503, and closed without an answer beyond that.
MOST_REFUSED = 60
MOST_REFUSED_OF_ADDRESS = 40
FRESH_SECONDS = 0.5  # an idle connection is kept for that long, because its request may be on its way
HEAD_SECONDS = 10.0
BODY_SECONDS = 20.0  # grace period before the minimum rate applies
BODY_BYTES_PER_SECOND = 4096
MOST_UNREAD = 256 * 1024  # bytes of a stream or generated file that are buffered for a client
ANSWER_SECONDS = 20.0  # period in which the minimum rate is measured
ANSWER_BYTES_PER_SECOND = 4096
LONGEST_ANSWER = 600.0  # seconds; limit for a file, which occupies a thread
IDLE_SECONDS = 240.0  # sites contact their hub every three minutes, and a new TLS connection costs 4 KB
MOST_PIECES = 1_000  # of a request's head; waitress scans all received pieces for each new one
MOST_HEADERS = 200  # lines; each one takes fifty times its size in memory
MOST_FRAMING = 16 * 1024  # bytes of chunk headers and trailer
# The rest of a refused request is read and dropped: closing earlier would reset the connection and lose the answer.
DRAIN_SECONDS = 30.0
MOST_DRAINED = 128 * 1024 * 1024  # bytes


def is_late(channel: Any, now: float) -> bool:
    """True if the client has exceeded a deadline. `channel.waiting_since` is the start of the current wait."""
    if channel.drained_since is not None:
        return bool(now - channel.drained_since > DRAIN_SECONDS)
    if channel.listener is None and channel.total_outbufs_len:
        return _reads_slowly(channel, now)
    channel.sending_since = None
    if channel.requests:
        return False  # the client waits for the response
    waited, request = now - channel.waiting_since, channel.request
    if request is None:  # idle
        if channel.is_refused:
            return bool(waited > HEAD_SECONDS)
        return bool(waited > IDLE_SECONDS and time.time() - channel.last_activity > IDLE_SECONDS)
    if not request.headers_finished:
        return bool(waited > HEAD_SECONDS)
    return bool(request.body_bytes_received < (waited - BODY_SECONDS) * BODY_BYTES_PER_SECOND)


def _reads_slowly(channel: Any, now: float) -> bool:
    """True if the client reads too slowly, or occupies a thread for too long. Called every second."""
    if channel.sending_since is None:
        channel.sending_since, channel.sent = now, 0
    elif now - channel.sending_since > ANSWER_SECONDS:
        if channel.sent < ANSWER_SECONDS * ANSWER_BYTES_PER_SECOND:
            return True
        channel.sending_since, channel.sent = now, 0
    return bool(channel.requests and now - channel.answering_since > LONGEST_ANSWER)


def connection_to_close(channels: Iterable[Any], newcomer: Any, trusted: str) -> Any:
    """Return the connection to close in favor of a new one, or None if there is room.

    That is the longest-idle one, or the newcomer if all others are active. If all places are taken, a connection of
    an address with more of them than the newcomer's is closed, too, while its request is arriving. `trusted` is the
    network of the proxy, which is not limited. A streamed response has no request, but is not idle. Streams have limits
    of their own, see `edge.events.stream`, and do not count toward the limit of an address.
    """
    others = [channel for channel in channels if channel is not newcomer and not channel.will_close]
    if newcomer.network != trusted:
        neighbors = [one for one in others if one.network == newcomer.network and one.listener is None]
        if len(neighbors) >= MOST_OF_ADDRESS:
            return _longest_idle(neighbors, newcomer) or newcomer
    if len(others) < MOST:
        return None
    return _longest_idle(others, newcomer) or _slowest_of_greediest(others, newcomer) or newcomer


def is_answered(channels: Iterable[Any], newcomer: Any) -> bool:
    """Return True if a connection without a place may wait for the 503 that answers its request."""
    refused = [channel.network for channel in channels if channel is not newcomer and channel.is_refused]
    return len(refused) < MOST_REFUSED and refused.count(newcomer.network) < MOST_REFUSED_OF_ADDRESS


def _longest_idle(channels: list[Any], newcomer: Any) -> Any:
    """Return the connection without a request for the longest time. The first request of a new one may be coming."""
    idle = [one for one in channels if not (one.requests or one.request or one.listener)]
    oldest = min(idle, key=lambda one: one.waiting_since, default=None)
    return oldest if oldest and newcomer.waiting_since - oldest.waiting_since > FRESH_SECONDS else None


def _slowest_of_greediest(channels: list[Any], newcomer: Any) -> Any:
    """Return the connection whose request has arrived for the longest time, of the address with the most connections.

    An incomplete head goes first, and only in favor of an address with fewer connections; a body in favor of one with
    fewer after its newcomer. So three addresses with slow requests never displace a fourth.
    """
    of_network = Counter(one.network for one in channels)
    own = of_network[newcomer.network]
    coming = [one for one in channels if one.request and not one.requests and one.listener is None]
    greedier = [one for one in coming if of_network[one.network] > own + one.request.headers_finished]
    return min(
        greedier,
        key=lambda one: (-of_network[one.network], one.request.headers_finished, one.waiting_since),
        default=None,
    )
