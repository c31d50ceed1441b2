"""The Flask application: one factory, plain values in, no settings read here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from flask import Flask, Response, g, request

from edge import clock, metrics
from edge.api import envelope, guard, openapi, routes, sync
from edge.api import event_stream as events
from edge.api.middleware import is_api_path
from edge.api.operations import OPERATIONS
from edge.clock import SECOND
from edge.database.connection import domain_error, limit_statements
from edge.errors import Unavailable
from edge.events.stream import Streams
from edge.limits import ConcurrencyLimit
from edge.operations.health import Health
from edge.pages import blueprint, box_facts, broker_facts, cookies, formats
from edge.pages.box_facts import BoxFacts
from edge.pages.broker_facts import BrokerFacts
from edge.pages.formats import Formats
from edge.pages.installation import Installation
from edge.pages.probes import probes
from edge.pages.static_files import Files, web_folder

# All statements of a read, or one of a write, that take longer are aborted, and the client is advised to ask for less.
STATEMENT_SECONDS = 5.0
_READING = {"GET", "HEAD", "OPTIONS"}
_METHODS = {"GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS"}


@dataclass(frozen=True)
class AppSettings:
    """What the web side needs to know of the installation."""

    environment: str
    version: str
    blocked_user_agents: tuple[str, ...]
    rate_per_second: int
    rate_burst: int
    session_hours: int = 12
    pin_required: bool = False
    metrics_from: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    authority_file: Path | None = None
    sighting_gap_seconds: int = 300
    public_url: str = ""
    own_address: str | None = None
    time_zone: str = "UTC"
    threads: int = 8
    formats: Formats = formats.NONE
    broker: BrokerFacts = broker_facts.NONE
    streams: Streams | None = None
    box: BoxFacts = box_facts.NONE
    is_upgrading: Callable[[], bool] = lambda: False


class _Application(Flask):
    """Flask checks at each request whether its view and hooks are coroutines. None is here."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func


def create_app(settings: AppSettings, health: Health) -> Flask:
    """The store must be open. `health` is asked by /healthz, /readyz and the status page."""
    app = _Application(__name__, static_folder=None)
    concurrency = ConcurrencyLimit(settings.threads)
    _watch_requests(app, settings.is_upgrading, concurrency)
    app.register_blueprint(probes)
    blueprint.register(app, _installation(settings, health, concurrency))
    api_settings = guard.make_settings(
        settings.environment, settings.blocked_user_agents, settings.rate_per_second, settings.rate_burst, concurrency
    )
    routes.register(app, api_settings, settings.version)
    sync.register(app, settings.environment)
    events.register(app, settings.environment, cookies.session_token, settings.streams)
    app.register_error_handler(Exception, _on_error)
    return app


def _installation(settings: AppSettings, health: Health, concurrency: ConcurrencyLimit) -> Installation:
    web = web_folder()
    return Installation(
        environment=settings.environment,
        version=settings.version,
        session_hours=settings.session_hours,
        pin_required=settings.pin_required,
        public_url=settings.public_url,
        own_address=settings.own_address,
        zone=clock.zone(settings.time_zone),
        sighting_gap=settings.sighting_gap_seconds * SECOND,
        metrics_from=settings.metrics_from,
        authority_file=settings.authority_file,
        formats=settings.formats,
        broker=settings.broker,
        health=health,
        box=settings.box,
        concurrency=concurrency,
        files=Files(web / "static", web / "templates"),
        api_document=partial(openapi.document, OPERATIONS, settings.version),
    )


def _on_error(error: Exception) -> Response:
    """Registered on the application, because a blueprint does not see unknown paths and methods."""
    error = domain_error(error)
    return envelope.error_response(error) if is_api_path(request.path) else blueprint.error_page(error)


def _watch_requests(app: Flask, is_upgrading: Callable[[], bool], concurrency: ConcurrencyLimit) -> None:
    """Every request gets a deadline for its statements, may change nothing during an upgrade, and is timed.

    The slot that its caller holds is released at the end, unless the view keeps it for a file that it streams.

    One hook for each phase, since Flask takes two microseconds for every hook.
    """

    @app.before_request
    def begin() -> None:
        g.started = time.perf_counter()
        limit_statements(STATEMENT_SECONDS, for_all=request.method in _READING)
        if request.method not in _READING and is_upgrading():
            raise Unavailable("An upgrade is being completed; try again in a few seconds")

    @app.after_request
    def measure(response: Response) -> Response:
        """Counted by route: the address and the method of a request could be anything."""
        now = time.perf_counter()
        rule = request.url_rule
        series = _series(request.method, rule.rule if rule else "none", response.status_code)
        series.observe(now - g.get("started", now))
        return response

    @app.teardown_request
    def end(_error: BaseException | None) -> None:
        limit_statements(None)
        caller = g.pop("holds_slot", None)
        if caller is not None:
            concurrency.release(caller)


@lru_cache(maxsize=4096)
def _series(method: str, route: str, status: int) -> Any:
    """Cached, since looking a series up costs more than counting in it."""
    return metrics.request_seconds.labels(method if method in _METHODS else "other", route, status)
