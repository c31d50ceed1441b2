"""Token buckets: how often somebody may do something. In memory, so a restart fills them.

They run on the monotonic clock: a date that was wrong, or is set right, neither fills nor locks one.

A limit for the requests of one caller that are answered at the same time: never all that the threads can take.

Reads are answered one after another unless they are slow (see `workers`), so only a caller whose requests are slow ever
has many at once; without a bound it would hold every thread, and nobody else would be answered, /healthz included.

Network addresses: the network that a client has to itself, and URLs that lead each device to itself.
"""

from __future__ import annotations

import math
import threading
import time
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

MOST_KEYS = 10_000
MOST_DEBT_SECONDS = 60


class Budget(NamedTuple):
    """After a token was asked for: how many are left, and in how many seconds one, or all, are there again."""

    allowed: bool
    remaining: int
    retry_after: int
    full_after: int


class Buckets:
    """One bucket for each key: it holds `burst` tokens, and regains `per_second` of them every second."""

    def __init__(self, burst: int, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._buckets: dict[str, tuple[float, float]] = {}  # what was left, and when
        self._lock = threading.Lock()
        self.untouched = Budget(True, burst, 0, 0)

    def take(self, key: str, amount: float = 1) -> Budget:
        """Take tokens if there are as many. An amount that no bucket holds is taken from a full one."""
        with self._lock:
            now = time.monotonic()
            left = self._left(key, now)
            amount = min(amount, self._burst)
            budget = self._budget(left, amount)
            if budget.allowed:
                left -= amount
            if len(self._buckets) >= MOST_KEYS and key not in self._buckets:
                self._make_room(now)
            self._buckets[key] = (left, now)
        return self._budget(left)._replace(allowed=budget.allowed, retry_after=budget.retry_after)

    def charge(self, key: str, seconds: float) -> None:
        """Charge for processor time that was spent, as much as is regained in it; the debt is a minute at most."""
        with self._lock:
            now = time.monotonic()
            left = max(self._left(key, now) - seconds * self._per_second, -MOST_DEBT_SECONDS * self._per_second)
            self._buckets[key] = (left, now)

    def look(self, key: str) -> Budget:
        """Whether a token could be taken now, without taking it."""
        with self._lock:
            return self._budget(self._left(key, time.monotonic()))

    def fill(self, key: str) -> None:
        with self._lock:
            self._buckets.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._buckets.clear()

    def _left(self, key: str, now: float) -> float:
        left, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_second)

    def _budget(self, left: float, amount: float = 1) -> Budget:
        allowed = left >= amount
        retry_after = 0 if allowed else math.ceil((amount - left) / self._per_second)
        return Budget(allowed, max(0, int(left)), retry_after, math.ceil((self._burst - left) / self._per_second))

    def _make_room(self, now: float) -> None:
        """Forget full buckets, which are as good as none; without any, the tenth from which least was taken."""
        left = {key: self._left(key, now) for key in self._buckets}
        gone = [key for key in left if left[key] >= self._burst]
        for key in gone or sorted(left, key=left.__getitem__, reverse=True)[: MOST_KEYS // 10]:
            del self._buckets[key]


RESERVED = 2  # threads that are left to others
FILES_OF_CALLER = 2


class ConcurrencyLimit:
    def __init__(self, threads: int) -> None:
        self._most = max(1, threads - RESERVED)
        self._most_files = max(1, threads // 2)
        self._files: dict[str, int] = {}
        self._busy: dict[str, int] = {}
        self._lock = threading.Lock()

    def acquire(self, caller: str) -> bool:
        """Whether there is a slot; then `release` must follow."""
        with self._lock:
            busy = self._busy.get(caller, 0)
            if busy >= self._most:
                return False
            self._busy[caller] = busy + 1
            return True

    def release(self, caller: str) -> None:
        with self._lock:
            _count_down(self._busy, caller)

    def acquire_file(self, caller: str) -> bool:
        """Whether one more file may be sent, each by a thread of its own; then `release_file` must follow."""
        with self._lock:
            own = self._files.get(caller, 0)
            if own >= FILES_OF_CALLER or sum(self._files.values()) >= self._most_files:
                return False
            self._files[caller] = own + 1
            return True

    def release_file(self, caller: str) -> None:
        with self._lock:
            _count_down(self._files, caller)


def _count_down(counts: dict[str, int], caller: str) -> None:
    left = counts.pop(caller) - 1
    if left:
        counts[caller] = left


V6_BITS = 64  # of the network part; within it a client can take a new address as often as it likes


def client_network(address: str, *, v4_bits: int = 32) -> str:
    """The network of an address, a /64 for IPv6. Text that is not an address is returned as it is."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:  # a proxy may call its client anything
        return address
    if parsed.version == 6 and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    bits = v4_bits if parsed.version == 4 else V6_BITS
    return str(ip_network((parsed, bits), strict=False))


def is_loopback(url: str) -> bool:
    """Whether an address leads each device to itself."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
