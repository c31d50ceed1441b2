"""Simulated doors: forklifts that carry a tagged pallet through a door, past it, or to a place near it.

The model is frozen, so that the figures of `tests.bench.doors` stay comparable. Assumptions, with their public origin:

* Link budget: 33 to 36 dBm EIRP (ETSI EN 302 208, FCC 15.247), tag sensitivity of about -17 dBm and free space as far
  as a door matters. This gives -34 dBm at 1 m, 40 dB a decade (both ways), and the end of range at 9 to 10 m, which is
  what makers of readers state for patch antennas. Tags on goods differ by 3 dB (standard deviation).
* Antennas: patches of 8 to 9 dBi with a beam of 70 degrees (3GPP pattern: 12 dB at the full width, each way). Side
  lobes and reflections limit the front-to-back difference to 15 dB each way.
* Fading: at a portal the direct path, the floor and the door frame interfere (three-ray models, for example IEEE
  Trans. MTT 57-7, 2009). Backscatter fades deeper than one-way links (Griffin and Durgin, 2009; Kuester, 2010: 8 dB
  within 2 m): 5 dB standard deviation, uncorrelated after half a wavelength (0.17 m). Around tags at rest people move:
  3 dB with a time constant of 2 s. Shadowing: 3 dB, uncorrelated after 2 m. A single read varies by 2.5 dB.
* Goods behind the tag take 6 dB, liquids or metal ("shadowed") 16 dB. A person in the path takes 15 dB for about 4 s.
* The wall takes 10 dB each way; the opening is 3 m wide. Doors are 3 m apart, center to center.
* Readers switch between the antennas of a door and report each tag 1 to 20 times a second, if they receive it; 20 % of
  the rounds fail by collisions.

Inside is y < 0, outside is y > 0. The wall is at y = 0. All lengths in meters, times in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

Spot = tuple[float, float]

POWER_AT_1M = -34.0
SLOPE = 40.0
SENSITIVITY = -74.0
BEAM = 70.0
MOST_LOBE = 30.0  # dB, both ways
WALL = 20.0  # dB, both ways
OPENING = 1.5  # from the center of the door
DOORS_APART = 3.0
TAG_SPREAD = 3.0
FADING, FADING_METERS = 5.0, 0.17
MOVING, MOVING_SECONDS = 3.0, 2.0
SHADOWING, SHADOWING_METERS = 3.0, 2.0
READ_SPREAD = 2.5
GOODS, SHADOWED_GOODS = 6.0, 16.0
BLOCKED, BLOCKED_EVERY, BLOCKED_FOR = 15.0, 120.0, 4.0
SUCCESS = 0.8
TAG_HEIGHT = 1.2
START = 8.0  # distance from the door at which a way begins and ends
INNER, OUTER = 0, 1


class DoorAntenna(NamedTuple):
    """An antenna at a door: its place and the direction that it faces (x, y, height)."""

    door: int
    side: int
    at: tuple[float, float, float]
    facing: tuple[float, float, float]


class DoorRead(NamedTuple):
    at: float
    door: int
    side: int
    strength: float | None


class Crossing(NamedTuple):
    """The true passage: `direction` is "in", "out" or "turned back"; `at` is its first crossing of the wall."""

    at: float
    door: int
    direction: str


class DoorTrace(NamedTuple):
    """What one pallet did, and its reads at all doors."""

    truth: Sequence[Crossing]
    reads: Sequence[DoorRead]
    seconds: float


class DoorScenario(NamedTuple):
    """`way`: "pass", "turn back", "neighbor", "along" or "staged". `rate`: read attempts a second at each door.

    `staged`: distance at which the pallet stays for some time before and after; None: it comes and goes.
    `is_zone`: the inner side is an antenna above the hall, 5 m behind the door. `doors`: doors with antennas.
    """

    name: str
    way: str
    rate: float
    runs: int
    is_shadowed: bool = False
    has_rssi: bool = True
    staged: tuple[float, float] | None = None
    is_zone: bool = False
    doors: int = 1
    hours: float = 0.0


def scenarios() -> list[DoorScenario]:
    rates = (1.0, 2.0, 5.0, 10.0, 20.0)
    return [
        *(DoorScenario(f"pass, {rate:.0f} a second", "pass", rate, 400) for rate in rates),
        *(DoorScenario(f"shadowed tag, {rate:.0f} a second", "pass", rate, 400, is_shadowed=True) for rate in rates),
        *(DoorScenario(f"no RSSI, {rate:.0f} a second", "pass", rate, 400, has_rssi=False) for rate in rates),
        *(DoorScenario(f"staged 1 to 5 m before and after, {rate:.0f} a second", "pass", rate, 200, staged=(1, 5))
          for rate in (5.0, 10.0, 20.0)),
        DoorScenario("staged, no RSSI, 10 a second", "pass", 10, 200, has_rssi=False, staged=(1, 5)),
        DoorScenario("hall antenna behind the door, 10 a second", "pass", 10, 400, is_zone=True),
        DoorScenario("two doors 3 m apart, 10 a second", "pass", 10, 400, doors=2),
        DoorScenario("two doors 3 m apart, no RSSI, 10 a second", "pass", 10, 400, has_rssi=False, doors=2),
        DoorScenario("passes through the next door, which has no antennas, 10 a second", "neighbor", 10, 400),
        DoorScenario("drives along the wall, 10 a second", "along", 10, 400),
        *(DoorScenario(f"turns back, {rate:.0f} a second", "turn back", rate, 300) for rate in (5.0, 10.0, 20.0)),
        *(DoorScenario(f"staged 3 m away for 10 hours, {rate:.0f} a second", "staged", rate, runs, hours=10)
          for rate, runs in ((1.0, 40), (5.0, 20), (20.0, 6))),
        DoorScenario("staged 3 m away for 10 hours, no RSSI, 5 a second", "staged", 5, 20, has_rssi=False, hours=10),
        DoorScenario("staged 3 m away for 10 hours, shadowed, 5 a second", "staged", 5, 20, is_shadowed=True, hours=10),
    ]  # fmt: skip


def traces(scenario: DoorScenario, seed: int, runs: int | None = None) -> Iterator[DoorTrace]:
    for number in range(scenario.runs if runs is None else runs):
        yield _trace(scenario, Random(f"{scenario.name}/{seed}/{number}"))


def antennas(scenario: DoorScenario) -> list[DoorAntenna]:
    """Return two antennas above each door, tilted by 45 degrees to either side."""
    down = math.sqrt(0.5)
    made = []
    for door in range(scenario.doors):
        x = DOORS_APART * door
        made.append(DoorAntenna(door, OUTER, (x, 0.3, 2.8), (0.0, down, -down)))
        if scenario.is_zone:
            made.append(DoorAntenna(door, INNER, (x, -5.0, 4.5), (0.0, 0.0, -1.0)))
        else:
            made.append(DoorAntenna(door, INNER, (x, -0.3, 2.8), (0.0, -down, -down)))
    return made


class _Leg(NamedTuple):
    """A straight move, or a rest if both spots are the same."""

    begin: float
    end: float
    since: Spot
    until: Spot


def _trace(scenario: DoorScenario, random: Random) -> DoorTrace:
    legs, truth = _way(scenario, random)
    reads = sorted(_reads(scenario, legs, random), key=lambda read: (read.at, read.door, read.side))
    return DoorTrace(truth, reads, legs[-1].end)


def _way(scenario: DoorScenario, random: Random) -> tuple[list[_Leg], list[Crossing]]:
    speed = random.uniform(1.0, 3.0)
    heading = random.choice((-1, 1))  # 1: from inside to outside
    x = random.uniform(-0.6, 0.6)
    if scenario.way == "staged":
        angle = math.radians(random.uniform(-50, 50))
        spot = (3 * math.sin(angle), heading * 3 * math.cos(angle))
        return [_Leg(0.0, scenario.hours * 3600, spot, spot)], []
    if scenario.way == "along":
        y = heading * random.uniform(1.5, 4.0)
        return _drive([(-START, y), (START, y)], [0, 0], speed), []
    if scenario.way == "neighbor":
        x += DOORS_APART * random.choice((-1, 1))
    door = random.randrange(scenario.doors)
    x += DOORS_APART * door
    begin = (x + random.uniform(-1.5, 1.5), -heading * START)
    end = (x + random.uniform(-1.5, 1.5), heading * START)
    rests = [0.0, 0.0]
    if scenario.staged:
        begin = (begin[0], -heading * random.uniform(*scenario.staged))
        end = (end[0], heading * random.uniform(*scenario.staged))
        rests = [random.uniform(20, 60), random.uniform(20, 60)]
    gate: list[Spot] = [(x, -heading * 0.6), (x, heading * 0.6)]
    if scenario.way == "turn back":
        deep = (x, heading * random.uniform(0.8, 2.5))
        spots = [begin, gate[0], deep, gate[0], begin]
        legs = _drive(spots, [0, 0, random.uniform(0, 2), 0, 0], speed)
        return legs, [Crossing(_crossed_at(legs), door, "turned back")]
    legs = _drive([begin, *gate, end], [rests[0], 0, 0, rests[1]], speed)
    if scenario.way == "neighbor":
        return legs, []
    return legs, [Crossing(_crossed_at(legs), door, "out" if heading > 0 else "in")]


def _drive(spots: Sequence[Spot], rests: Sequence[float], speed: float) -> list[_Leg]:
    legs, now = [], 0.0
    for number, spot in enumerate(spots):
        if number:
            seconds = math.dist(spots[number - 1], spot) / speed
            legs.append(_Leg(now, now + seconds, spots[number - 1], spot))
            now += seconds
        if rests[number]:
            legs.append(_Leg(now, now + rests[number], spot, spot))
            now += rests[number]
    return legs


def _crossed_at(legs: Sequence[_Leg]) -> float:
    for leg in legs:
        (_, y), (_, until) = leg.since, leg.until
        if y * until < 0:
            return leg.begin + (leg.end - leg.begin) * abs(y) / abs(until - y)
    raise AssertionError("the way crosses the wall")


class _Fading:
    """A Gaussian process of one path, by distance moved and time passed."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._fading = random.gauss(0, FADING)
        self._moving = random.gauss(0, MOVING)
        self._shadow = random.gauss(0, SHADOWING)
        self._blocked_until = 0.0

    def go_on(self, now: float, seconds: float, meters: float) -> float:
        """Return the change in dB at the time `now`, `seconds` and `meters` after the last call."""
        random = self._random
        if meters > 0:
            self._fading = _drift(self._fading, FADING, meters / FADING_METERS, random)
            self._shadow = _drift(self._shadow, SHADOWING, meters / SHADOWING_METERS, random)
        self._moving = _drift(self._moving, MOVING, seconds / MOVING_SECONDS, random)
        if random.random() < seconds / BLOCKED_EVERY:
            self._blocked_until = now + random.expovariate(1 / BLOCKED_FOR)
        blocked = BLOCKED if now < self._blocked_until else 0.0
        return self._fading + self._moving + self._shadow + random.gauss(0, READ_SPREAD) - blocked


def _drift(value: float, spread: float, steps: float, random: Random) -> float:
    keep = math.exp(-steps)
    return value * keep + random.gauss(0, spread * math.sqrt(1 - keep * keep))


def _reads(scenario: DoorScenario, legs: Sequence[_Leg], random: Random) -> Iterator[DoorRead]:
    tag = random.gauss(0, TAG_SPREAD)
    face = random.uniform(0, 2 * math.pi)  # direction of the side of the pallet with the tag
    goods = SHADOWED_GOODS if scenario.is_shadowed else GOODS
    everywhere = antennas(scenario)
    for door in range(scenario.doors):
        own = [one for one in everywhere if one.door == door]
        paths = [_Fading(random) for _ in own]
        before: list[tuple[float, Spot]] = [(0.0, legs[0].since) for _ in own]
        now, turn, current = random.uniform(0, 1 / scenario.rate), random.randrange(len(own)), 0
        last = legs[-1].end
        while now < last:
            while legs[current].end < now:
                current += 1
            spot = _spot(legs[current], now)
            antenna, path = own[turn], paths[turn]
            then, there = before[turn]
            change = path.go_on(now, now - then, math.dist(there, spot))
            before[turn] = (now, spot)
            strength = _mean(antenna, spot, face, goods) + tag + change
            if strength >= SENSITIVITY and random.random() < SUCCESS:
                yield DoorRead(now, door, antenna.side, round(strength) if scenario.has_rssi else None)
            turn = (turn + 1) % len(own)
            now += random.uniform(0.7, 1.3) / scenario.rate


def _spot(leg: _Leg, now: float) -> Spot:
    if leg.since == leg.until:
        return leg.since
    share = (now - leg.begin) / (leg.end - leg.begin)
    (x, y), (to_x, to_y) = leg.since, leg.until
    return (x + (to_x - x) * share, y + (to_y - y) * share)


def _mean(antenna: DoorAntenna, spot: Spot, face: float, goods: float) -> float:
    """Return the mean strength without fading."""
    x, y, height = antenna.at
    away = (spot[0] - x, spot[1] - y, TAG_HEIGHT - height)
    distance = math.hypot(*away)
    aim = sum(one * other for one, other in zip(away, antenna.facing, strict=True)) / distance
    off = math.degrees(math.acos(max(-1.0, min(1.0, aim))))
    strength = POWER_AT_1M - SLOPE * math.log10(max(0.5, distance))
    strength -= min(MOST_LOBE, 24.0 * (off / BEAM) ** 2)
    behind = (away[0] * math.cos(face) + away[1] * math.sin(face)) / max(0.1, math.hypot(away[0], away[1]))
    strength -= goods * max(0.0, behind)
    if y * spot[1] < 0:
        at_wall = x + (spot[0] - x) * abs(y) / abs(spot[1] - y)
        if abs((at_wall + DOORS_APART / 2) % DOORS_APART - DOORS_APART / 2) > OPENING * 0.8:
            strength -= WALL
    return strength
