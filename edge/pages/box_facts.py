"""What the Status page shows of the box, supplied by the runtime, which knows its settings and its disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.config.changed_settings import ChangedSetting
from edge.errors import NotFound
from edge.logs import LogLine
from edge.pages.installation import installation


class BackupFile(NamedTuple):
    path: Path
    made_at: int
    size: int


class SettingInForce(NamedTuple):
    """Values as texts; no setting that is a secret is among them.

    `words` are all it may be, where it is no free text; `base` is what counts when it is not `changed`.
    """

    name: str
    value: str
    help: str
    is_default: bool
    is_changeable: bool = False
    words: tuple[str, ...] = ()
    counts_at_once: bool = False
    waits_for_restart: bool = False
    base: str = ""
    changed: ChangedSetting | None = None


def _no_setting(*_: object) -> None:
    raise NotFound("No setting can be changed here")


class BoxFacts(NamedTuple):
    backups: Callable[[], Sequence[BackupFile]] = list
    settings: Callable[[], Sequence[SettingInForce]] = list
    change_setting: Callable[[Actor, str, str], None] = _no_setting  # raises Invalid
    reset_setting: Callable[[Actor, str], None] = _no_setting
    log_lines: Callable[[], Sequence[LogLine]] = list
    is_upgrading: Callable[[], bool] = lambda: False
    started_at: int = 0


NONE = BoxFacts()


def facts() -> BoxFacts:
    return installation().box
