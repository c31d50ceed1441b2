"""The Flask application: one factory, plain values in, no settings read here."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Flask, Response, request

from edge.api import envelope, guard, service
from edge.ops.health import Health
from edge.pages import site


@dataclass(frozen=True)
class AppSettings:
    """What the web side needs to know of the installation."""

    environment: str
    version: str
    blocked_user_agents: tuple[str, ...]
    rate_per_second: int
    rate_burst: int
    trusted_proxy: str = ""
    session_hours: int = 12
    pin_required: bool = False


def create_app(settings: AppSettings, health: Health) -> Flask:
    """The store must be open. `health` is asked by /healthz, /readyz and the status page."""
    app = Flask(__name__, static_folder=None)
    app.config["EDGE"] = settings
    app.extensions["health"] = health
    site.register(app, site.Site(settings.environment, settings.version, settings.session_hours, settings.pin_required))
    gate = guard.gate(settings.environment, settings.blocked_user_agents, settings.rate_per_second, settings.rate_burst)
    service.register(app, gate)
    app.register_error_handler(Exception, _on_error)
    return app


def _on_error(error: Exception) -> Response:
    """Here, because a blueprint does not see unknown paths and methods."""
    return envelope.answer(error) if guard.is_api_path(request.path) else site.error_page(error)
