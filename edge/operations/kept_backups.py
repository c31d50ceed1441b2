"""Backups that rotation leaves alone whatever their age: pinned ones, and the newest from before each migration."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edge.operations.snapshots import schema_of_header

PIN_SUFFIX = ".pinned"  # systemd/edge-upgrade makes and removes them: a pinned backup has an empty file beside it
_HEADER_BYTES = 100


def pinned(newest_first: Sequence[Path]) -> set[Path]:
    """Backups that an upgrade still depends on."""
    return {path for path in newest_first if path.with_name(path.name + PIN_SUFFIX).exists()}


def before_migrations(newest_first: Sequence[Path]) -> set[Path]:
    """Return the newest backup of each schema but the newest one: nothing else can bring an older release back."""
    by_schema: dict[int, Path] = {}
    for path in newest_first:
        if schema := schema_of_backup(path):
            by_schema.setdefault(schema, path)
    return {path for schema, path in by_schema.items() if schema < max(by_schema)}


def schema_of_backup(path: Path) -> int | None:
    """Read it from the beginning of the file; None for one that is encrypted or damaged."""
    with suppress(OSError, EOFError, zlib.error), gzip.open(path, "rb") as archive:
        return schema_of_header(archive.read(_HEADER_BYTES))
    return None
