"""Radio model: distance, antenna pattern, shadowing, fading, obstacles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

Point = tuple[float, float]


class Antenna(NamedTuple):
    """An antenna. `facing`: degrees, None if omnidirectional. `location`: number of its zone."""

    at: Point
    location: int
    facing: float | None = None


class Radio(NamedTuple):
    """Radio parameters of a type of tag and reader. Powers in dBm, spreads in dB, times in seconds.

    `slope`: loss per decade of distance, 40 for a passive tag (both ways), 20 to 30 for BLE indoors. `shadow`: depends
    on the spot and is constant there. `slow`: fading by moving objects, within `slow_seconds`. `fast`: random for each
    read (reflections, BLE channels). `blocked`: loss by a person in between, every `blocked_every` seconds on average,
    for `blocked_for` seconds.
    """

    power_at_1m: float
    slope: float
    sensitivity: float
    shadow: float
    slow: float
    slow_seconds: float
    fast: float
    blocked: float
    blocked_every: float
    blocked_for: float


RFID = Radio(-30, 40, -76, 3, 3, 2.0, 2.5, 15, 120, 4)
BLE = Radio(-59, 24, -97, 4, 3, 4.0, 4.5, 8, 60, 5)

LOBE = 12.0  # loss in dB at `BEAM` degrees off axis
BEAM = 35.0
BACK = 25.0  # loss in dB at the sides and back


class Paths:
    """Radio paths from one tag to each antenna, over time."""

    def __init__(self, radio: Radio, antennas: Mapping[int, Antenna], random: Random) -> None:
        self._radio = radio
        self._antennas = antennas
        self._random = random
        self._shadow: dict[int, float] = {}
        self._slow = {number: random.gauss(0, radio.slow) for number in antennas}
        self._blocked_until = dict.fromkeys(antennas, 0.0)
        self.settle()

    def settle(self) -> None:
        """Draw new shadowing after the tag moved to another spot."""
        self._shadow = {number: self._random.gauss(0, self._radio.shadow) for number in self._antennas}

    def go_on(self, now: float, seconds: float) -> None:
        radio, random = self._radio, self._random
        keep = math.exp(-seconds / radio.slow_seconds)
        for number in self._antennas:
            fresh = random.gauss(0, radio.slow * math.sqrt(1 - keep * keep))
            self._slow[number] = self._slow[number] * keep + fresh
            if random.random() < seconds / radio.blocked_every:
                self._blocked_until[number] = now + random.expovariate(1 / radio.blocked_for)

    def strength(self, number: int, tag: Point, now: float) -> float | None:
        """Return the RSSI in dBm of one attempt to read the tag, None if it is too weak."""
        radio, antenna = self._radio, self._antennas[number]
        strength = radio.power_at_1m - radio.slope * math.log10(max(0.5, math.dist(antenna.at, tag)))
        strength -= lobe(antenna, tag)
        strength += self._shadow[number] + self._slow[number] + self._random.gauss(0, radio.fast)
        if now < self._blocked_until[number]:
            strength -= radio.blocked
        return round(strength) if strength >= radio.sensitivity else None


def lobe(antenna: Antenna, tag: Point) -> float:
    """Return the loss in dB for the direction."""
    if antenna.facing is None:
        return 0.0
    direction = math.degrees(math.atan2(tag[1] - antenna.at[1], tag[0] - antenna.at[0]))
    off = abs((direction - antenna.facing + 180) % 360 - 180)
    return min(BACK, LOBE * (off / BEAM) ** 2)
