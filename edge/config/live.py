"""Settings that can change while the service runs, on a page or in the shell. They are stored in the database.

They override the settings file, the environment and `--set` until they are reset. Addresses, files and secrets cannot
be changed this way, because a mistake would lock administrators out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from edge.audit.actors import Actor
from edge.config import changed_settings
from edge.config.changed_settings import ChangedSetting
from edge.config.settings import SETTINGS, Change, Config
from edge.config.types import choices_of
from edge.errors import Invalid
from edge.texts import N_, fill

log = logging.getLogger(__name__)


CHANGEABLE = {name: item.metadata["change"] for name, item in SETTINGS.items() if item.metadata["change"]}


class SettingState(NamedTuple):
    """A setting and its current value as text. `base` is the value after a reset."""

    name: str
    value: str
    base: str
    default: str
    help: str
    changed: ChangedSetting | None
    change: Change | None
    choices: tuple[str, ...]
    waits_for_restart: bool

    @property
    def is_default(self) -> bool:
        return self.value == self.default

    @property
    def is_changeable(self) -> bool:
        return self.change is not None

    @property
    def applies_at_once(self) -> bool:
        return self.change is Change.AT_ONCE


class LiveSettings:
    """The settings in force: `base` from file, environment and `--set`, and `config` with changes from the database."""

    def __init__(self, base: Config, config: Config) -> None:
        self._base = base
        self._followers: list[Callable[[Config], None]] = []
        self._refreshing = threading.Lock()
        self._at_start = self.config = config

    @classmethod
    def load(cls, base: Config) -> LiveSettings:
        """Read the changes from the database, which must be open."""
        return cls(base, in_force(base))

    def follow(self, follower: Callable[[Config], None]) -> None:
        """Call `follower` after each change, in the thread that made or noticed the change."""
        self._followers.append(follower)

    def change(self, actor: Actor, name: str, raw: str) -> None:
        """Store a new value. Raises Invalid with instructions."""
        change(self._base, actor, name, raw)
        self.refresh()

    def reset(self, actor: Actor, name: str) -> None:
        """Delete a stored value. Raises Invalid if the setting cannot be changed here."""
        reset(self._base, actor, name)
        self.refresh()

    def refresh(self) -> None:
        """Apply changes made by other processes."""
        with self._refreshing:
            config = in_force(self._base)
            if config == self.config:
                return
            self.config = config
            for follower in self._followers:
                follower(config)

    def states(self) -> list[SettingState]:
        """Return all settings except secrets."""
        changed = changed_settings.changed_settings()
        return [
            self._state(name, changed.get(name)) for name, item in SETTINGS.items() if not item.metadata["is_secret"]
        ]

    def _state(self, name: str, changed: ChangedSetting | None) -> SettingState:
        item = SETTINGS[name]
        change: Change | None = item.metadata["change"]
        value = getattr(self.config, item.name)
        return SettingState(
            name=name,
            value=written(value),
            base=written(getattr(self._base, item.name)),
            default=written(item.default),
            help=item.metadata["help"],
            changed=changed,
            change=change,
            choices=choices_of(item.metadata["cast"]),
            waits_for_restart=change is Change.AT_RESTART and value != getattr(self._at_start, item.name),
        )


def in_force(base: Config) -> Config:
    """Return `base` with the changes from the database. Unknown and invalid ones are logged and ignored."""
    values = {}
    for name, changed in changed_settings.changed_settings().items():
        try:
            values[SETTINGS[name].name] = _cast(name, changed.value)
        except Invalid:
            log.warning(
                "This release does not accept the value %r of the setting %s, saved by %s; ignoring it",
                changed.value,
                name,
                changed.changed_by,
            )
    return replace(base, **values)


def by_name(config: Config) -> dict[str, Any]:
    return {name: getattr(config, item.name) for name, item in SETTINGS.items()}


def change(base: Config, actor: Actor, name: str, raw: str) -> None:
    """Store a new value; `base` is without stored changes. Raises Invalid with instructions."""
    value, before = written(_cast(name, raw)), _value(in_force(base), name)
    if value != before:
        changed_settings.change_setting(actor, name, value, before)


def reset(base: Config, actor: Actor, name: str) -> None:
    """Delete a stored value. Raises Invalid if the setting cannot be changed here."""
    _check(name)
    changed_settings.reset_setting(actor, name, _value(base, name))


def written(value: Any) -> str:
    """Format a value as after `--set`."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _value(config: Config, name: str) -> str:
    return written(getattr(config, SETTINGS[name].name))


def _cast(name: str, raw: str) -> Any:
    _check(name)
    try:
        return SETTINGS[name].metadata["cast"](raw.strip())
    except ValueError as error:
        raise Invalid.one("value", "invalid_value", fill(N_("Write %(format)s"), format=error.args[0])) from error


def _check(name: str) -> None:
    if name not in CHANGEABLE:
        others = ", ".join(CHANGEABLE)
        raise Invalid.one(
            "name", "invalid_value", f"{name} can only be changed in the settings file. Changeable here: {others}"
        )
