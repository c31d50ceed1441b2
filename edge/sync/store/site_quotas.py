"""Quotas of sites at their hub: bytes that each site may add to the database, and free disk that no site may use.

Without them, one hostile site could fill the disk within hours and force retention to delete the history of all others.
A refused site keeps its data and tries again. Its current locations still arrive, since they add nothing.

The bytes are the growth of the database file, measured in each transaction, so every kind of data counts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edge import clock
from edge.database.connection import database, execute, scalar, writing
from edge.errors import Unavailable
from edge.sync.store.exchange import Batch

MB = 1024 * 1024
PERIOD = 30 * clock.DAY  # in which a site may add the bytes of its quota
SOONEST, LATEST = 60, 600  # seconds until a refused site tries again


class HistoryWaits(Unavailable):
    """The hub takes only current locations from this site for now."""


class _Limits:
    quota = 0  # bytes in `PERIOD`; 0: no quota
    reserve = 0  # bytes of the disk; 0 disables the check, as in shell commands


def set_limits(quota: int, reserve: int) -> None:
    """Set how many bytes each site may add in `PERIOD`, and how many bytes of the disk stay free of their data."""
    _Limits.quota, _Limits.reserve = quota, reserve


def check(site_no: int, batch: Batch) -> None:
    """Raise HistoryWaits if the batch adds data and the site is over its quota or the disk is nearly full."""
    if not _adds_data(batch):
        return
    if (free := _free_bytes()) is not None and free < _Limits.reserve:
        reason = f"the hub has only {_megabytes(free)} of free disk; it keeps {_megabytes(_Limits.reserve)} free"
        raise _waits(site_no, reason, LATEST)
    over = added_bytes(site_no) - _Limits.quota
    if _Limits.quota and over >= 0:
        _start_from_now(site_no)
        reason = f"this site has added the {_megabytes(_Limits.quota)} that the hub accepts from it in 30 days"
        raise _waits(site_no, reason, over * PERIOD // _Limits.quota // clock.SECOND)
    if execute("SELECT history_waits FROM site WHERE no = ?", (site_no,)).fetchone()[0] is not None:
        _note(site_no, None)


def added_bytes(site_no: int) -> int:
    """Return how many bytes of its quota the site has used."""
    added, at = execute("SELECT added_bytes, added_at FROM site WHERE no = ?", (site_no,)).fetchone()
    freed: int = max(clock.now() - at, 0) * _Limits.quota // PERIOD
    return max(int(added) - freed, 0)


def is_exhausted(site_no: int) -> bool:
    """Return True if the site has used its quota."""
    return bool(_Limits.quota) and added_bytes(site_no) >= _Limits.quota


@contextmanager
def charging(site_no: int) -> Iterator[None]:
    """Count the bytes that the block adds. Use inside the transaction. Site 0 is this box itself."""
    size = used_bytes()
    yield
    if site_no:
        charge(site_no, used_bytes() - size)


def charge(site_no: int, size: int) -> None:
    """Count bytes that the site added. Call inside the transaction."""
    if size > 0 and _Limits.quota:
        execute(
            "UPDATE site SET added_bytes = ?, added_at = ? WHERE no = ?",
            (added_bytes(site_no) + size, clock.now(), site_no),
        )


def _start_from_now(site_no: int) -> None:
    """Correct the time of the last charge by a clock that was ahead: nothing would be freed until then."""
    with writing():
        now = clock.now()
        execute("UPDATE site SET added_at = ? WHERE no = ? AND added_at > ?", (now, site_no, now))


def used_bytes() -> int:
    """Return the size of the data in the database, without unused pages."""
    return scalar(
        "SELECT (page_count - freelist_count) * page_size "
        "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    )


def _adds_data(batch: Batch) -> bool:
    """Return True unless the batch has only positions that the hub knows."""
    if any((batch.assets, batch.locations, batch.readers, batch.people, batch.origins, batch.patches)):
        return True
    if any((batch.antennas, batch.doors, batch.passages)):
        return True
    return any(track.asset is not None for track in batch.tracks)


def _free_bytes() -> int | None:
    """Return the free disk space with the unused pages of the database, or None if there is no reserve."""
    if not _Limits.reserve:
        return None
    unused: int = execute(_UNUSED).fetchone()[0]
    return shutil.disk_usage(Path(database.database).parent).free + unused


_UNUSED = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"


def _waits(site_no: int, reason: str, seconds: int) -> HistoryWaits:
    text = f"{reason}. New data of the site waits there; current locations still arrive"
    _note(site_no, text)
    return HistoryWaits(text, min(max(seconds, SOONEST), LATEST))


def _note(site_no: int, reason: str | None) -> None:
    with writing():
        execute("UPDATE site SET history_waits = ?1 WHERE no = ?2 AND history_waits IS NOT ?1", (reason, site_no))


def _megabytes(size: int) -> str:
    return f"{size // MB:,} MB"
