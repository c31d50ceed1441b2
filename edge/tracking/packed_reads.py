"""Recent reads of one asset, packed into bytes (one sixth of the memory of objects).

Decision record: web/manual/decisions/packed-reads.md
"""

from __future__ import annotations

from functools import partial
from struct import Struct

from edge.clock import SECOND
from edge.tracking.signal_strength import LOOKS, Detection, strength_of

KEPT_LOOKS = LOOKS + 8  # seconds kept, at least
EXTRA_LOOKS = 24  # further seconds before old ones are dropped
LATE_LOOKS = 3  # looks before a late read that it may also change
PINNED = 8  # locations with a last read that is kept at any age
ALWAYS = 0  # `complete_from` of an asset without earlier reads

_DETECTION = Struct("<IqdBIIIhBq")  # fields of `Detection`
_SECOND = Struct("<I40x")
_LOCATION = Struct("<4xq32x")
_HEAD = Struct("<IqdBII15x")  # up to `lasted`
_LASTED = Struct("<I")
_LASTED_AT = 25  # its offset
_SIZE = _DETECTION.size
_OVERHEAD = 250  # bytes, of an asset without reads
_Values = tuple[int, int, float, int, int, int, int, int, int, int]  # of a `Detection`
_detection_of = partial(tuple.__new__, Detection)


class Recent:
    """Detections of one asset in order of seconds.

    None is missing from `complete_from` on, and from `exact_from` on none that a decision uses.
    """

    __slots__ = (
        "_limit",
        "_packed",
        "complete_from",
        "decided_in",
        "decided_row",
        "exact_from",
        "is_full",
        "newest",
        "settled_until",
    )

    def __init__(self, complete_from: int, limit: int = KEPT_LOOKS + EXTRA_LOOKS) -> None:
        self.complete_from = self.exact_from = complete_from
        self.newest = -1  # second
        self.decided_row = self.decided_in = -1  # the newest decided row, and the second of the look that decided it
        self.settled_until = -1  # second until which silences are decided
        self._packed = bytearray()
        self._limit = limit * _SIZE
        self.is_full = False

    @property
    def detections(self) -> list[Detection]:
        return list(map(_detection_of, _DETECTION.iter_unpack(self._packed)))

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return len(self._packed) + _OVERHEAD

    @property
    def is_empty(self) -> bool:
        return not self._packed

    def add(
        self,
        observed_at: int,
        location_id: int,
        rssi: float | None,
        weight: int = 0,
        source_no: int = 0,
        quality: int = 0,
        delay: int = 0,
        rssi_offset: float = 0.0,
    ) -> bool:
        """Add a read. Return True if it changed anything."""
        second, micros = divmod(observed_at, SECOND)
        strength, tenths = strength_of(rssi, weight, rssi_offset)
        one = (second, location_id, strength, weight, micros, 0, source_no, tenths, quality, delay)
        if second <= self.newest:
            return self._insert(one)
        self._packed += _DETECTION.pack(*one)
        self.newest = second
        self.is_full = len(self._packed) > self._limit
        return True

    def _insert(self, one: _Values) -> bool:
        second, location_id, strength, weight, micros = one[:5]
        packed = self._packed
        index = end = len(packed) if second == self.newest else self._end_of(second)
        while index:
            its = _HEAD.unpack_from(packed, index - _SIZE)
            if its[0] < second:
                break
            index -= _SIZE
            if its[1] == location_id and its[0] == second:
                lasted = micros - its[4]
                if lasted <= 0 or strength > its[2] or weight > its[3]:
                    return self._merge(index, one)
                if lasted <= its[5]:
                    return False
                _LASTED.pack_into(packed, index + _LASTED_AT, lasted)
                return True
        packed[end:end] = _DETECTION.pack(*one)
        self.is_full = len(packed) > self._limit
        return True

    def _end_of(self, second: int) -> int:
        """Return the end of the detections until that second.

        Most reads are only slightly late, but a reader's buffer holds thousands. So the search goes back in doubling
        steps, then bisects the last one.
        """
        packed, step = self._packed, 1
        high = len(packed) // _SIZE
        low = high - 1
        while low >= 0 and _SECOND.unpack_from(packed, low * _SIZE)[0] > second:
            high, step = low, 2 * step
            low = max(high - step, 0) if high else -1
        low += 1
        while low < high:
            middle = (low + high) // 2
            if _SECOND.unpack_from(packed, middle * _SIZE)[0] > second:
                high = middle
            else:
                low = middle + 1
        return low * _SIZE

    def _merge(self, index: int, one: _Values) -> bool:
        before = _detection_of(_DETECTION.unpack_from(self._packed, index))
        merged = before.merged(_detection_of(one))
        _DETECTION.pack_into(self._packed, index, *merged)
        return merged != before

    def known_from(self, second: int) -> int:
        """Return the second since which none is missing, given that the newest read follows that second."""
        return self.complete_from if len(self._packed) == _SIZE else second + 1

    def is_only(self, location_id: int) -> bool:
        """Return True if no other location read the asset."""
        return all(where == location_id for (where,) in _LOCATION.iter_unpack(self._packed))

    def is_newest_only(self, location_id: int) -> bool:
        """Return True if no other location read the asset in the newest second."""
        packed, index = self._packed, len(self._packed)
        while index:
            index -= _SIZE
            second, where, *_ = _HEAD.unpack_from(packed, index)
            if second != self.newest:
                break
            if where != location_id:
                return False
        return True

    def looks_between(self, second: int, until: int) -> int:
        """Return the number of seconds with a read from `second` on and before `until`."""
        return len({one for (one,) in _SECOND.iter_unpack(self._packed) if second <= one < until})

    def drop_old(self, kept: int = KEPT_LOOKS) -> None:
        """Keep the last seconds only: those that decisions use, and some more for late reads.

        With a smaller `kept`, decisions use fewer.
        """
        seconds = [second for (second,) in _SECOND.iter_unpack(self._packed)]
        looks = sorted({second for second in seconds if second >= self.complete_from})
        if len(looks) > kept:
            self.complete_from = self.exact_from = looks[-kept]
            index, exact = seconds.index(self.complete_from), len(seconds)
            if kept > LOOKS + LATE_LOOKS:
                self.exact_from = looks[LOOKS + LATE_LOOKS - 1 - kept]
                exact = seconds.index(self.exact_from)
            self._packed[: index * _SIZE] = self._pinned(index, exact)
        self._limit = len(self._packed) + EXTRA_LOOKS * _SIZE
        self.is_full = False

    def _pinned(self, index: int, exact: int) -> bytes:
        """Return the last detection before `index` of each location that was not read again before `exact`.

        A reader may be out for longer than the seconds kept.
        """
        size = index * _SIZE
        since = {where for (where,) in _LOCATION.iter_unpack(self._packed[size : exact * _SIZE])}
        pinned: list[bytes] = []
        while size and len(pinned) < PINNED:
            size -= _SIZE
            one = bytes(self._packed[size : size + _SIZE])
            (where,) = _LOCATION.unpack(one)
            if where not in since:
                since.add(where)
                pinned.append(one)
        return b"".join(reversed(pinned))
