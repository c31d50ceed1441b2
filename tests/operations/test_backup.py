"""Backups: making, rotation and restore."""

import errno
import gzip
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute
from edge.database.ids import new_ids
from edge.errors import Corrupt, SetupError, Unavailable
from edge.operations import backup
from edge.operations.backup import (
    Rotation,
    SecondFolder,
    check_backup,
    list_backups,
    make_backup,
    restore_backup,
    times_to_keep,
)
from edge.operations.encryption import new_key
from edge.people.organizations import add_organization, list_organizations

KEPT = Rotation(daily=7, weekly=8)


def names() -> list[str]:
    return [row.name for row in list_organizations()]


def test_a_restore_brings_the_backup_and_keeps_the_present_database(site: Path) -> None:
    made = make_backup(site, site / "backups", KEPT)
    add_organization(shell(), "Later")
    close_database()
    restored = restore_backup(shell(), made.backup.path, site)
    migrate.migrate(site)
    assert names() == ["Acme"]
    restored_by = execute("SELECT action, actor_kind, detail FROM audit ORDER BY no DESC").fetchone()
    assert restored_by == ("box.restored", "shell", f'{{"from":"{made.backup.path.name}"}}')
    assert restored.previous_database is not None
    close_database()
    restored.previous_database.rename(site / FILE_NAME)
    migrate.migrate(site)
    assert names() == ["Acme", "Later"]


def test_a_backup_can_be_restored_on_another_box(site: Path, tmp_path: Path) -> None:
    made = make_backup(site, site / "backups", KEPT)
    close_database()
    assert restore_backup(shell(), made.backup.path, tmp_path / "other").previous_database is None
    migrate.migrate(tmp_path / "other")
    assert names() == ["Acme"]
    assert (tmp_path / "other" / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_ids_given_out_after_the_backup_are_never_given_out_again(site: Path) -> None:
    made = make_backup(site, site / "backups", KEPT)
    later = set(new_ids(5000))
    close_database()
    restore_backup(shell(), made.backup.path, site)
    migrate.migrate(site)
    assert not later & set(new_ids(5000))
    again = make_backup(site, site / "backups", KEPT)
    later = set(new_ids(5000))
    close_database()
    (site / FILE_NAME).write_bytes(b"not a database any more" * 1000)
    restore_backup(shell(), again.backup.path, site)
    migrate.migrate(site)
    assert not later & set(new_ids(5000))


def test_a_backup_taken_while_scans_are_written_is_whole(site: Path) -> None:
    stop, written = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            written.append(add_organization(shell(), f"org {len(written)}"))
        close_database()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(written) < 20:
            stop.wait(0.001)
        known = len(written)
        made = make_backup(site, site / "backups", KEPT)
    finally:
        stop.set()
        writer.join()
    assert made.summary.organizations >= known
    assert check_backup(made.backup.path, site).organizations == made.summary.organizations


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", Corrupt),
        (b"hello", Corrupt),
        (gzip.compress(b"SQLite format 3\0" + bytes(5000)), Corrupt),
        (b"\x1f\x8b garbage", Corrupt),
    ],
    ids=["empty", "text", "half a database", "half an archive"],
)
def test_a_file_that_is_no_backup_changes_nothing(site: Path, content: bytes, error: type[Exception]) -> None:
    close_database()
    before = sorted(path.name for path in site.iterdir())
    file = site.parent / "edge-20260101T000000Z.db.gz"
    file.write_bytes(content)
    with pytest.raises(error):
        restore_backup(shell(), file, site)
    assert sorted(path.name for path in site.iterdir()) == before


def test_a_backup_cut_short_or_with_a_flipped_bit_is_refused(site: Path) -> None:
    path = make_backup(site, site / "backups", KEPT).backup.path
    close_database()
    whole = path.read_bytes()
    for damaged in (whole[:-20], whole[: len(whole) // 2], whole[:900] + bytes([whole[900] ^ 1]) + whole[901:]):
        path.write_bytes(damaged)
        with pytest.raises(Corrupt):
            restore_backup(shell(), path, site)
    with pytest.raises(SetupError):
        restore_backup(shell(), path.with_name("nothing-here.db.gz"), site)


def test_a_backup_of_a_newer_version_is_refused(site: Path) -> None:
    execute("PRAGMA user_version = 99")
    with pytest.raises(Corrupt, match="schema 99"):
        make_backup(site, site / "backups", KEPT)
    assert list_backups(site / "backups") == []


def test_a_full_disk_prevents_the_start_of_a_backup(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(Unavailable, match="free disk space"):
        make_backup(site, site / "backups", KEPT)
    assert list((site / "backups").iterdir()) == []


def test_a_second_disk_gets_a_copy_and_a_missing_one_is_reported(site: Path, tmp_path: Path) -> None:
    stick = tmp_path / "stick"
    missing = make_backup(site, site / "backups", KEPT, SecondFolder(stick))
    assert missing.second_fault is not None
    assert "plugged in" in missing.second_fault
    assert not stick.exists()
    stick.mkdir()
    made = make_backup(site, site / "backups", KEPT, SecondFolder(stick))
    assert made.second_fault is None
    assert check_backup(list_backups(stick)[0].path, tmp_path) == made.summary


def test_rotation_keeps_days_and_weeks(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = clock.to_micros(datetime(2026, 1, 1, 2, tzinfo=UTC))
    for day in range(19):
        monkeypatch.setattr(clock, "now", lambda day=day: start + day * clock.DAY)
        make_backup(site, site / "backups", Rotation(daily=3, weekly=2))
    assert [f"{kept.made_at:%m-%d}" for kept in list_backups(site / "backups")] == ["01-19", "01-18", "01-17"]


def days_of_backups(
    site: Path, monkeypatch: pytest.MonkeyPatch, days: range, second: SecondFolder | None = None
) -> list[Path]:
    """Make a backup on each of these days. Rotation by age would keep the newest only."""
    start, made = clock.to_micros(datetime(2026, 1, 1, 2, tzinfo=UTC)), []
    for day in days:
        monkeypatch.setattr(clock, "now", lambda day=day: start + day * clock.DAY)
        made.append(make_backup(site, site / "backups", Rotation(1, 0), second).backup.path)
    return made


def test_a_pinned_backup_is_kept_until_it_is_released(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade depends on it, so rotation must not replace it with a newer backup of the same day."""
    (pinned,) = days_of_backups(site, monkeypatch, range(1))
    pin = pinned.with_name(f"{pinned.name}.pinned")
    pin.touch()
    *_, newest = days_of_backups(site, monkeypatch, range(1, 4))
    assert [kept.path for kept in list_backups(site / "backups")] == [newest, pinned]
    pin.unlink()
    *_, newest = days_of_backups(site, monkeypatch, range(4, 5))
    assert [kept.path for kept in list_backups(site / "backups")] == [newest]


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_the_newest_backup_from_before_a_migration_is_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_encrypted: bool
) -> None:
    site, stick = tmp_path / "data", tmp_path / "stick"
    site.mkdir()
    stick.mkdir()
    second = SecondFolder(stick, new_key()[1] if is_encrypted else "")
    steps = migrate._steps()
    with monkeypatch.context() as before:
        before.setattr(migrate, "_steps", lambda: steps[:-1])
        migrate.migrate(site)
        old = days_of_backups(site, monkeypatch, range(2), second)
    migrate.migrate(site)
    new = days_of_backups(site, monkeypatch, range(2, 6), second)
    close_database()
    assert [kept.path for kept in list_backups(site / "backups")] == [new[-1], old[-1]]
    assert {kept.made_at for kept in list_backups(stick)} == {kept.made_at for kept in list_backups(site / "backups")}


@pytest.mark.parametrize("with_second", [False, True])
def test_a_backup_made_after_the_clock_was_set_back_is_kept(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_second: bool
) -> None:
    """It looks like the oldest backup, but it is the only one with today's data."""
    stick = tmp_path / "stick"
    stick.mkdir()
    second, now = SecondFolder(stick) if with_second else None, clock.now()
    for day in (1, 2, 3, -30):
        monkeypatch.setattr(clock, "now", lambda day=day: now + day * clock.DAY)
        made = make_backup(site, site / "backups", Rotation(daily=2, weekly=1), second)
    for folder in (site / "backups", stick) if with_second else (site / "backups",):
        assert made.backup.path.name in [kept.path.name for kept in list_backups(folder)]
        assert len(list_backups(folder)) == 3


class Disk:
    """Log of the files and folders that were synced, renamed and removed, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, str]] = []
        sync, replace, unlink = os.fsync, Path.replace, Path.unlink

        def fsync(descriptor: int) -> None:
            self.steps.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
            sync(descriptor)

        def renamed(path: Path, target: Path) -> Path:
            self.steps.append(("rename", target.name))
            return replace(path, target)

        def unlinked(path: Path, missing_ok: bool = False) -> None:
            if path.exists():
                self.steps.append(("remove", path.name))
            unlink(path, missing_ok)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Path, "replace", renamed)
        monkeypatch.setattr(Path, "unlink", unlinked)

    def order(self, *steps: tuple[str, str]) -> list[int]:
        """Return the positions of these steps in the log."""
        return [self.steps.index(step) for step in steps]


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_backup_is_on_the_disk_before_an_older_one_goes(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_encrypted: bool
) -> None:
    """A power cut at any moment leaves a complete backup in both folders."""
    stick, now = tmp_path / "stick", clock.now()
    stick.mkdir()
    second = SecondFolder(stick, new_key()[1] if is_encrypted else "")
    old = make_backup(site, site / "backups", Rotation(1, 0), second).backup.path.name
    monkeypatch.setattr(clock, "now", lambda: now + clock.DAY)
    disk = Disk(monkeypatch)
    made = make_backup(site, site / "backups", Rotation(1, 0), second)
    new, suffix = made.backup.path.name, ".age" if is_encrypted else ""
    assert made.second_fault is None
    first = disk.order(("sync", new.replace(".gz", ".gz.tmp")), ("rename", new), ("sync", "backups"), ("remove", old))
    assert first == sorted(first)
    copied = disk.order(
        ("sync", f"{new}{suffix}.tmp"), ("rename", f"{new}{suffix}"), ("sync", "stick"), ("remove", f"{old}{suffix}")
    )
    if not is_encrypted:  # both folders use the same names: the first removal is in the first folder
        copied[1] = len(disk.steps) - 1 - disk.steps[::-1].index(("rename", new))
        copied[3] = len(disk.steps) - 1 - disk.steps[::-1].index(("remove", old))
    assert copied == sorted(copied)


def test_a_second_folder_that_cannot_be_synced_gets_its_copy_all_the_same(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems cannot sync folders."""
    stick, sync = tmp_path / "stick", os.fsync
    stick.mkdir()

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == stick:
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert make_backup(site, site / "backups", KEPT, SecondFolder(stick)).second_fault is None
    assert len(list_backups(stick)) == 1


def test_what_is_restored_is_on_the_disk_before_it_takes_the_place(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_backup(site, site / "backups", KEPT)
    close_database()
    disk = Disk(monkeypatch)
    restore_backup(shell(), made.backup.path, site)
    order = disk.order(("sync", f"{FILE_NAME}.restore"), ("rename", FILE_NAME), ("sync", site.name))
    assert order == sorted(order)


moments = st.sets(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)))


@given(moments, st.integers(1, 10), st.integers(0, 10))
def test_what_is_kept(times: set[datetime], daily: int, weekly: int) -> None:
    keep = times_to_keep(times, Rotation(daily, weekly))
    assert keep <= times
    assert len(keep) <= daily + weekly
    assert not times or max(times) in keep
    assert times_to_keep(keep, Rotation(daily, weekly)) == keep  # idempotent
    later = max(times, default=datetime(2020, 1, 1, tzinfo=UTC)) + timedelta(hours=1)
    assert len(times_to_keep({*keep, later}, Rotation(daily, weekly))) >= min(len(keep), daily)
