"""The running service as pages and API see it: settings, health and running threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from zoneinfo import ZoneInfo

from flask import Flask, current_app

from edge import __version__, clock
from edge.config.live import LiveSettings
from edge.config.settings import Config
from edge.events.stream import Streams
from edge.operations.health import Health
from edge.rate_limits import FileLimit

_EXTENSION = "services"


@dataclass(frozen=True)
class Services:
    """Built once by the runtime. `config` always returns the current settings."""

    settings: LiveSettings
    health: Health
    files: FileLimit
    own_address: str | None = None  # URL for other devices; None if the service is reachable from this box only
    streams: Streams | None = None  # None: a live stream ends after the stored events
    requeue: Callable[[int, str, bytes, int], None] | None = None  # see `Subscriber.requeue`; None without ingest
    version: str = __version__
    started_at: int = field(default_factory=clock.now)

    @property
    def config(self) -> Config:
        return self.settings.config

    @property
    def zone(self) -> ZoneInfo:
        """Time zone of the pages."""
        return _zone(self.config.pages_time_zone)


def install(app: Flask, installed: Services) -> None:
    app.extensions[_EXTENSION] = installed


def services() -> Services:
    """Return the services of the current application."""
    installed: Services = current_app.extensions[_EXTENSION]
    return installed


@lru_cache(maxsize=8)
def _zone(name: str) -> ZoneInfo:
    return clock.zone(name)
