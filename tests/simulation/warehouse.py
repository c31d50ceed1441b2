"""Simulated pallets in a warehouse: true positions and reads, in order of time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from tests.simulation.radio import BLE, RFID, Antenna, Paths, Point, Radio

STEP = 0.25  # seconds; all times here are in seconds
WALK = 1.2  # m/s
FORKLIFT = 2.5


class Reading(NamedTuple):
    """Read pattern: each antenna (or gateway) tries every `every` seconds with a success rate of `chance`.

    `quiet`: seconds after a read in which the reader does not report the tag again on any antenna. With `of_port`, this
    applies to each antenna separately.
    """

    every: float
    chance: float
    quiet: float = 0.0
    of_port: bool = False


class Scenario(NamedTuple):
    """A simulated site. `zones`: centers of the locations, each with the antenna of the same number.

    `portals`: doors that assets pass; an asset stays there until it reaches its next zone.
    """

    name: str
    radio: Radio
    tag_type: str
    zones: Sequence[Point]
    antennas: Mapping[int, Antenna]
    reader_of: Mapping[int, int]
    reading: Reading
    assets: int
    hours: float
    stay: tuple[float, float]
    speed: float = FORKLIFT
    scatter: float = 1.2
    passing: float = 5.0  # zones crossed in less time may be missed
    portals: frozenset[int] = frozenset()


class SimulatedRead(NamedTuple):
    at: float
    antenna: int
    location: int
    strength: float


class Trace(NamedTuple):
    """Trace of one asset: true (start, zone), and its reads."""

    truth: Sequence[tuple[float, int]]
    reads: Sequence[SimulatedRead]


OVERLAPPING = RFID._replace(sensitivity=-90)  # neighboring antennas also read a tag


def scenarios() -> list[Scenario]:
    def above(zones: Sequence[Point]) -> dict[int, Antenna]:
        return {number: Antenna(zone, number) for number, zone in enumerate(zones)}

    def doors(zones: Sequence[Point]) -> dict[int, Antenna]:
        return {number: Antenna((x, y - 3.0), number, 90.0) for number, (x, y) in enumerate(zones)}

    row = [(6.0 * number, 0.0) for number in range(4)]
    pair = [(0.0, 0.0), (8.0, 0.0)]
    near = [(0.0, 0.0), (3.0, 0.0)]
    grid = [(12.0 * column, 10.0 * line) for line in range(2) for column in range(3)]
    beside = {number: Antenna((x, -3.0), number) for number, (x, _) in enumerate(pair)}
    one_reader, own_reader = dict.fromkeys(range(4), 0), {number: number for number in range(6)}
    never = (1e9, 1e9)
    crossed = [(4.0 * number, 0.0) for number in range(6)]
    door = {0: Antenna((0.0, 0.0), 0), 1: Antenna((12.0, 0.0), 1, 90.0), 2: Antenna((24.0, 0.0), 2)}
    return [
        Scenario("two antennas, nothing moves, 2 Hz", RFID, "rfid", row[:2], doors(row[:2]), one_reader,
                 Reading(0.5, 0.9), 20, 1.0, never),
        Scenario("two antennas that both hear all, 18 dB apart", RFID._replace(sensitivity=-110), "rfid", pair,
                 beside, one_reader, Reading(0.5, 1.0), 10, 1.0, never),
        Scenario("docks and staging, forklifts, 2 Hz", RFID, "rfid", row, doors(row), one_reader,
                 Reading(0.5, 0.8), 30, 1.0, (120, 600)),
        Scenario("the same, 10 Hz", RFID, "rfid", row, doors(row), one_reader,
                 Reading(0.1, 0.6), 8, 0.5, (120, 600)),
        Scenario("the same, a reader that repeats a tag after 5 s", RFID, "rfid", row, doors(row), one_reader,
                 Reading(0.5, 0.8, quiet=5), 30, 1.0, (300, 900)),
        Scenario("the same, a reader for each dock", RFID, "rfid", row, doors(row), own_reader,
                 Reading(0.5, 0.8, quiet=5), 30, 1.0, (300, 900)),
        Scenario("two doors 3 m apart whose reader repeats a tag after 5 s, whichever heard it, nothing moves",
                 OVERLAPPING, "rfid", near, doors(near), one_reader, Reading(0.5, 0.3, quiet=5), 20, 1.0, never),
        Scenario("docks that overlap, one reader that repeats a tag after 5 s, forklifts", OVERLAPPING, "rfid", row,
                 doors(row), one_reader, Reading(0.5, 0.3, quiet=5), 30, 1.0, (300, 900)),
        Scenario("the same, each port repeats a tag after 5 s", OVERLAPPING, "rfid", row, doors(row), one_reader,
                 Reading(0.5, 0.8, quiet=5, of_port=True), 30, 1.0, (300, 900)),
        Scenario("zones 4 m apart, crossed in 1.6 s, one reader, 10 Hz", RFID, "rfid", crossed, doors(crossed),
                 dict.fromkeys(range(6), 0), Reading(0.1, 0.6), 10, 1.0, (60, 300), passing=0.5),
        Scenario("a portal between two halls, a reader for each, 5 Hz", RFID, "rfid", [(0.0, 0.0), (12.0, 3.0),
                 (24.0, 0.0)], door, own_reader, Reading(0.2, 0.7), 20, 1.0, (60, 300), passing=0.5,
                 portals=frozenset({1})),
        Scenario("a portal beside a full staging area, nothing moves", OVERLAPPING, "rfid", [(0.0, 0.0), (6.0, 0.0)],
                 {0: Antenna((0.0, 0.0), 0), 1: Antenna((6.0, -3.0), 1, 90.0)}, own_reader, Reading(0.5, 0.7), 20,
                 1.0, never, portals=frozenset({1})),
        Scenario("BLE beacons, 1 s, six gateways", BLE, "ble", grid, above(grid), own_reader,
                 Reading(1.0, 0.7), 20, 1.0, (180, 900), WALK, 2.0, 15.0),
        Scenario("BLE beacons, 3 s", BLE, "ble", grid, above(grid), own_reader,
                 Reading(3.0, 0.7), 20, 1.0, (180, 900), WALK, 2.0, 15.0),
    ]  # fmt: skip


def traces(scenario: Scenario, seed: int = 1) -> Iterator[Trace]:
    for number in range(scenario.assets):
        yield _trace(scenario, Random(seed * 1000 + number))


def _trace(scenario: Scenario, random: Random) -> Trace:
    paths = Paths(scenario.radio, scenario.antennas, random)
    truth: list[tuple[float, int]] = []
    reads: list[SimulatedRead] = []
    reported_at: dict[int, float] = {}
    due = {number: random.uniform(0, scenario.reading.every) for number in scenario.antennas}
    beacon = random.uniform(0, scenario.reading.every)
    moment = 0.0
    for moment, at, is_new_spot in _way(scenario, random):
        if is_new_spot:
            paths.settle()
        paths.go_on(moment, STEP)
        zone = min(range(len(scenario.zones)), key=lambda number: math.dist(scenario.zones[number], at))
        if not truth or truth[-1][1] != zone:
            truth.append((moment, zone))
        if scenario.tag_type == "ble":  # several gateways receive the same advertisement
            while beacon <= moment:
                due = dict.fromkeys(due, beacon)
                beacon += scenario.reading.every + random.uniform(0, 0.01)
                reads += _reads(scenario, paths, at, moment, due, reported_at, random)
        else:
            reads += _reads(scenario, paths, at, moment, due, reported_at, random)
    return Trace(truth, sorted(reads))


def _reads(
    scenario: Scenario,
    paths: Paths,
    at: Point,
    moment: float,
    due: dict[int, float],
    reported_at: dict[int, float],
    random: Random,
) -> Iterator[SimulatedRead]:
    for number, antenna in scenario.antennas.items():
        while due[number] <= moment:
            when = due[number]
            due[number] += scenario.reading.every
            reporter = number if scenario.reading.of_port else scenario.reader_of[number]
            if scenario.reading.quiet and when < reported_at.get(reporter, -math.inf) + scenario.reading.quiet:
                continue
            if random.random() > scenario.reading.chance:
                continue
            strength = paths.strength(number, at, when)
            if strength is not None:
                reported_at[reporter] = when
                yield SimulatedRead(when, number, antenna.location, strength)


def _way(scenario: Scenario, random: Random) -> Iterator[tuple[float, Point, bool]]:
    """Yield (time, spot, True if the tag has just stopped at a new spot)."""
    zone = random.choice([one for one in range(len(scenario.zones)) if one not in scenario.portals])
    at, moment, end = _spot(scenario, zone, random), 0.0, scenario.hours * 3600
    until = random.uniform(0, scenario.stay[1])
    yield moment, at, True
    while moment < end:
        while moment < min(until, end):
            moment += STEP
            yield moment, at, False
        others = [one for one in range(len(scenario.zones)) if one != zone and one not in scenario.portals]
        zone = random.choice(others or [zone])
        goal = _spot(scenario, zone, random)
        while at != goal and moment < end:
            moment += STEP
            at = _towards(at, goal, scenario.speed * STEP)
            yield moment, at, round(moment / STEP) % 2 == 0
        until = moment + random.uniform(*scenario.stay)
        yield moment, at, True


def _spot(scenario: Scenario, zone: int, random: Random) -> Point:
    x, y = scenario.zones[zone]
    return (x + random.uniform(-scenario.scatter, scenario.scatter), y + random.uniform(-1, 1) * scenario.scatter)


def _towards(at: Point, goal: Point, far: float) -> Point:
    left = math.dist(at, goal)
    if left <= far:
        return goal
    return (at[0] + (goal[0] - at[0]) * far / left, at[1] + (goal[1] - at[1]) * far / left)
