"""Chance and time of a test come from its name and one seed, so that a failure can be repeated.

`TEST_SEED=7 pytest` chooses other random values and other times, half of them just before the end of a day, a month or
summer time. `TEST_MOMENT=2028-02-28T23:59:59.9Z pytest` lets all tests begin at one time. Tests marked `slow` or
`real_time` compare times with other processes or with OpenSSL, and begin at the time of the machine.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import time_machine

SEED = int(os.environ.get("TEST_SEED", "0"))
MOMENT = os.environ.get("TEST_MOMENT", "")
SESSION = datetime(2026, 11, 1, tzinfo=UTC)  # earlier than each test
EARLIEST = datetime(2026, 12, 1, tzinfo=UTC)  # later than the times that tests write down
NOON = datetime(2026, 12, 16, 12, 29, 30, tzinfo=UTC)  # far from the boundary of a minute, an hour, a day, and of DST
BOOTED = time.time() - time.monotonic()
BOUNDARIES = [
    datetime.fromisoformat(text)
    for text in (
        "2026-12-31T23:00:00Z",  # an hour ends; midnight in Berlin
        "2027-01-01T00:00:00Z",
        "2027-02-14T18:30:00Z",  # midnight in Kolkata
        "2027-02-20T03:30:00Z",  # midnight in St. John's
        "2027-03-01T00:00:00Z",
        "2027-03-14T05:30:00Z",  # summer time begins in St. John's
        "2027-03-28T01:00:00Z",  # and in Europe
        "2027-10-31T01:00:00Z",  # it ends in Europe
        "2027-11-07T04:30:00Z",  # and in St. John's
        "2028-02-29T00:00:00Z",
        "2028-03-01T00:00:00Z",
    )
]


def moment(chance: random.Random) -> datetime:
    """Return noon of an ordinary day with the seed 0, otherwise any time of a year or up to 3 s before a boundary."""
    if MOMENT:
        return datetime.fromisoformat(MOMENT)
    if not SEED:
        return NOON
    if chance.random() < 0.5:
        return chance.choice(BOUNDARIES) - timedelta(seconds=10 ** chance.uniform(-4, 0.5))
    return EARLIEST + timedelta(microseconds=chance.randrange(3_600_000_000, 365 * 86_400_000_000))


def repeated() -> str:
    """Return the settings that repeat a failure, for the shell."""
    variables = {"TEST_SEED": str(SEED), "TEST_MOMENT": MOMENT} | {
        name: os.environ.get(name, "") for name in ("TZ", "PYTHONHASHSEED")
    }
    return " ".join(f"{name}={value}" for name, value in variables.items() if value)


_began: list[float] = []


def began() -> int:
    """Return the time at which the current test began, in microseconds."""
    return int(_began[-1] * 1_000_000)


def give_time(connection: sqlite3.Connection) -> None:
    """Let triggers, which ask SQLite for the time in these two ways, have that of the test."""
    connection.create_function("strftime", 2, lambda *_: str(int(time.time())))  # '%s', 'now'
    connection.create_function("julianday", 1, lambda _: time.time() / 86_400 + 2_440_587.5)


@contextmanager
def of(name: str, start: datetime | None = None, *, is_real_time: bool = False) -> Iterator[int]:
    """Let all random values and the time at the start depend on `name` and the seed. Returns both as a number."""
    with random_of(name) as (seed, chance):
        _began.append(BOOTED + time.monotonic() if is_real_time else (start or moment(chance)).timestamp())
        try:
            with time_machine.travel(_began[-1]):
                yield seed
        finally:
            _began.pop()


@contextmanager
def random_of(name: str) -> Iterator[tuple[int, random.Random]]:
    """Let all random values depend on `name` and the seed. Returns both as a number, and the source of the values."""
    seed = zlib.crc32(f"{SEED} {name}".encode())
    chance = random.Random(seed)
    entropy = os.urandom, random._urandom  # type: ignore[attr-defined]
    os.urandom = random._urandom = chance.randbytes  # type: ignore[attr-defined]
    state = random.getstate()
    random.seed(seed)
    try:
        yield seed, chance
    finally:
        random.setstate(state)
        os.urandom, random._urandom = entropy  # type: ignore[attr-defined]
