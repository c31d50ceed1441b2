"""The portal rule: when one read of a portal is a move.

Assets pass a portal and do not stay at it: a read there after `PASSED_AFTER` seconds of silence is a move. The decision
waits `STRAY_WINDOW` seconds to exclude strays: reads that are more than `WEAKER_BY` below those at the present location
or at another portal at about the same time. A read of a direct antenna, and of a barcode, is a move at once (see
`retrace`). `decision_rule` compares all other reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from edge.tracking.signal_strength import LOOKS, Detection, Weight

PASSED_AFTER = 30  # seconds
STRAY_WINDOW = 3  # seconds
WEAKER_BY = 10.0  # dB

# Plain numbers: in Python 3.11 the lookup of an Enum member costs as much as a function call.
PORTAL, DIRECT = int(Weight.RFID_PORTAL), int(Weight.DIRECT)


def is_certain(detections: Sequence[Detection], index: int, here: int | None) -> bool:
    """Return True if a read of a portal is a move."""
    one = detections[index]
    if is_stray(detections, index, here):
        return False
    looks, second = 0, one.second
    for earlier in range(index - 1, -1, -1):
        before = detections[earlier]
        if before.second != second:
            looks, second = looks + 1, before.second
        if second < one.second - PASSED_AFTER or looks >= LOOKS:
            break
        if before.location_id == one.location_id and second < one.second and not is_stray(detections, earlier, here):
            return False
    return True


def is_stray(detections: Sequence[Detection], index: int, here: int | None) -> bool:
    """Return True if a portal's read is far weaker than one at `here` or at another portal at about the same time."""
    one = detections[index]
    if here is None or not PORTAL <= one.weight < DIRECT:
        return False
    first = index
    while first and detections[first - 1].second >= one.second - STRAY_WINDOW:
        first -= 1
    for position in range(first, len(detections)):
        other = detections[position]
        if other.second > one.second + STRAY_WINDOW:
            break
        is_rival = other.location_id == here or PORTAL <= other.weight < DIRECT
        if is_rival and other.location_id != one.location_id and other.strength > one.strength + WEAKER_BY:
            return True
    return False


def is_undecided(detections: Sequence[Detection], begin: int, end: int, here: int | None, horizon: int) -> bool:
    """Return True if one of `detections[begin:end]`, all of one second, is a portal's that may prove to be a stray."""
    if here is None or detections[begin].second + STRAY_WINDOW <= horizon:
        return False
    return any(
        PORTAL <= detections[index].weight < DIRECT
        and detections[index].location_id != here
        and is_certain(detections, index, here)
        for index in range(begin, end)
    )
