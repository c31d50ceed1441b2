"""Backups excluded from rotation: pinned ones, and the newest from before each migration."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edge.operations.snapshots import schema_of_header

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
