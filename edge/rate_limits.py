"""Rate limits, limits of what runs at the same time, callers, and network addresses.

`edge.api.guard` has those of the API, `edge.people.sign_in` those of sign-ins.

Rate limits are token buckets in memory, so a restart refills them. They use the monotonic clock, so changes of the
system time have no effect.

`server.workers` keeps one caller from occupying all threads with slow requests, `FileLimit` with files. It chooses
among waiting requests before it can look up their credentials, so it learns here which were valid in earlier requests.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from ipaddress import ip_address, ip_network
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

MOST_KEYS = 10_000
MOST_DEBT_SECONDS = 60


class Budget(NamedTuple):
    """State of a bucket after a request: tokens left, seconds until the next token, and seconds until it is full."""

    allowed: bool
    remaining: int
    retry_after: int
    full_after: int


class Buckets:
    """One bucket per key. It holds `burst` tokens and refills at `per_second`."""

    def __init__(self, burst: int, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens left, and the time of the last change
        self._lock = threading.Lock()
        self.untouched = Budget(True, burst, 0, 0)

    def take(self, key: str, amount: float = 1) -> Budget:
        """Take tokens if available. More than `burst` tokens can be taken from a full bucket."""
        with self._lock:
            now = time.monotonic()
            left = self._left(key, now)
            amount = min(amount, self._burst)
            missing = amount - left
            if missing <= 0:
                left -= amount
            if len(self._buckets) >= MOST_KEYS and key not in self._buckets:
                self._make_room(now)
            self._buckets[key] = (left, now)
        return self._budget(left, missing)

    def put_back(self, key: str, amount: float) -> None:
        """Undo a `take`."""
        with self._lock:
            now = time.monotonic()
            self._buckets[key] = (self._left(key, now) + min(amount, self._burst), now)

    def levels(self) -> dict[str, float]:
        """Return the tokens left in each bucket that is not full."""
        with self._lock:
            now = time.monotonic()
            levels = {key: self._left(key, now) for key in self._buckets}
        return {key: left for key, left in levels.items() if left < self._burst}

    def restore(self, levels: Mapping[str, float], seconds: float) -> None:
        """Set buckets to levels as of `seconds` ago."""
        with self._lock:
            now = time.monotonic()
            for key, left in islice(levels.items(), MOST_KEYS):
                self._buckets[key] = (min(self._burst, left + seconds * self._per_second), now)

    def charge(self, key: str, seconds: float) -> None:
        """Charge for CPU time at the refill rate. The debt is at most one minute."""
        with self._lock:
            now = time.monotonic()
            left = max(self._left(key, now) - seconds * self._per_second, -MOST_DEBT_SECONDS * self._per_second)
            self._buckets[key] = (left, now)

    def look(self, key: str) -> Budget:
        """Return the state without taking a token."""
        with self._lock:
            left = self._left(key, time.monotonic())
        return self._budget(left, 1 - left)

    def fill(self, key: str) -> None:
        with self._lock:
            self._buckets.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._buckets.clear()

    def _left(self, key: str, now: float) -> float:
        left, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_second)

    def _budget(self, left: float, missing: float) -> Budget:
        """Return the state of a bucket. `missing`: tokens that the request would have needed."""
        retry_after = max(0, math.ceil(missing / self._per_second))
        full_after = math.ceil((self._burst - left) / self._per_second)
        return Budget(missing <= 0, max(0, int(left)), retry_after, full_after)

    def _make_room(self, now: float) -> None:
        """Drop full buckets. If there are none, drop the tenth with the most tokens."""
        left = {key: self._left(key, now) for key in self._buckets}
        gone = [key for key in left if left[key] >= self._burst]
        for key in gone or sorted(left, key=left.__getitem__, reverse=True)[: MOST_KEYS // 10]:
            del self._buckets[key]


RESERVED = 2  # threads kept free for other callers
FILES_OF_CALLER = 2


class Slots:
    """At most so many things of each owner at the same time. A thing may have several owners, each with a limit."""

    def __init__(self, *limits: int) -> None:
        self._limits = limits
        self._used: Counter[tuple[int, Hashable]] = Counter()  # by the place of the limit, and owner
        self._lock = threading.Lock()

    def acquire(self, *owners: Hashable) -> bool:
        """Take a slot of each owner; return False if one has none left. Call `release` afterwards."""
        with self._lock:
            is_free = all(self._used[key] < self._limits[key[0]] for key in enumerate(owners))
            if is_free:
                self._used.update(enumerate(owners))
            return is_free

    def release(self, *owners: Hashable) -> None:
        with self._lock:
            for key in enumerate(owners):
                count_down(self._used, key)


class FileLimit:
    """Files that are being sent. Each occupies a thread, and one organization never has all slots."""

    def __init__(self, threads: int) -> None:
        half = max(1, threads // 2)
        self._slots = Slots(FILES_OF_CALLER, half, max(1, min(threads // 2 + 1, threads - 1)))

    def acquire(self, caller: str, organization_id: int | None = None) -> bool:
        """Take a slot; return False if there is none. Call `release` afterwards."""
        return self._slots.acquire(caller, organization_id, "")

    def release(self, caller: str, organization_id: int | None = None) -> None:
        self._slots.release(caller, organization_id, "")


def count_down(counts: Counter[Any], key: Hashable) -> None:
    """Subtract one, and forget a key without any."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


MOST_CALLERS = 10_000
PERSON = "person:"  # begin of the name of somebody who uses the pages


class Caller(NamedTuple):
    """A person or API key, otherwise the network of the client, "" if that is not limited."""

    name: str
    organization_id: int | None


_callers: OrderedDict[int, Caller] = OrderedDict()  # by the hash of a credential, with the seed of this process
_seen: set[int] = set()


def note_caller(credential: str, name: str, organization_id: int) -> bool:
    """Remember the caller of a valid credential: an Authorization header, or the token of a session.

    Returns True if several organizations use this box.
    """
    key = hash(credential)
    _callers.pop(key, None)  # another thread may drop the oldest one at any moment
    _callers[key] = Caller(name, organization_id)
    _seen.add(organization_id)
    if len(_callers) > MOST_CALLERS:
        _callers.popitem(last=False)
    return len(_seen) > 1


def find_caller(credential: str) -> Caller | None:
    """Return the caller of a credential, None if it was never valid or not used for long."""
    return _callers.get(hash(credential))


def has_several_organizations() -> bool:
    """Return True if several organizations use this box."""
    return len(_seen) > 1


def forget_callers() -> None:
    """Forget all credentials. For tests."""
    _callers.clear()
    _seen.clear()


V6_BITS = 64  # prefix length; a client can change its address within this network at will


def client_network(address: str, *, v4_bits: int = 32) -> str:
    """Return the network of an address: a /64 for IPv6. Other text is returned unchanged."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:  # a proxy may send any name
        return address
    if parsed.version == 6 and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    bits = v4_bits if parsed.version == 4 else V6_BITS
    return str(ip_network((parsed, bits), strict=False))


def is_loopback(url: str) -> bool:
    """True for URLs that lead each device to itself."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
