"""Services and applications for tests, with defaults for everything that a test does not name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from types import CodeType
from typing import Any

from flask import Flask
from jinja2 import BytecodeCache, Undefined
from jinja2.bccache import Bucket
from jinja2.utils import missing

from edge.app import create_app
from edge.config.live import LiveSettings
from edge.config.settings import Config
from edge.operations.health import Health
from edge.rate_limits import FileLimit
from edge.services import Services

_DEFAULTS = {"rate_per_second": 1_000, "rate_burst": 100_000, "pages_time_zone": "UTC", "version": "0.0"}
_SETTINGS = {item.name for item in fields(Config)}


def make_services(**changes: Any) -> Services:
    """Build services from settings, such as `pages_pin_required=True`, and fields of `Services`, such as `streams`."""
    changes = _DEFAULTS | changes
    config = Config(**{name: value for name, value in changes.items() if name in _SETTINGS})
    defaults = {
        "settings": LiveSettings(config, config),
        "health": Health(),
        "files": FileLimit(config.http_threads),
    }
    return Services(**defaults | {name: value for name, value in changes.items() if name not in _SETTINGS})


def make_app(**changes: Any) -> Flask:
    return _created(make_services(**changes))


def _created(installed: Services) -> Flask:
    """Create an application whose templates fail at an attribute that an object does not have."""
    app = create_app(installed)
    app.jinja_env.undefined = _NoAttribute
    app.jinja_env.bytecode_cache = _compiled_templates
    return app


class _CompiledTemplates(BytecodeCache):
    """Compiling the templates of a page takes longer than most requests, and each browser test makes an application."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key, bucket.checksum] = bucket.code


_compiled_templates = _CompiledTemplates()


class _NoAttribute(Undefined):
    """Jinja shows nothing for a missing attribute, so a page would lose a value silently when a field is renamed."""

    def __init__(self, hint: str | None = None, obj: Any = missing, name: str | None = None, *rest: Any) -> None:
        super().__init__(hint, obj, name, *rest)
        if hint is None and obj is not missing and not isinstance(obj, Mapping | Undefined):
            raise AssertionError(f"{type(obj).__name__} has no attribute {name}")


def shared_app() -> Flask:
    """Return the one application that tests share, with the settings it had at first.

    Creating one takes longer than most requests. Tests may `change` it; `make_app` is for tests that register routes
    or need other settings from the start.
    """
    app, installed, config = _shared()
    installed.settings.config = config
    app.extensions["services"] = installed
    return app


@cache
def _shared() -> tuple[Flask, Services, Config]:
    installed = make_services()
    return _created(installed), installed, installed.config


def services_of(app: Flask) -> Services:
    installed: Services = app.extensions["services"]
    return installed


def change(app: Flask, **changes: Any) -> None:
    """Change settings or services of an application from the next request on."""
    installed = services_of(app)
    config = replace(installed.config, **{name: changes.pop(name) for name in _SETTINGS & set(changes)})
    installed.settings.config = config
    app.extensions["services"] = replace(installed, **changes)
