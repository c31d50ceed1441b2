"""What the Status page tells of the box, handed in by whoever knows its settings and its disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from edge.pages.installation import installation
from edge.recent_log import LogLine


class BackupFile(NamedTuple):
    path: Path
    made_at: int
    size: int


class SettingInForce(NamedTuple):
    """`value` as text; no setting that is a secret is among them."""

    name: str
    value: str
    help: str
    is_default: bool


class BoxFacts(NamedTuple):
    backups: Callable[[], Sequence[BackupFile]] = list
    settings: Sequence[SettingInForce] = ()
    log_lines: Callable[[], Sequence[LogLine]] = list
    is_upgrading: Callable[[], bool] = lambda: False
    started_at: int = 0


NONE = BoxFacts()


def facts() -> BoxFacts:
    return installation().box
