"""Decisions that a late read may change, and the state from which they are made again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.clock import SECOND
from edge.tracking.decision_rule import IDLE, OTHER_READER
from edge.tracking.packed_reads import Recent
from edge.tracking.portal_rule import STRAY_WINDOW
from edge.tracking.retrace import BY_LATER_READS, first_from, is_after_pause
from edge.tracking.signal_strength import LOOKS, Detection, Weight
from edge.tracking.stays import Position

_PORTAL = int(Weight.RFID_PORTAL)  # in Python 3.11 the lookup of an Enum member costs as much as a function call


class KnownRow(NamedTuple):
    """The newest row of history before a moment."""

    location_id: int
    began_at: int
    rule: int
    ended_at: int


def is_out_of_reach(position: Position, recent: Recent, second: int) -> bool:
    """Return True if a late read may change decisions for which memory lacks reads."""
    if second < recent.exact_from:
        return True
    row_second = position.row_at // SECOND
    return row_second < recent.exact_from and is_proved_by(position.row_at, position.row_rule, recent, second)


def is_proved_by(row_at: int, rule: int, recent: Recent, second: int) -> bool:
    """Return True if reads from `second` on may have decided a row that began earlier."""
    began = row_at // SECOND
    if row_at == recent.decided_row:
        return began <= second <= recent.decided_in
    if rule not in BY_LATER_READS or began > second or began < recent.complete_from:
        return False
    return recent.looks_between(began, second) <= LOOKS


def reach_back(detections: Sequence[Detection], second: int, known_until: int) -> int:
    """Return the first second with decisions that a read in `second` may change.

    `known_until`: end of the silence assumed before that second. Later reads may be new as well, so they do not show
    that the silence was shorter.
    """
    index, first = first_from(detections, second), second
    if index and known_until - detections[index - 1].second >= OTHER_READER:
        first = detections[index - 1].second  # a silence may have decided
    while index and detections[index - 1].second >= second - STRAY_WINDOW:
        index -= 1
        if detections[index].weight >= _PORTAL:
            first = min(first, detections[index].second)
    return first


def pauses_after(detections: Sequence[Detection], begin: int) -> bool:
    """Return True if a pause from `detections[begin - 1]` on makes everything before it irrelevant."""
    is_long = bool(detections) and detections[-1].second - detections[max(begin - 1, 0)].second > IDLE
    return is_long and any(is_after_pause(detections, index) for index in range(begin, len(detections)))


def seen_before(detections: Sequence[Detection], begin: int, second: int, row: KnownRow, recent: Recent) -> int:
    """Return the last sighting of a stay before a second."""
    if row.ended_at < second * SECOND:
        return row.ended_at
    for index in range(begin - 1, -1, -1):
        if detections[index].location_id == row.location_id:
            if detections[index].last_at > row.began_at:
                return detections[index].last_at
            break
    return row.began_at if recent.complete_from * SECOND <= row.began_at else second * SECOND - 1
