"""Detection of a damaged database, at startup and while the service runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from edge.database.connection import FILE_NAME
from edge.database.integrity import faults_at_start, faults_by_table
from edge.errors import Damaged
from edge.operations.backup import newest_backup
from edge.operations.health import Check
from edge.texts import N_, fill

DAMAGED = N_("the database is damaged: %(fault)s. %(advice)s")
REPAIR = N_("Stop the service, then recover readable data: edge repair")
REPAIR_OR_RESTORE = N_(
    "Stop the service, then recover readable data: edge repair, or restore the newest backup: edge restore %(path)s"
)

log = logging.getLogger(__name__)

START_SECONDS = 2.0
EVERY_SECONDS = 24 * 3600.0
PAUSE_SECONDS = 5.0  # between two tables, to leave a slow disk to ingest


def check_at_start(data_dir: Path, backup_folder: Path) -> None:
    """Raise Damaged if the database file is damaged, before more writes make it worse."""
    file = data_dir / FILE_NAME
    faults = faults_at_start(file, START_SECONDS) if file.exists() else []
    if faults:
        raise Damaged(f"{file} is damaged: {faults[0]}. {repair_advice(backup_folder)}")


def repair_advice(backup_folder: Path) -> str:
    newest = newest_backup(backup_folder)
    return fill(REPAIR_OR_RESTORE, path=newest.path) if newest else fill(REPAIR)


class BackgroundCheck:
    """Reads the whole file once a day, one table at a time. On damage the service keeps running and reports it."""

    def __init__(self, data_dir: Path, backup_folder: Path) -> None:
        self._file = data_dir / FILE_NAME
        self._backup_folder = backup_folder
        self._faults: list[str] = []

    def run(self, pause: Callable[[float], bool]) -> None:
        new_faults: list[str] = []
        for table, faults in faults_by_table(self._file):
            new_faults += [f"{table}: {fault}" for fault in faults]
            if pause(PAUSE_SECONDS):
                return
        if new_faults and not self._faults:
            log.error("The database is damaged: %s. %s", new_faults[0], repair_advice(self._backup_folder))
        self._faults = new_faults

    def check(self) -> Check:
        if not self._faults:
            return Check("integrity", True, N_("no damage found"))
        return Check(
            "integrity", False, fill(DAMAGED, fault=self._faults[0], advice=repair_advice(self._backup_folder))
        )
