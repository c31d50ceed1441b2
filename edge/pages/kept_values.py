"""Values that many requests share for some seconds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class KeptValues(Generic[Value]):
    """Values by key, each kept for `seconds`; at most `most` of them. A new value drops those that are too old."""

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
            now = time.monotonic()
            self._values.pop(key, None)
            while self._values and (len(self._values) >= self._most or next(iter(self._values.values()))[0] <= now):
                self._values.popitem(last=False)
            self._values[key] = (now + self._seconds, value)
        return value

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
