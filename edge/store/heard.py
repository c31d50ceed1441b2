"""What one antenna heard of an asset, and how much that proves; `evidence` decides by it."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from edge.clock import SECOND

UNKNOWN_STRENGTH = -60.0  # dBm, of readers that do not tell


class AntennaKind(StrEnum):
    """What being heard by an antenna means: the asset is in its zone, passes it, or is there without any doubt."""

    __hash__ = str.__hash__  # of an Enum it is a Python function, and every read asks

    ZONE = "zone"
    PORTAL = "portal"
    DIRECT = "direct"


class Weight(IntEnum):
    """How much a read proves: by kind of antenna, and for zones and portals by radio."""

    RFID_ZONE = 0
    BLE_ZONE = 1
    RFID_PORTAL = 2
    BLE_PORTAL = 3
    DIRECT = 4


def weight_of(kind: AntennaKind, tag_type: str) -> Weight:
    """A barcode is read by line of sight, so there is no doubt."""
    return _WEIGHTS.get((kind, tag_type), Weight.DIRECT)


_WEIGHTS = {
    (AntennaKind.ZONE, "rfid"): Weight.RFID_ZONE,
    (AntennaKind.ZONE, "ble"): Weight.BLE_ZONE,
    (AntennaKind.PORTAL, "rfid"): Weight.RFID_PORTAL,
    (AntennaKind.PORTAL, "ble"): Weight.BLE_PORTAL,
}
_LOSSES = (0.0, 15.0, 0.0, 15.0, 0.0)  # dB by which a tag as near is weaker than an RFID tag, by weight


class Heard:
    """What one location heard of an asset in one second: how strongly at best, from when to when (microseconds).

    Source, quality of the time and delay are those of the first read: for the row of history, should there be one.
    """

    __slots__ = (
        "delay",
        "first_at",
        "last_at",
        "location_id",
        "quality",
        "rssi",
        "second",
        "source_no",
        "strength",
        "weight",
    )

    def __init__(
        self,
        location_id: int,
        observed_at: int,
        rssi: float | None,
        weight: Weight = Weight.RFID_ZONE,
        source_no: int = 0,
        quality: int = 0,
        delay: int = 0,
    ) -> None:
        self.second = observed_at // SECOND
        self.location_id = location_id
        self.first_at = self.last_at = observed_at
        self.rssi = rssi
        self.strength = UNKNOWN_STRENGTH if rssi is None else rssi + _LOSSES[weight]
        self.weight = weight
        self.source_no = source_no
        self.quality = quality
        self.delay = delay

    def merge(self, other: Heard) -> bool:
        """Take in another read of the same second and location; whether it told anything new."""
        is_new = False
        if (other.first_at, other.source_no) < (self.first_at, self.source_no):
            self.first_at, self.source_no = other.first_at, other.source_no
            self.quality, self.delay = other.quality, other.delay
            is_new = True
        if other.last_at > self.last_at:
            self.last_at = other.last_at
            is_new = True
        if other.strength > self.strength:
            self.rssi, self.strength = other.rssi, other.strength
            is_new = True
        if other.weight > self.weight:
            self.weight = other.weight
            is_new = True
        return is_new
