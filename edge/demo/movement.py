"""Simulated movement of assets: an endless stream of sightings in order of time. Uses no clock and no network."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from random import Random
from typing import NamedTuple

from edge.clock import SECOND
from edge.demo.plan import Item, Plan, Reader, Stop

BETWEEN_STOPS = (5.0, 20.0)  # seconds in transit, out of range of all antennas
FIRST_READ_AFTER = (0.2, 1.5)
JITTER = (0.9, 1.1)
STRENGTH, SPREAD = -58.0, 6.0  # dBm
WEAKEST, STRONGEST = -74.0, -41.0


class Stay(NamedTuple):
    location: str
    begin: int
    end: int


class Receiver(NamedTuple):
    """Receiver at a location: an RFID antenna, or (None) the BLE radio of the reader."""

    reader: Reader
    antenna: int | None

    def can_read(self, item: Item) -> bool:
        return bool(item.mac if self.antenna is None else item.epc)


class Sighting(NamedTuple):
    at: int
    item: Item
    receiver: Receiver
    rssi: float


class Window(NamedTuple):
    """Sightings before `end`, possibly none."""

    end: int
    sightings: Sequence[Sighting]


def sightings(
    plan: Plan,
    since: int,
    known_locations: Mapping[str, str],
    pause: Callable[[int, Reader], float],
    random: Random,
) -> Iterator[Sighting]:
    """Yield all sightings from `since` (µs) on. `known_locations` has the location keys of assets at that time.

    `pause(at, reader)` returns the seconds until the reader reports a resting tag again.
    """
    receivers = _receivers(plan)
    days = [
        _sightings_of(item, since, known_locations.get(item.key or ""), receivers, pause, random) for item in plan.items
    ]
    return heapq.merge(*days, key=lambda sighting: sighting.at)


def windows(stream: Iterator[Sighting], since: int, width: Callable[[int], int]) -> Iterator[Window]:
    """Split the stream into consecutive windows. `width` returns the length (µs) of a window from its start."""
    end, seen = since + width(since), list[Sighting]()
    for sighting in stream:
        while sighting.at >= end:
            yield Window(end, seen)
            end, seen = end + width(end), []
        seen.append(sighting)


def walk(route: Sequence[Stop], since: int, location: str | None, random: Random) -> Iterator[Stay]:
    """Yield stays along a circular route, from `location` on if the route has it, else from a random progress."""
    known = [number for number, stop in enumerate(route) if location in stop.at]
    if known:
        first, at = known[0], since
    else:
        first, at = 0, since - round(random.uniform(0, sum(stop.seconds[1] for stop in route)) * SECOND)
        location = None
    for stop in islice(cycle(route), first, None):
        end = at + _seconds(stop.seconds, random)
        if stop.at and end > since:
            yield Stay(location or random.choice(stop.at), max(at, since), end)
        location = None
        at = end + _seconds(BETWEEN_STOPS, random)


def _sightings_of(
    item: Item,
    since: int,
    location: str | None,
    receivers: Mapping[str, Receiver],
    pause: Callable[[int, Reader], float],
    random: Random,
) -> Iterator[Sighting]:
    for stay in walk(item.route, since, location, random):
        receiver = receivers.get(stay.location)
        if receiver is None or not receiver.can_read(item):
            continue
        at = stay.begin + _seconds(FIRST_READ_AFTER, random)
        while at < stay.end:
            rssi = min(max(random.gauss(STRENGTH, SPREAD), WEAKEST), STRONGEST)
            yield Sighting(at, item, receiver, rssi)
            at += round(pause(at, receiver.reader) * random.uniform(*JITTER) * SECOND)


def _receivers(plan: Plan) -> dict[str, Receiver]:
    receivers: dict[str, Receiver] = {}
    for reader in plan.simulated:
        receivers |= {location: Receiver(reader, port) for port, location in reader.antennas.items()}
        if reader.location:
            receivers[reader.location] = Receiver(reader, None)
    return receivers


def _seconds(span: tuple[float, float], random: Random) -> int:
    return round(random.uniform(*span) * SECOND)
