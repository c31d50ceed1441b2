"""Usage of quotas across restarts, in a file of the data directory. A restart must not refill a quota."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from edge import clock
from edge.audit import quotas
from edge.operations.files import replace_text

FILE_NAME = "quotas"


def save(data_dir: Path) -> None:
    """Save the usage. Nothing is written while nobody has used a quota."""
    usage = quotas.usage()
    file = data_dir / FILE_NAME
    if any(usage.values()):
        replace_text(file, json.dumps({"at": clock.now(), "usage": usage}))
    else:
        file.unlink(missing_ok=True)


def load(data_dir: Path) -> None:
    """Restore the usage. A missing or damaged file counts as no usage."""
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        saved = json.loads((data_dir / FILE_NAME).read_text("utf-8"))
        seconds = max(0, clock.now() - int(saved["at"])) / clock.SECOND
        usage = {kind: {key: float(left) for key, left in levels.items()} for kind, levels in saved["usage"].items()}
        quotas.restore_usage(usage, seconds)
