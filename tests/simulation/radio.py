"""How strongly an antenna hears a tag: distance, lobe, shadowing, fading, and what stands in between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

Point = tuple[float, float]


class Antenna(NamedTuple):
    """`facing` in degrees, None for one that hears all round; `location` is the number of its zone."""

    at: Point
    location: int
    facing: float | None = None


class Radio(NamedTuple):
    """One kind of tag and reader. Powers in dBm, spreads in dB, times in seconds.

    `slope` is the loss for each tenfold distance: 40 there and back for a passive tag, 20 to 30 for BLE indoors.
    `shadow` differs from spot to spot and stays while the tag stays. `slow` comes and goes with what moves around,
    within `slow_seconds`. `fast` is another for every read: reflections, and for BLE the three channels. `blocked` is
    what somebody in between takes away, `blocked_every` seconds on average and for `blocked_for` seconds.
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

LOBE = 12.0  # dB down at the edge of the beam, `BEAM` degrees off its axis
BEAM = 35.0
BACK = 25.0  # dB down at the sides and the back


class Paths:
    """The radio paths from one tag to every antenna, and how they change as time goes on."""

    def __init__(self, radio: Radio, antennas: Mapping[int, Antenna], random: Random) -> None:
        self._radio = radio
        self._antennas = antennas
        self._random = random
        self._shadow: dict[int, float] = {}
        self._slow = {number: random.gauss(0, radio.slow) for number in antennas}
        self._blocked_until = dict.fromkeys(antennas, 0.0)
        self.settle()

    def settle(self) -> None:
        """The tag came to another spot."""
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
        """Of one try to read the tag; None when it is too weak."""
        radio, antenna = self._radio, self._antennas[number]
        strength = radio.power_at_1m - radio.slope * math.log10(max(0.5, math.dist(antenna.at, tag)))
        strength -= lobe(antenna, tag)
        strength += self._shadow[number] + self._slow[number] + self._random.gauss(0, radio.fast)
        if now < self._blocked_until[number]:
            strength -= radio.blocked
        return round(strength) if strength >= radio.sensitivity else None


def lobe(antenna: Antenna, tag: Point) -> float:
    """What the direction takes away."""
    if antenna.facing is None:
        return 0.0
    direction = math.degrees(math.atan2(tag[1] - antenna.at[1], tag[0] - antenna.at[0]))
    off = abs((direction - antenna.facing + 180) % 360 - 180)
    return min(BACK, LOBE * (off / BEAM) ** 2)
