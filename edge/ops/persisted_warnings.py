"""Warnings that something outside the service left behind, as files: they stand until somebody removes them."""

from __future__ import annotations

from pathlib import Path

from edge.ops.health import Check


def persisted_warnings(data_dir: Path) -> Check:
    folder = data_dir / "warnings"
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    texts = [file.read_text("utf-8", "replace").strip()[:500] for file in files]
    return Check("warnings", not texts, f"{' | '.join(texts)} ({folder})" if texts else "none")
