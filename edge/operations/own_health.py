"""Health report of this box for its hub. Rounded, so that it changes rarely."""

from __future__ import annotations

import shutil
from pathlib import Path

from edge import __version__, clock
from edge.operations.backup import newest_backup
from edge.operations.doctor import findings
from edge.readers import status
from edge.sync.store.site_health import SiteHealth


def read(data_dir: Path, backup_dir: Path, organization_id: int) -> SiteHealth:
    """Return the present state. What cannot be read is unknown; the doctor reports why."""
    kept = findings.last(data_dir)
    return SiteHealth(
        __version__,
        {check: level for check, level in kept.levels.items() if level},
        kept.at // clock.SECOND if kept.at else None,
        kept.certificate_ends_at,
        _newest_backup(backup_dir),
        _free_megabytes(data_dir),
        _rounded(status.reads_per_minute(organization_id)),
    )


def _newest_backup(folder: Path) -> int | None:
    try:
        newest = newest_backup(folder)
    except OSError:
        return None
    return int(newest.made_at.timestamp()) if newest else None


def _free_megabytes(folder: Path) -> int | None:
    try:
        return _rounded(shutil.disk_usage(folder).free >> 20)
    except OSError:
        return None


def _rounded(number: int) -> int:
    """Round down to two digits."""
    scale: int = 10 ** max(len(str(number)) - 2, 0)
    return number // scale * scale
