"""Restore drill: once a month, restore the newest backups to a scratch file and compare them with the live database.

The report is kept for the doctor and /metrics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from edge import clock
from edge.errors import Corrupt, EdgeError
from edge.operations import archives, continuous_backup
from edge.operations.backup import newest_backup
from edge.operations.files import replace_text
from edge.operations.snapshots import count_rows, inspect_copy
from edge.operations.stats import count_live
from edge.tracking import report

FILE_NAME = "drill.json"
NEVER_REMOVED = ["organization", "person", "location", "asset", "reader"]  # so a copy has at most the live row count
FOLLOWS_WITHIN = 5 * 60 * clock.SECOND  # allowed lag of a continuous copy behind the newest scan


class Report(NamedTuple):
    at: int
    is_ok: bool
    text: str


class _Source(NamedTuple):
    name: str
    write_copy: Callable[[Path], None]  # writes the database to a file
    newest_at_least: int | None  # its newest scan must be at least this recent, in µs


def run(data_dir: Path, backup_folder: Path, continuous_dir: Path | None) -> Report:
    """Restore the newest backup and the newest continuous copy to a scratch file. The service may be running."""
    restored: list[str] = []
    faults: list[str] = []
    for source in _sources(backup_folder, continuous_dir):
        try:
            restored.append(f"{source.name}: {_restore_to(data_dir / 'drill.db', source)}")
        except EdgeError as error:
            faults.append(f"{source.name}: {error}")
    if not restored and not faults:
        faults.append(f"there is no backup in {backup_folder}")
    report = Report(clock.now(), not faults, "; ".join(faults + restored))
    _keep(data_dir, report)
    return report


def _sources(backup_folder: Path, continuous_dir: Path | None) -> Iterator[_Source]:
    backup = newest_backup(backup_folder)
    if backup is not None:
        yield _Source(backup.path.name, partial(archives.unpack, backup.path), None)
    if continuous_dir is not None:
        newest = report.newest_scan() or None
        at_least = newest - FOLLOWS_WITHIN if newest is not None else None
        yield _Source("the continuous backup", partial(continuous_backup.restore_point, continuous_dir), at_least)


def last(data_dir: Path) -> Report | None:
    """Return the last report, or None if there is none or it cannot be read."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return Report(**json.loads((data_dir / FILE_NAME).read_text("utf-8")))
    return None


def _restore_to(scratch: Path, source: _Source) -> str:
    """Restore to `scratch` and return a summary. Raises Corrupt or SetupError if the backup is unusable."""
    try:
        _remove(scratch)
        source.write_copy(scratch)
        summary = inspect_copy(scratch)
        _compare(count_rows(scratch, NEVER_REMOVED), summary.newest_scan_at, source.newest_at_least)
    finally:
        _remove(scratch)
    newest = _time_text(summary.newest_scan_at)
    return f"{summary.organizations} organizations, {summary.assets} assets, newest scan {newest}"


def _compare(copied: Mapping[str, int], newest: int | None, newest_at_least: int | None) -> None:
    """Raise Corrupt if the copy has more rows than the live database, counted afterwards, or is too old."""
    live = count_live(NEVER_REMOVED)
    for table, count in copied.items():
        if count > live[table]:
            raise Corrupt(
                f"it has {count} rows of {table} and the live database {live[table]}: check that it belongs to this box"
            )
    if newest_at_least is not None and (newest is None or newest < newest_at_least):
        raise Corrupt(f"its newest scan is {_time_text(newest)}, which is too old: see edge doctor")


def _time_text(moment: int | None) -> str:
    return clock.rfc3339(moment) if moment is not None else "none"


def _remove(scratch: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        scratch.with_name(scratch.name + suffix).unlink(missing_ok=True)


def _keep(data_dir: Path, report: Report) -> None:
    replace_text(data_dir / FILE_NAME, json.dumps(report._asdict()))
