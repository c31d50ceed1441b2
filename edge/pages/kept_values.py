"""Values that many requests share for some seconds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class KeptValues(Generic[Value]):
    """Values by key, each kept for `seconds`; at most `most` of them."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._values: OrderedDict[Hashable, tuple[float, Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of the key. `make` is called if there is none or it is too old."""
        with self._lock:
            kept = self._values.get(key)
        if kept and kept[0] > time.monotonic():
            return kept[1]
        value = make()
        with self._lock:
            self._values[key] = (time.monotonic() + self._seconds, value)
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
