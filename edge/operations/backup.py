"""Backups: make, verify, rotate by day and by week, restore, and repair a damaged database from them."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.database.connection import FILE_NAME
from edge.database.instance import sync_folder
from edge.errors import Corrupt, SetupError, Unavailable
from edge.operations import archives, continuous_backup
from edge.operations.snapshots import (
    CopySummary,
    copy_database,
    inspect_copy,
    move_ids_forward,
    note_origin,
    schema_of_header,
)

if TYPE_CHECKING:
    from edge.database.repair import Recovered

_NAME = re.compile(r"edge-(\d{8}T\d{6}Z)\.db\.gz(\.age)?")
_LONGEST_SECONDS = 24 * 3600  # of a backup
_TIME = "%Y%m%dT%H%M%SZ"


class Backup(NamedTuple):
    path: Path
    made_at: datetime
    size: int


class Rotation(NamedTuple):
    """Retention: number of daily and weekly backups."""

    daily: int
    weekly: int


class SecondFolder(NamedTuple):
    """A folder on another disk for a copy of each backup, encrypted if `recipient` (age1…) is set."""

    folder: Path
    recipient: str = ""


class Result(NamedTuple):
    backup: Backup
    summary: CopySummary
    removed: list[Path]
    second: SecondFolder | None
    second_fault: str | None


class Restored(NamedTuple):
    summary: CopySummary
    previous_database: Path | None


class Repaired(NamedTuple):
    """Result of a repair: `backup` names the backup that filled the gaps, `unusable` why newer backups could not."""

    summary: CopySummary
    recovered: Recovered
    previous_database: Path | None
    backup: str | None
    unusable: list[str]


def make_backup(data_dir: Path, folder: Path, rotation: Rotation, second: SecondFolder | None = None) -> Result:
    """Back up the open database to `folder`, then rotate. A failing second folder is reported in the result.

    Raises Unavailable if the disk is too full and Corrupt if the copy is damaged. Older backups are kept then.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_leftovers(folder)
    _check_room(data_dir, folder)
    path = folder / f"edge-{clock.to_datetime(clock.now()):{_TIME}}.db.gz"
    raw, packed = path.with_suffix(".tmp"), path.with_suffix(".gz.tmp")
    try:
        copy_database(raw)
        summary = inspect_copy(raw)
        archives.pack(raw, packed)
        packed.replace(path)
        sync_folder(folder)
    finally:
        for leftover in (raw, packed):
            leftover.unlink(missing_ok=True)
    removed = rotate(folder, rotation, path.name)
    fault = _copy_to_second(path, second, rotation) if second else None
    return Result(_backup(path), summary, removed, second, fault)


def _remove_leftovers(folder: Path) -> None:
    """Remove the files of a killed backup, but not the files of one that may be running."""
    for leftover in folder.glob("edge-*.tmp*"):
        if leftover.stat().st_mtime < clock.now() / clock.SECOND - _LONGEST_SECONDS:
            leftover.unlink(missing_ok=True)


def list_backups(folder: Path) -> list[Backup]:
    """List the backups in a folder, newest first. Other files are ignored."""
    if not folder.is_dir():
        return []
    backups = [_backup(path) for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(backups, key=lambda backup: backup.made_at, reverse=True)


def newest_backup(folder: Path) -> Backup | None:
    """Return the newest backup. Those dated in the future (made with a wrong clock) are only a last resort."""
    now = clock.to_datetime(clock.now())
    backups = list_backups(folder)
    return next((backup for backup in backups if backup.made_at <= now), next(iter(backups), None))


def rotate(folder: Path, rotation: Rotation, just_written: str = "", also: Collection[datetime] = ()) -> list[Path]:
    """Remove and return expired backups, except those made at the times in `also`.

    The backup named `just_made` is kept even if the clock was set back and it looks like the oldest.
    """
    backups = list_backups(folder)
    paths = [backup.path for backup in backups]
    keep = times_to_keep([backup.made_at for backup in backups], rotation) | set(also)
    needed = pinned(paths) | before_migrations(paths)
    gone = [
        backup.path
        for backup in backups
        if backup.made_at not in keep and backup.path not in needed and backup.path.name != just_written
    ]
    for path in gone:
        path.unlink()
    return gone


def times_to_keep(times: Iterable[datetime], rotation: Rotation) -> set[datetime]:
    """Return the newest time of each of the last days and weeks that have a backup.

    Days without a backup do not count: a box that was off, or whose clock jumped, keeps its backups.
    """
    by_day: dict[str, datetime] = {}
    by_week: dict[str, datetime] = {}
    for moment in sorted(times, reverse=True):
        by_day.setdefault(f"{moment:%Y-%m-%d}", moment)
        by_week.setdefault(f"{moment:%G-%V}", moment)
    return {*list(by_day.values())[: rotation.daily], *list(by_week.values())[: rotation.weekly]}


def restore_backup(actor: Actor, file: Path, data_dir: Path, identity: Path | None = None) -> Restored:
    """Replace this box's database with a backup. The service must be stopped. The present database is kept aside.

    `identity` is the file with the private key of an encrypted backup. Raises SetupError if a file cannot be read,
    Corrupt if the backup is damaged, Unavailable if the disk is too full; nothing is changed then.
    """
    return restore_from(actor, data_dir, file.name, lambda fresh: archives.unpack(file, fresh, identity))


def restore_continuous(actor: Actor, folder: Path, data_dir: Path, at: int | None = None) -> Restored:
    """Replace the database with the continuous backup, newest or at a time in µs. Raises as `restore_backup`."""
    origin = "the continuous backup" if at is None else f"the continuous backup of {clock.rfc3339(at)}"
    return restore_from(actor, data_dir, origin, lambda fresh: continuous_backup.restore_point(folder, fresh, at))


def restore_from(actor: Actor, data_dir: Path, origin: str, write_copy: Callable[[Path], None]) -> Restored:
    """Replace this box's database with the file that `bring` writes, after checking it."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    present, fresh = data_dir / FILE_NAME, data_dir / f"{FILE_NAME}.restore"
    try:
        fresh.unlink(missing_ok=True)  # leftover of an interrupted attempt
        write_copy(fresh)
        summary = inspect_copy(fresh)
        move_ids_forward(fresh, present)
        note_origin(actor, fresh, "box.restored", origin)
        return Restored(summary, _replace_database(present, fresh))
    finally:
        fresh.unlink(missing_ok=True)


def repair_database(
    actor: Actor, data_dir: Path, folders: Iterable[Path], continuous_dir: Path | None = None
) -> Repaired:
    """Replace the damaged database with its recoverable rows. The service must be stopped; the old file is kept aside.

    Rows on damaged pages come from the newest sound backup in `folders`, or from the continuous backup. Raises
    Corrupt if nothing can be recovered, Unavailable if the disk is too full; nothing is changed then.
    """
    present, fresh = data_dir / FILE_NAME, data_dir / f"{FILE_NAME}.repair"
    copy = data_dir / f"{FILE_NAME}.repair-backup"
    _check_room(data_dir, data_dir)
    try:
        fresh.unlink(missing_ok=True)
        origin, unusable = _unpack_newest(copy, folders, continuous_dir)
        from edge.database.repair import recover  # only here: most boxes never need it

        recovered = recover(present, fresh, copy if origin else None)
        summary = inspect_copy(fresh)
        move_ids_forward(fresh, present)
        note_origin(actor, fresh, "box.repaired", f"the damaged database and {origin or 'no backup'}")
        return Repaired(summary, recovered, _replace_database(present, fresh), origin, unusable)
    finally:
        fresh.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)


def _unpack_newest(copy: Path, folders: Iterable[Path], continuous_dir: Path | None) -> tuple[str | None, list[str]]:
    """Unpack the newest sound backup to `copy`. Returns its name or None, and the errors of newer ones."""
    unusable = []
    for origin, write_copy in _copies(folders, continuous_dir):
        copy.unlink(missing_ok=True)
        try:
            write_copy(copy)
            inspect_copy(copy)
        except (Corrupt, SetupError) as error:
            unusable.append(f"{origin}: {error}")
        else:
            return origin, unusable
    return None, unusable


def _copies(folders: Iterable[Path], continuous_dir: Path | None) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield the name of each backup and the function that unpacks it, newest first."""
    if continuous_dir and continuous_backup.folders(continuous_dir):
        yield "the continuous backup", partial(continuous_backup.restore_point, continuous_dir)
    now = clock.to_datetime(clock.now())
    backups = [backup for folder in folders for backup in list_backups(folder)]
    for backup in sorted(backups, key=lambda backup: (backup.made_at <= now, backup.made_at), reverse=True):
        yield f"the backup of {backup.made_at:%Y-%m-%d %H:%M} UTC", partial(archives.unpack, backup.path)


def _replace_database(present: Path, fresh: Path) -> Path | None:
    """Swap the database file. Returns the path of the previous one."""
    _sync(fresh)
    continuous_backup.forget_state(present.parent)
    aside = _move_aside(present)
    fresh.replace(present)
    sync_folder(present.parent)
    return aside


def check_backup(path: Path, scratch_dir: Path) -> CopySummary:
    """Unpack a backup into `scratch_dir` and read all of it. Raises Corrupt or SetupError."""
    scratch = scratch_dir / f"{path.name}.check"
    try:
        scratch.unlink(missing_ok=True)
        archives.unpack(path, scratch)
        return inspect_copy(scratch)
    finally:
        scratch.unlink(missing_ok=True)


def _backup(path: Path) -> Backup:
    match = _NAME.fullmatch(path.name)
    if not match:
        raise ValueError(f"{path} does not have the name of a backup")
    return Backup(path, datetime.strptime(match[1], _TIME).replace(tzinfo=UTC), path.stat().st_size)


def _check_room(data_dir: Path, folder: Path) -> None:
    """Raise Unavailable unless `folder` has room for the raw copy and the smaller packed one."""
    needed = 2 * sum(
        file.stat().st_size for file in data_dir.glob(f"{FILE_NAME}*") if file.suffix in (".db", ".db-wal")
    )
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Unavailable(
            f"{folder} has {free >> 20} MB free and a backup needs {needed >> 20} MB; free disk space first"
        )


def _move_aside(present: Path) -> Path | None:
    """Rename the database first, then its WAL: a WAL left behind would be replayed into the next database."""
    aside = present.with_name(f"{present.name}.before-{clock.to_datetime(clock.now()):{_TIME}}")
    is_moved = False
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            present.with_name(present.name + suffix).rename(aside.with_name(aside.name + suffix))
            is_moved = True
    return aside if is_moved else None


def _copy_to_second(path: Path, second: SecondFolder, rotation: Rotation) -> str | None:
    """Copy to the second disk. Returns the error or None. Never creates the folder: it would land on the first disk."""
    name = f"{path.name}.age" if second.recipient else path.name
    unfinished = second.folder / f"{name}.tmp"
    try:
        if not second.folder.is_dir():
            raise FileNotFoundError(f"{second.folder} does not exist; plugged in and mounted? See edge doctor")
        if second.recipient:
            from edge.operations import encryption  # only here: its library stays in memory

            encryption.encrypt(path, unfinished, second.recipient)
        else:
            shutil.copyfile(path, unfinished)
        _sync(unfinished)
        unfinished.replace(second.folder / name)
        sync_folder(second.folder)
        # The schema of an encrypted copy cannot be read, so keep the same backups as the first folder.
        rotate(second.folder, rotation, name, {backup.made_at for backup in list_backups(path.parent)})
    except (OSError, SetupError) as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return str(error)
    return None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


PIN_SUFFIX = ".pinned"  # an empty file next to a pinned backup, made and removed by systemd/edge-upgrade
_HEADER_BYTES = 100


def pinned(newest_first: Sequence[Path]) -> set[Path]:
    """Return the backups that a running upgrade depends on."""
    return {path for path in newest_first if path.with_name(path.name + PIN_SUFFIX).exists()}


def before_migrations(newest_first: Sequence[Path]) -> set[Path]:
    """Return the newest backup of each older schema: the only way back to an older release."""
    by_schema: dict[int, Path] = {}
    for path in newest_first:
        if schema := schema_of_backup(path):
            by_schema.setdefault(schema, path)
    return {path for schema, path in by_schema.items() if schema < max(by_schema)}


def schema_of_backup(path: Path) -> int | None:
    """Return the schema number from the file header, or None if the backup is encrypted or damaged."""
    with suppress(OSError, EOFError, zlib.error), gzip.open(path, "rb") as archive:
        return schema_of_header(archive.read(_HEADER_BYTES))
    return None
