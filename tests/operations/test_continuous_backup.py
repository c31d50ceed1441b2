"""Continuous backup with the real Litestream. /dev/shm, a separate file system, stands for another drive."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database
from edge.errors import SetupError
from edge.operations import continuous_backup
from edge.operations.backup import Rotation, make_backup, restore_continuous
from edge.operations.continuous_backup import ContinuousBackup
from edge.people.organizations import add_organization, list_organizations
from tests.service import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def drive() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def following(site: Path, drive: Path) -> Iterator[ContinuousBackup]:
    backup = ContinuousBackup(site, drive)
    backup.start()
    try:
        yield backup
    finally:
        backup.stop()


def wait_until_copied(backup: ContinuousBackup, site: Path, name: str, drive: Path, folder: Path) -> None:
    """Wait until the copy on the drive has an organization of that name."""

    def is_there() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            restore_continuous(shell(), drive, folder)
        except SetupError:
            return False
        return name.encode() in (folder / "edge.db").read_bytes()

    wait_for(is_there, 30, lambda: backup.check().detail)


def names() -> list[str]:
    return [row.name for row in list_organizations()]


def test_the_newest_point_and_any_moment_come_back(site: Path, drive: Path, tmp_path: Path) -> None:
    with following(site, drive) as backup:
        wait_until_copied(backup, site, "Acme", drive, tmp_path / "look")
        between = clock.now()
        add_organization(shell(), "Later")
        wait_until_copied(backup, site, "Later", drive, tmp_path / "look")
        wait_for(lambda: backup.check().ok, 20, lambda: backup.check().detail)
    close_database()
    restored = restore_continuous(shell(), drive, site, between)
    migrate.migrate(site)
    assert names() == ["Acme"]
    assert restored.previous_database is not None
    close_database()
    restore_continuous(shell(), drive, site)
    migrate.migrate(site)
    assert names() == ["Acme", "Later"]


def test_after_a_restore_a_new_history_is_begun_and_the_one_before_stays(
    site: Path, drive: Path, tmp_path: Path
) -> None:
    with following(site, drive) as backup:
        wait_until_copied(backup, site, "Acme", drive, tmp_path / "look")
    close_database()
    restore_continuous(shell(), drive, site)
    migrate.migrate(site)
    add_organization(shell(), "Second life")
    with following(site, drive) as backup:
        wait_until_copied(backup, site, "Second life", drive, tmp_path / "look")
    assert len(continuous_backup.folders(drive)) == 2


def test_a_missing_drive_is_reported_and_used_once_it_is_back(
    site: Path, drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuous_backup, "LOOK_SECONDS", 0.1)
    drive.rmdir()
    with following(site, drive) as backup:
        wait_for(lambda: "does not exist" in backup.check().detail, 10)
        drive.mkdir()
        wait_until_copied(backup, site, "Acme", drive, tmp_path / "look")
        shutil.rmtree(drive)
        wait_for(lambda: "does not exist" in backup.check().detail, 10)
        values = {metric.name: metric.samples[0].value for metric in backup.sample()}
        assert values["edge_continuous_backup_ok"] == 0
        assert names() == ["Acme"]  # the service keeps running


def test_a_nightly_backup_of_a_database_that_is_followed_can_be_restored(
    site: Path, drive: Path, tmp_path: Path
) -> None:
    with following(site, drive) as backup:
        wait_until_copied(backup, site, "Acme", drive, tmp_path / "look")
        assert make_backup(site, site / "backups", Rotation(7, 8)).summary.organizations == 1


def test_a_moment_before_the_first_is_refused_with_how_far_it_goes_back(
    site: Path, drive: Path, tmp_path: Path
) -> None:
    with following(site, drive) as backup:
        wait_until_copied(backup, site, "Acme", drive, tmp_path / "look")
    close_database()
    with pytest.raises(SetupError, match="it goes back to 20"):
        restore_continuous(shell(), drive, site, clock.now() - clock.DAY)
    migrate.migrate(site)
    assert names() == ["Acme"]


def test_unusable_drives_are_reported(site: Path, drive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert continuous_backup.drive_fault(drive, site) is None
    assert "same disk" in str(continuous_backup.drive_fault(site, site))
    with monkeypatch.context() as patch:
        usage = shutil.disk_usage(drive)
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
        assert "is full" in str(continuous_backup.drive_fault(drive, site))
    before = os.statvfs(drive)
    monkeypatch.setattr(
        os, "statvfs", lambda _: os.statvfs_result([*before[:8], before.f_flag | os.ST_RDONLY, before[9]])
    )
    assert "is read-only" in str(continuous_backup.drive_fault(drive, site))


def test_a_copy_that_fails_pushes_out_none_that_worked(
    site: Path, drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with following(site, drive) as backup:
        wait_until_copied(backup, site, "Acme", drive, tmp_path / "look")
    continuous_backup.forget_state(site)
    broken = tmp_path / "litestream"
    broken.write_text("#!/bin/sh\necho x >>" + str(tmp_path / "starts") + "\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(continuous_backup, "program", lambda: broken)
    monkeypatch.setattr(continuous_backup, "LOOK_SECONDS", 0.02)
    with following(site, drive):
        wait_for(lambda: (tmp_path / "starts").exists() and (tmp_path / "starts").read_text().count("x") > 5, 20)
    assert len(continuous_backup.folders(drive)) == 2


@pytest.mark.parametrize("damaged", ["", "{", "{}", '{"dbs": []}'])
def test_a_damaged_file_of_settings_begins_a_new_copy(
    site: Path, drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    """A power cut can leave the state of Litestream without its target."""
    (site / f".{FILE_NAME}-litestream").mkdir()
    (site / continuous_backup.SETTINGS).write_text(damaged)
    patient = tmp_path / "litestream"
    patient.write_text("#!/bin/sh\nexec sleep 60\n")
    patient.chmod(0o755)
    monkeypatch.setattr(continuous_backup, "program", lambda: patient)
    with following(site, drive):
        wait_for(lambda: len(continuous_backup.folders(drive)) == 1, 10)
