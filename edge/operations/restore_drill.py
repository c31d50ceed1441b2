"""The restore drill: once a month the newest backups are restored aside, to prove that they can be.

What came back is compared with the live database, and the report is kept for the doctor and /metrics.
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
from edge.tracking.deletion import newest_scan

FILE_NAME = "drill.json"
NEVER_REMOVED = ["organization", "person", "location", "asset", "reader"]  # rows of these stay, so a copy has no more
FOLLOWS_WITHIN = 5 * 60 * clock.SECOND  # of the newest scan, in a continuous copy that is well


class Report(NamedTuple):
    at: int
    is_ok: bool
    text: str


class _Source(NamedTuple):
    name: str
    bring: Callable[[Path], None]  # writes the database to a file
    newest_at_least: int | None  # its newest scan is not older


def run(data_dir: Path, backup_folder: Path, continuous_dir: Path | None) -> Report:
    """Restore the newest backup, and the newest point of the continuous one, aside; the service may run meanwhile."""
    told: list[str] = []
    faults: list[str] = []
    for source in _sources(backup_folder, continuous_dir):
        try:
            told.append(f"{source.name}: {_restored_aside(data_dir / 'drill.db', source)}")
        except EdgeError as error:
            faults.append(f"{source.name}: {error}")
    if not told and not faults:
        faults.append(f"there is no backup in {backup_folder}")
    report = Report(clock.now(), not faults, "; ".join(faults + told))
    _keep(data_dir, report)
    return report


def _sources(backup_folder: Path, continuous_dir: Path | None) -> Iterator[_Source]:
    backup = newest_backup(backup_folder)
    if backup is not None:
        yield _Source(backup.path.name, partial(archives.unpack, backup.path), None)
    if continuous_dir is not None:
        newest = newest_scan()
        at_least = newest - FOLLOWS_WITHIN if newest is not None else None
        yield _Source("the continuous backup", partial(continuous_backup.restore_point, continuous_dir), at_least)


def last(data_dir: Path) -> Report | None:
    """None when there was none yet, or what is there cannot be read."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return Report(**json.loads((data_dir / FILE_NAME).read_text("utf-8")))
    return None


def _restored_aside(scratch: Path, source: _Source) -> str:
    """What came back. Raises Corrupt or SetupError when it is not what it should be."""
    try:
        _remove(scratch)
        source.bring(scratch)
        facts = inspect_copy(scratch)
        _compare(count_rows(scratch, NEVER_REMOVED), facts.newest_scan_at, source.newest_at_least)
    finally:
        _remove(scratch)
    return f"{facts.organizations} organizations, {facts.assets} assets, newest scan {_told(facts.newest_scan_at)}"


def _compare(copied: Mapping[str, int], newest: int | None, newest_at_least: int | None) -> None:
    """The live rows are counted after the copy was made, since the service goes on."""
    live = count_live(NEVER_REMOVED)
    for table, count in copied.items():
        if count > live[table]:
            raise Corrupt(f"it has {count} rows of {table} and the live database {live[table]}: is it of this box?")
    if newest_at_least is not None and (newest is None or newest < newest_at_least):
        raise Corrupt(f"its newest scan is {_told(newest)}, which is late: edge doctor says why")


def _told(moment: int | None) -> str:
    return clock.rfc3339(moment) if moment is not None else "none"


def _remove(scratch: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        scratch.with_name(scratch.name + suffix).unlink(missing_ok=True)


def _keep(data_dir: Path, report: Report) -> None:
    replace_text(data_dir / FILE_NAME, json.dumps(report._asdict()))
