"""Health report of this box for its hub. Rounded, so that it changes rarely."""

from __future__ import annotations

import shutil
from collections.abc import Callable
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
        _known(lambda: (newest := newest_backup(backup_dir)) and int(newest.made_at.timestamp())),
        _known(lambda: _rounded(shutil.disk_usage(data_dir).free >> 20)),
        _rounded(status.reads_per_minute(organization_id)),
    )


def _known(read: Callable[[], int | None]) -> int | None:
    try:
        return read()
    except OSError:
        return None


def _rounded(number: int) -> int:
    """Round down to two digits."""
    scale: int = 10 ** max(len(str(number)) - 2, 0)
    return number // scale * scale
