"""Simulation of the readers: first the recent past at high speed, like after an outage, then in real time.

It also catches up at high speed after the machine was asleep.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random

from edge import clock
from edge.clock import SECOND
from edge.demo.makes import MAKES
from edge.demo.movement import Sighting, sightings, windows
from edge.demo.plan import Plan, Reader
from edge.demo.publishing import Connections

PAST_PAUSE_SECONDS = 100.0  # between two reads of a resting tag; short enough for a single history row
PAST_WINDOW = 5 * SECOND
WINDOW = SECOND // 2
HEARTBEAT_EVERY = 30 * SECOND


@contextmanager
def simulated_readers(
    plan: Plan, connections: Connections, since: int, known_locations: Mapping[str, str], random: Random
) -> Iterator[None]:
    """Publish the sightings from `since` (µs) on, in a separate thread while the block runs."""
    stop = threading.Event()
    thread = threading.Thread(
        target=_simulate, args=(plan, connections, since, known_locations, random, stop), name="readers"
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def publish_heartbeats(plan: Plan, connections: Connections, at: int) -> None:
    for reader in plan.simulated:
        connections.publish(reader, MAKES[reader.format].heartbeat(reader, at))


def _simulate(
    plan: Plan,
    connections: Connections,
    since: int,
    known_locations: Mapping[str, str],
    random: Random,
    stop: threading.Event,
) -> None:
    published: Counter[str] = Counter()
    for window in windows(sightings(plan, since, known_locations, _pause, random), since, _width):
        lead = window.end - clock.now()
        if stop.wait(max(0, lead) / SECOND):
            return
        for reader, reads in _by_reader(window.sightings):
            for payload in MAKES[reader.format].messages(reader, reads, published[reader.name]):
                connections.publish(reader, payload)
            published[reader.name] += len(reads)
        if lead > 0 and window.end % HEARTBEAT_EVERY < WINDOW:
            publish_heartbeats(plan, connections, window.end)
        connections.settle()


def _pause(at: int, reader: Reader) -> float:
    """Return the seconds until a resting tag is reported again: longer in the past than the reader's own interval."""
    return max(reader.repeat_seconds, min(PAST_PAUSE_SECONDS, (clock.now() - at) / SECOND))


def _width(begin: int) -> int:
    return PAST_WINDOW if begin + PAST_WINDOW < clock.now() else WINDOW


def _by_reader(seen: Iterable[Sighting]) -> list[tuple[Reader, list[Sighting]]]:
    reads: dict[str, list[Sighting]] = {}
    for sighting in seen:
        reads.setdefault(sighting.receiver.reader.name, []).append(sighting)
    return [(sightings[0].receiver.reader, sightings) for sightings in reads.values()]
