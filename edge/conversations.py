"""Conversations with other programs, such as brokers, hubs and mail servers, noted beyond the end of the service.

A mark for each lies in the run directory, which outlives the process but not the computer. A mark that is open at the
next start shows that the service ended without a stop during that conversation, perhaps by a message of the partner.
The partner then waits, four times as long after each such end. Without a run directory, as in commands, nothing is
noted.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

FIRST_SECONDS = 5
LONGEST_SECONDS = 3600
FORGET_SECONDS = 86_400  # after the last end without a stop
LINGER_SECONDS = 10  # an answer is still being used, and a busy partner costs few writes
MOST = 1_000  # marks that are read


class Waits(OSError):
    """The partner has to wait. The message is shown to administrators."""


class Ended(NamedTuple):
    """Ends of the service without a stop during conversations with a partner. `at`: the last one, in `now` seconds."""

    number: int
    at: float


_lock = threading.Lock()
_folders: list[Path] = []  # one while the service runs
_running: Counter[str] = Counter()
_last: dict[str, float] = {}  # beginning or end of the last conversation with each partner that has an open mark
_ended: dict[str, Ended] = {}
_waits_until: dict[str, float] = {}  # of partners that were refused


def now() -> float:
    """Return the seconds since boot, which also count while the computer sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def begin(folder: Path) -> None:
    """Read the marks of the process before, and note conversations from now on."""
    with _lock:
        for state in (_running, _last, _ended, _waits_until):
            state.clear()
        _folders[:] = [folder]
        for file in islice(folder.glob("*.mark"), MOST):
            with suppress(OSError, ValueError):
                is_open, number, at, partner = file.read_text().split(" ", 3)
                ended = Ended(int(number) + 1, now()) if int(is_open) else Ended(int(number), float(at))
                if ended.at > now() - FORGET_SECONDS:
                    _ended[partner] = ended
                _mark(partner)


def end() -> None:
    """Close all marks: the service stops."""
    with _lock:
        partners = list(_last)
        _last.clear()
        for partner in partners:
            _mark(partner)
        _folders.clear()


@contextmanager
def talking(partner: str, longest: int = LONGEST_SECONDS) -> Iterator[None]:
    """Note a conversation with `partner` (host:port) while the block runs. It waits at most `longest` seconds.

    Raises Waits.
    """
    if ended := _ended.get(partner):
        wait = min(FIRST_SECONDS * 4 ** min(ended.number - 1, 10), longest)
        if ended.at + wait > now():
            _waits_until[partner] = ended.at + wait
            raise Waits(f"edge ended unexpectedly while it was connected to {partner}; it waits {wait} s after that")
    with _lock:
        _running[partner] += 1
        is_marked, _last[partner] = partner in _last, now()
        if not is_marked:
            _mark(partner)
    try:
        yield
    finally:
        with _lock:
            _running[partner] -= 1
            if partner in _last:
                _last[partner] = now()
        close_marks()


def close_marks() -> None:
    """Close the marks of conversations that ended LINGER_SECONDS ago. Called again and again."""
    with _lock:
        for partner, at in list(_last.items()):
            if _running[partner] <= 0 and at < now() - LINGER_SECONDS:
                del _last[partner], _running[partner]
                _mark(partner)


def waiting() -> dict[str, int]:
    """Return the seconds that partners still have to wait, of those that were refused for that."""
    return {partner: math.ceil(until - now()) for partner, until in list(_waits_until.items()) if until > now()}


def _mark(partner: str) -> None:
    """Write the mark of a partner, or remove it if there is nothing to note. A full disk does not end the caller."""
    for folder in _folders:
        file = folder / f"{hashlib.sha256(partner.encode()).hexdigest()[:32]}.mark"
        with suppress(OSError):
            if partner in _last or partner in _ended:
                number, at = _ended.get(partner, (0, 0.0))
                file.write_text(f"{int(partner in _last)} {number} {at} {partner}")
            else:
                file.unlink(missing_ok=True)
