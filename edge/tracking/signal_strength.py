"""Strength and weight of reads: the input of `decision_rule`."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import NamedTuple

from edge.clock import SECOND

UNKNOWN_STRENGTH = -60.0  # dBm, for readers that do not report it
NO_RSSI = -(2**15)
LOOKS = 24  # number of looks that decide


class AntennaKind(StrEnum):
    """Meaning of a read by an antenna: the asset is in its zone, passes it, or is certainly there."""

    __hash__ = str.__hash__  # Enum's own is a Python function, called for every read

    ZONE = "zone"
    PORTAL = "portal"
    DIRECT = "direct"


class Weight(IntEnum):
    """Weight of a read as evidence: the kind of antenna and, for zones and portals, the radio."""

    RFID_ZONE = 0
    BLE_ZONE = 1
    RFID_PORTAL = 2
    BLE_PORTAL = 3
    DIRECT = 4


def weight_of(kind: AntennaKind, tag_type: str) -> Weight:
    """Return the weight of a read. A barcode needs a line of sight, so it counts as certain."""
    return _WEIGHTS.get((kind, tag_type), _DIRECT)


_WEIGHTS = {
    (AntennaKind.ZONE, "rfid"): Weight.RFID_ZONE,
    (AntennaKind.ZONE, "ble"): Weight.BLE_ZONE,
    (AntennaKind.PORTAL, "rfid"): Weight.RFID_PORTAL,
    (AntennaKind.PORTAL, "ble"): Weight.BLE_PORTAL,
}
_DIRECT = Weight.DIRECT
_LOSSES = (0.0, 15.0, 0.0, 15.0, 0.0)  # dB that a tag is weaker than an RFID tag at the same distance, by weight


class Detection(NamedTuple):
    """Reads of an asset at one location in one second: the greatest strength, and the first and last time.

    Source, RSSI, quality of the time and delay are those of the first read, for a row of history.
    """

    second: int
    location_id: int
    strength: float  # dBm of an RFID tag at the same distance
    weight: int  # a `Weight`, as a plain number
    micros: int  # first read, within the second
    lasted: int  # microseconds from the first to the last read
    source_no: int
    tenths: int  # of dBm; `NO_RSSI` if not reported
    quality: int
    delay: int

    @property
    def first_at(self) -> int:
        return self.second * SECOND + self.micros

    @property
    def last_at(self) -> int:
        return self.second * SECOND + self.micros + self.lasted

    @property
    def rssi(self) -> float | None:
        return None if self.tenths == NO_RSSI else self.tenths / 10

    @property
    def strongest(self) -> float | None:
        """RSSI of the strongest read."""
        return None if self.tenths == NO_RSSI else self.strength - _LOSSES[self.weight]

    def as_in_history(self) -> Detection:
        """Return the detection without values that a row of history lacks."""
        return self._replace(
            strength=strength_of(self.rssi, Weight.RFID_ZONE)[0], weight=int(Weight.RFID_ZONE), lasted=0
        )

    def at(self, moment: int) -> Detection:
        second, micros = divmod(moment, SECOND)
        return self._replace(second=second, micros=micros)

    def merged(self, other: Detection) -> Detection:
        """Merge with another detection of the same second and location."""
        first = other if (other.micros, other.source_no) < (self.micros, self.source_no) else self
        strongest = other if other.strength > self.strength else self
        return Detection(
            self.second,
            self.location_id,
            strongest.strength,
            max(self.weight, other.weight),
            first.micros,
            max(self.micros + self.lasted, other.micros + other.lasted) - first.micros,
            first.source_no,
            first.tenths,
            first.quality,
            first.delay,
        )


@lru_cache(maxsize=1024)  # there are few different strengths
def strength_of(rssi: float | None, weight: int, rssi_offset: float = 0.0) -> tuple[float, int]:
    """Return `Detection.strength` and `Detection.tenths`."""
    if rssi is None:
        return UNKNOWN_STRENGTH, NO_RSSI
    return rssi + rssi_offset + _LOSSES[weight], round(rssi * 10)
