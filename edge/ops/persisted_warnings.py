"""Warnings left as files by programs outside the service; each stays until its file is gone."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from edge.ops.health import Check

OF_HTTPS = Path("/run/edge-https/warnings")  # written and removed by systemd/edge-https
_MOST, _LENGTH = 20, 500  # warnings, and characters of each


def persisted_warnings(data_dir: Path, of_https: Path = OF_HTTPS) -> Check:
    """The warnings in the data directory, which somebody deletes once they are read, and those of edge-https."""
    folders = [folder for folder in (data_dir / "warnings", of_https) if folder.is_dir()]
    files = list(chain.from_iterable(sorted(folder.iterdir())[:_MOST] for folder in folders))
    texts = [f"{file.read_text('utf-8', 'replace').strip()[:_LENGTH]} ({file})" for file in files]
    return Check("warnings", not texts, " | ".join(texts) or "none")
