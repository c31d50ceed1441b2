"""Warnings left as files by programs outside the service; each stays until somebody deletes its file."""

from __future__ import annotations

from pathlib import Path

from edge.ops.health import Check


def persisted_warnings(data_dir: Path) -> Check:
    folder = data_dir / "warnings"
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    texts = [file.read_text("utf-8", "replace").strip()[:500] for file in files]
    return Check("warnings", not texts, f"{' | '.join(texts)} ({folder})" if texts else "none")
