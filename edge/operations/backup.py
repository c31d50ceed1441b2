"""Backups: a copy of the running database, checked, compressed, kept by day and by week, and brought back."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.database.connection import FILE_NAME
from edge.database.instance import sync_folder
from edge.database.repair import Recovered, recover
from edge.errors import Corrupt, SetupError, Unavailable
from edge.operations import archives, continuous_backup, kept_backups
from edge.operations.snapshots import CopyFacts, copy_database, inspect_copy, move_ids_forward, note_origin

_NAME = re.compile(r"edge-(\d{8}T\d{6}Z)\.db\.gz(\.age)?")
_TIME = "%Y%m%dT%H%M%SZ"


class Backup(NamedTuple):
    path: Path
    made_at: datetime
    size: int


class Kept(NamedTuple):
    """For how many days, and how many weeks, the newest backup is kept."""

    daily: int
    weekly: int


class Second(NamedTuple):
    """A folder on another disk for a copy of each backup; with a recipient (age1…) only its owner can read them."""

    folder: Path
    recipient: str = ""


class Result(NamedTuple):
    backup: Backup
    facts: CopyFacts
    removed: list[Path]
    second: Second | None
    second_fault: str | None


class Restored(NamedTuple):
    facts: CopyFacts
    kept_aside: Path | None


class Repaired(NamedTuple):
    """`backup` names the one that filled the gaps; `unusable` says of newer ones why they could not."""

    facts: CopyFacts
    recovered: Recovered
    kept_aside: Path | None
    backup: str | None
    unusable: list[str]


def make_backup(data_dir: Path, folder: Path, kept: Kept, second: Second | None = None) -> Result:
    """The store must be open. A second folder that fails (a USB drive pulled out) is reported, and the backup is kept.

    Raises Unavailable when there is no room, Corrupt when the copy is not sound; older backups stay then.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_room(data_dir, folder)
    path = folder / f"edge-{clock.to_datetime(clock.now()):{_TIME}}.db.gz"
    raw, packed = path.with_suffix(".tmp"), path.with_suffix(".gz.tmp")
    try:
        copy_database(raw)
        facts = inspect_copy(raw)
        archives.pack(raw, packed)
        packed.replace(path)
        sync_folder(folder)
    finally:
        for leftover in (raw, packed):
            leftover.unlink(missing_ok=True)
    removed = rotate(folder, kept, path.name)
    fault = _copy_to_second(path, second, kept) if second else None
    return Result(_backup(path), facts, removed, second, fault)


def list_backups(folder: Path) -> list[Backup]:
    """Newest first. Other files in the folder are ignored."""
    if not folder.is_dir():
        return []
    found = [_backup(path) for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda backup: backup.made_at, reverse=True)


def newest_backup(folder: Path) -> Backup | None:
    """The last one made; one that is dated in the future was made while the clock was wrong, and comes last."""
    now = clock.to_datetime(clock.now())
    backups = list_backups(folder)
    return next((backup for backup in backups if backup.made_at <= now), next(iter(backups), None))


def rotate(folder: Path, kept: Kept, just_made: str = "", also: Collection[datetime] = ()) -> list[Path]:
    """Remove the backups that are too old to be kept, except those made at the times in `also`.

    What was just made stays, even if the clock has gone back and it looks like the oldest.
    """
    backups = list_backups(folder)
    paths = [backup.path for backup in backups]
    keep = to_keep([backup.made_at for backup in backups], kept) | set(also)
    needed = kept_backups.pinned(paths) | kept_backups.before_migrations(paths)
    gone = [
        backup.path
        for backup in backups
        if backup.made_at not in keep and backup.path not in needed and backup.path.name != just_made
    ]
    for path in gone:
        path.unlink()
    return gone


def to_keep(times: Iterable[datetime], kept: Kept) -> set[datetime]:
    """The newest of each of the last days and weeks that have one.

    Days without a backup do not count, so that a box that was off, or whose clock jumped, keeps what it has.
    """
    by_day: dict[str, datetime] = {}
    by_week: dict[str, datetime] = {}
    for moment in sorted(times, reverse=True):
        by_day.setdefault(f"{moment:%Y-%m-%d}", moment)
        by_week.setdefault(f"{moment:%G-%V}", moment)
    return {*list(by_day.values())[: kept.daily], *list(by_week.values())[: kept.weekly]}


def restore_backup(actor: Actor, file: Path, data_dir: Path, identity: Path | None = None) -> Restored:
    """Make a backup the database of this box; the service must not run. The present database is kept aside.

    `identity` holds the private key of an encrypted one. Raises SetupError when file or key cannot be read, Corrupt
    when it is not sound, Unavailable without room: nothing is changed then.
    """
    return restore_from(actor, data_dir, file.name, lambda fresh: archives.unpack(file, fresh, identity))


def restore_continuous(actor: Actor, folder: Path, data_dir: Path, at: int | None = None) -> Restored:
    """Make the newest point of the continuous backup the database, or the one of a moment. Raises as restore_backup."""
    origin = "the continuous backup" if at is None else f"the continuous backup of {clock.rfc3339(at)}"
    return restore_from(actor, data_dir, origin, lambda fresh: continuous_backup.restore_point(folder, fresh, at))


def restore_from(actor: Actor, data_dir: Path, origin: str, bring: Callable[[Path], None]) -> Restored:
    """Make the file that `bring` writes the database of this box, once it is known to be sound."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    present, fresh = data_dir / FILE_NAME, data_dir / f"{FILE_NAME}.restore"
    try:
        fresh.unlink(missing_ok=True)  # of an attempt that was cut off
        bring(fresh)
        facts = inspect_copy(fresh)
        move_ids_forward(fresh, present)
        note_origin(actor, fresh, "box.restored", origin)
        return Restored(facts, _replace_database(present, fresh))
    finally:
        fresh.unlink(missing_ok=True)


def repair_database(
    actor: Actor, data_dir: Path, folders: Iterable[Path], continuous_dir: Path | None = None
) -> Repaired:
    """Make what can be recovered of the database the database; the service must not run. The damaged one is kept aside.

    What is on damaged pages comes from the newest sound backup in `folders`, or from the continuous backup. Raises
    Corrupt if nothing can be recovered, Unavailable without room: nothing is changed then.
    """
    present, fresh = data_dir / FILE_NAME, data_dir / f"{FILE_NAME}.repair"
    copy = data_dir / f"{FILE_NAME}.repair-backup"
    _check_room(data_dir, data_dir)
    try:
        fresh.unlink(missing_ok=True)
        origin, unusable = _unpack_newest(copy, folders, continuous_dir)
        recovered = recover(present, fresh, copy if origin else None)
        facts = inspect_copy(fresh)
        move_ids_forward(fresh, present)
        note_origin(actor, fresh, "box.repaired", f"the damaged database and {origin or 'no backup'}")
        return Repaired(facts, recovered, _replace_database(present, fresh), origin, unusable)
    finally:
        fresh.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)


def _unpack_newest(copy: Path, folders: Iterable[Path], continuous_dir: Path | None) -> tuple[str | None, list[str]]:
    """Put the newest sound backup at `copy`. Returns its name, or None, and what is wrong with newer ones."""
    unusable = []
    for origin, bring in _copies(folders, continuous_dir):
        copy.unlink(missing_ok=True)
        try:
            bring(copy)
            inspect_copy(copy)
        except (Corrupt, SetupError) as error:
            unusable.append(f"{origin}: {error}")
        else:
            return origin, unusable
    return None, unusable


def _copies(folders: Iterable[Path], continuous_dir: Path | None) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """All backups, newest first, each with the function that unpacks it."""
    if continuous_dir and continuous_backup.folders(continuous_dir):
        yield "the continuous backup", partial(continuous_backup.restore_point, continuous_dir)
    now = clock.to_datetime(clock.now())
    backups = [backup for folder in folders for backup in list_backups(folder)]
    for backup in sorted(backups, key=lambda backup: (backup.made_at <= now, backup.made_at), reverse=True):
        yield f"the backup of {backup.made_at:%Y-%m-%d %H:%M} UTC", partial(archives.unpack, backup.path)


def _replace_database(present: Path, fresh: Path) -> Path | None:
    """Returns where the previous database is now."""
    _sync(fresh)
    continuous_backup.forget_state(present.parent)
    aside = _move_aside(present)
    fresh.replace(present)
    sync_folder(present.parent)
    return aside


def check_backup(path: Path, scratch_dir: Path) -> CopyFacts:
    """Unpack a backup and read all of it. Raises Corrupt or SetupError."""
    scratch = scratch_dir / f"{path.name}.check"
    try:
        scratch.unlink(missing_ok=True)
        archives.unpack(path, scratch)
        return inspect_copy(scratch)
    finally:
        scratch.unlink(missing_ok=True)


def _backup(path: Path) -> Backup:
    found = _NAME.fullmatch(path.name)
    if not found:
        raise ValueError(f"{path} is not named like a backup")
    return Backup(path, datetime.strptime(found[1], _TIME).replace(tzinfo=UTC), path.stat().st_size)


def _check_room(data_dir: Path, folder: Path) -> None:
    """The copy, and beside it the packed one, which is smaller."""
    needed = 2 * sum(
        file.stat().st_size for file in data_dir.glob(f"{FILE_NAME}*") if file.suffix in (".db", ".db-wal")
    )
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Unavailable(f"{folder} has {free >> 20} MB free and a backup needs {needed >> 20} MB; make room first")


def _move_aside(present: Path) -> Path | None:
    """The database first and its WAL after it: a WAL that is left behind would be played into the next database."""
    aside = present.with_name(f"{present.name}.before-{clock.to_datetime(clock.now()):{_TIME}}")
    moved = False
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            present.with_name(present.name + suffix).rename(aside.with_name(aside.name + suffix))
            moved = True
    return aside if moved else None


def _copy_to_second(path: Path, second: Second, kept: Kept) -> str | None:
    """What went wrong, or None. The folder is not made: with the drive unplugged it would land on the first disk."""
    name = f"{path.name}.age" if second.recipient else path.name
    unfinished = second.folder / f"{name}.tmp"
    try:
        if not second.folder.is_dir():
            raise FileNotFoundError(f"{second.folder} is not there; is the disk plugged in and mounted?")
        if second.recipient:
            archives.encrypt(path, unfinished, second.recipient)
        else:
            shutil.copyfile(path, unfinished)
        _sync(unfinished)
        unfinished.replace(second.folder / name)
        sync_folder(second.folder)
        # The schema of an encrypted copy cannot be read: whatever stays in the first folder stays here.
        rotate(second.folder, kept, name, {backup.made_at for backup in list_backups(path.parent)})
    except (OSError, SetupError) as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return str(error)
    return None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
