"""Chance and time of a test come from its name and one seed, so that a failure can be repeated.

`EDGE_TEST_SEED=7 pytest` chooses other random values and other times of day and year. Tests marked `slow` or
`real_time` compare times with other processes, with OpenSSL or with files, and begin at the time of the machine.
"""

from __future__ import annotations

import os
import random
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import time_machine

SEED = int(os.environ.get("EDGE_TEST_SEED", "0"))
SESSION = datetime(2026, 11, 1, tzinfo=UTC)  # earlier than each test
EARLIEST = datetime(2026, 12, 1, tzinfo=UTC)  # later than the times that tests write down
NOON = datetime(2026, 12, 16, 12, 29, 30, tzinfo=UTC)  # far from the boundary of a minute, an hour, a day, and of DST
BOOTED = time.time() - time.monotonic()


def moment(chance: random.Random) -> datetime:
    """Return noon of an ordinary day with the seed 0, otherwise any microsecond of a year."""
    return EARLIEST + timedelta(microseconds=chance.randrange(3_600_000_000, 365 * 86_400_000_000)) if SEED else NOON


_began: list[float] = []


def began() -> int:
    """Return the time at which the current test began, in microseconds."""
    return int(_began[-1] * 1_000_000)


@contextmanager
def of(name: str, start: datetime | None = None, *, is_real_time: bool = False) -> Iterator[int]:
    """Let all random values and the time at the start depend on `name` and the seed. Returns both as a number."""
    seed = zlib.crc32(f"{SEED} {name}".encode())
    chance = random.Random(seed)
    _began.append(BOOTED + time.monotonic() if is_real_time else (start or moment(chance)).timestamp())
    entropy = os.urandom, random._urandom  # type: ignore[attr-defined]
    os.urandom = random._urandom = chance.randbytes  # type: ignore[attr-defined]
    random.seed(seed)
    try:
        with time_machine.travel(_began[-1]):
            yield seed
    finally:
        _began.pop()
        os.urandom, random._urandom = entropy  # type: ignore[attr-defined]
