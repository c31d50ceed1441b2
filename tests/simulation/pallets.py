"""Simulated doors of `tests.simulation.doors` with pallets of many tags, and with antennas that take turns slowly.

The tags of a pallet share the reader: each is read seldom, and from its own place and side. With `dwell`, the reader
uses one antenna of the door for so many seconds before it takes the other one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.simulation import doors
from tests.simulation.doors import Crossing, DoorAntenna, DoorRead, DoorScenario, DoorTrace, Spot

PALLET = 0.5  # meters from the middle of a pallet to its outermost tags
STANDS = 60.0  # seconds that a staged pallet stands while others pass


class PalletScenario(NamedTuple):
    """`way` as in DoorScenario; "beside": staged while another pallet passes; "convoy": one pallet after the other.

    `rate`: read attempts a second of the whole reader, shared by all tags. `dwell`: seconds for each of `ports`
    antennas in turn, of which two are at this door.
    """

    name: str
    way: str
    tags: int
    rate: float
    speed: tuple[float, float]
    runs: int
    dwell: float = 0.0
    ports: int = 2
    has_rssi: bool = True
    is_shadowed: bool = False


class _Tag(NamedTuple):
    """A tag: its place on the pallet, its strength, the side that it faces, and the goods behind it."""

    place: Spot
    strength: float
    face: float


def scenarios() -> list[PalletScenario]:
    slow, usual = (1.0, 1.0), (1.0, 3.0)
    return [
        PalletScenario("300 tags at 1 m/s", "pass", 300, 250, slow, 4),
        PalletScenario("60 tags at 2 m/s", "pass", 60, 200, (2.0, 2.0), 8),
        PalletScenario("20 tags at 3 m/s", "pass", 20, 150, (3.0, 3.0), 20),
        PalletScenario("one tag at 4 m/s", "pass", 1, 20, (4.0, 4.0), 80),
        PalletScenario("60 tags, no RSSI", "pass", 60, 200, (2.0, 2.0), 8, has_rssi=False),
        PalletScenario("60 tags turn back", "turn back", 60, 200, usual, 8),
        PalletScenario("60 tags drive along the wall", "along", 60, 200, usual, 8),
        PalletScenario("60 tags pass the next door", "neighbor", 60, 200, usual, 8),
        PalletScenario("60 tags staged while others pass", "beside", 60, 300, usual, 12),
        PalletScenario("300 tags staged while others pass", "beside", 300, 300, usual, 4),
        PalletScenario("60 tags, and 60 others 5 to 12 s later", "convoy", 60, 200, usual, 12),
        *(PalletScenario(f"{ports} antennas for {dwell} s each", "pass", 1, 40, usual, 120, dwell=dwell, ports=ports)
          for ports, dwell in ((2, 0.5), (2, 1.0), (4, 0.25), (4, 0.5), (4, 1.0))),
        PalletScenario("4 antennas for 1.0 s each, shadowed tag", "pass", 1, 40, usual, 120, 1.0, 4, is_shadowed=True),
    ]  # fmt: skip


def pallets(scenario: PalletScenario, seed: int, runs: int | None = None) -> Iterator[list[DoorTrace]]:
    """Yield for each run the traces of all tags at the door."""
    for number in range(scenario.runs if runs is None else runs):
        random = Random(f"{scenario.name}/{seed}/{number}")
        if scenario.way == "beside":
            passing = _pallet(scenario._replace(way="pass"), random, begin=random.uniform(15, 35))
            staged = _pallet(scenario._replace(way="staged"), random)
            yield passing + staged
        elif scenario.way == "convoy":
            first = _pallet(scenario._replace(way="pass"), random)
            yield first + _pallet(scenario._replace(way="pass"), random, begin=random.uniform(5, 12))
        else:
            yield _pallet(scenario, random)


def _pallet(scenario: PalletScenario, random: Random, begin: float = 0.0) -> list[DoorTrace]:
    legs, truth = _way(scenario, random)
    legs = [leg._replace(begin=leg.begin + begin, end=leg.end + begin) for leg in legs]
    truth = [crossing._replace(at=crossing.at + begin) for crossing in truth]
    traces = []
    for _ in range(scenario.tags):
        place = (random.uniform(-PALLET, PALLET), random.uniform(-PALLET, PALLET))
        tag = _Tag(place, random.gauss(0, doors.TAG_SPREAD), random.uniform(0, 2 * math.pi))
        traces.append(DoorTrace(truth, list(_reads(scenario, legs, tag, random)), legs[-1].end))
    return traces


def _way(scenario: PalletScenario, random: Random) -> tuple[list[doors._Leg], list[Crossing]]:
    if scenario.way == "staged":
        angle, side = math.radians(random.uniform(-50, 50)), random.choice((-1, 1))
        spot = (3 * math.sin(angle), side * 3 * math.cos(angle))
        return [doors._Leg(0.0, STANDS, spot, spot)], []
    way = DoorScenario(scenario.name, scenario.way, scenario.rate, 1)
    legs, truth = doors._way(way, random)
    speed, first = random.uniform(*scenario.speed), next(leg for leg in legs if leg.since != leg.until)
    slower = math.dist(first.since, first.until) / (first.end - first.begin) / speed
    legs = [leg._replace(begin=leg.begin * slower, end=leg.end * slower) for leg in legs]
    return legs, [crossing._replace(at=crossing.at * slower) for crossing in truth]


def _reads(scenario: PalletScenario, legs: Sequence[doors._Leg], tag: _Tag, random: Random) -> Iterator[DoorRead]:
    own: list[DoorAntenna] = doors.antennas(DoorScenario("", "pass", scenario.rate, 1))
    paths = [doors._Fading(random) for _ in own]
    before: list[tuple[float, Spot]] = [(legs[0].begin, legs[0].since) for _ in own]
    rate = scenario.rate / scenario.tags
    goods = doors.SHADOWED_GOODS if scenario.is_shadowed else doors.GOODS
    started = random.uniform(0, 100)
    now, turn, current = legs[0].begin + random.uniform(0, 1 / rate), random.randrange(len(own)), 0
    while now < legs[-1].end:
        while legs[current].end < now:
            current += 1
        x, y = doors._spot(legs[current], now)
        spot = (x + tag.place[0], y + tag.place[1])
        if scenario.dwell:
            port = int((now + started) / scenario.dwell) % scenario.ports
            turn = port // (scenario.ports // 2)
            if port not in (0, scenario.ports // 2):
                now += random.uniform(0.7, 1.3) / rate
                continue
        (then, there), before[turn] = before[turn], (now, spot)
        change = paths[turn].go_on(now, now - then, math.dist(there, spot))
        strength = doors._mean(own[turn], spot, tag.face, goods) + tag.strength + change
        if strength >= doors.SENSITIVITY and random.random() < doors.SUCCESS:
            yield DoorRead(now, 0, own[turn].side, round(strength) if scenario.has_rssi else None)
        turn = (turn + 1) % len(own)
        now += random.uniform(0.7, 1.3) / rate
