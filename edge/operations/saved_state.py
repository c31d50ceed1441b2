"""State in memory that a restart must not lose, in files of the data directory: usage of quotas, and sign-ins."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from edge import clock
from edge.audit import quotas
from edge.operations.files import replace_text
from edge.readers import sign_ins

FILE_NAME = "quotas"
SIGN_INS_FILE = "sign-ins"
_DAMAGED = (OSError, ValueError, TypeError, AttributeError, KeyError)


def save(data_dir: Path) -> None:
    """Save the usage and the sign-ins. Nothing is written while nobody has used a quota or signed in."""
    usage = quotas.usage()
    _save(data_dir / FILE_NAME, {"at": clock.now(), "usage": usage} if any(usage.values()) else None)
    _save(data_dir / SIGN_INS_FILE, sign_ins.SIGN_INS.saved())


def _save(file: Path, content: object) -> None:
    if content:
        replace_text(file, json.dumps(content))
    else:
        file.unlink(missing_ok=True)


def load(data_dir: Path) -> None:
    """Restore what was saved. A missing or damaged file counts as empty."""
    with suppress(*_DAMAGED):
        saved = json.loads((data_dir / FILE_NAME).read_text("utf-8"))
        seconds = max(0, clock.now() - int(saved["at"])) / clock.SECOND
        usage = {kind: {key: float(left) for key, left in levels.items()} for kind, levels in saved["usage"].items()}
        quotas.restore_usage(usage, seconds)
    with suppress(*_DAMAGED):
        sign_ins.SIGN_INS.restore(json.loads((data_dir / SIGN_INS_FILE).read_text("utf-8")))
