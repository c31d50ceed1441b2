"""The Flask application: pages, API, sync endpoints and probes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

from flask import Flask, Response, request
from werkzeug.routing import Rule

from edge import metrics, services
from edge.api import envelope, epcis, event_stream, feed, routes, sync
from edge.api.guard import Guard, check_route
from edge.api.middleware import RequestContext, compress, is_api_path, request_context
from edge.database.connection import domain_error, hide_people, limit_statements, share_processor
from edge.errors import Unavailable
from edge.logs import Access, without_secret, write_access
from edge.memory_budget import of_request
from edge.operations.upgrade.pending_upgrade import is_pending
from edge.pages import blueprint, cookies
from edge.pages.probes import probes
from edge.services import Services
from edge.texts import N_

# Limit for all statements of a read, or one statement of a write. The client is advised to request less.
STATEMENT_SECONDS = 5.0
_READING = {"GET", "HEAD", "OPTIONS"}
_METHODS = {"GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS"}


class _Route(Rule):
    """A route that compiles the code for building its URL when it is first needed.

    edge writes its URLs itself. The code of all routes takes 2 MB and most of the time of `create_app`.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return _build_with_query if append_unknown else _build


def _build(rule: Rule, **values: Any) -> tuple[str, str]:
    return Rule._compile_builder(rule, False)(rule, **values)


def _build_with_query(rule: Rule, **values: Any) -> tuple[str, str]:
    return Rule._compile_builder(rule, True)(rule, **values)


class _Application(Flask):
    """Flask without its check, on each request, whether views and hooks are coroutines."""

    url_rule_class = _Route

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func


def create_app(installed: Services) -> Flask:
    """Create the application. Its database must be open before the first request."""
    app = _Application(__name__, static_folder=None)
    services.install(app, installed)
    app.register_blueprint(probes)
    blueprint.register(app)
    _watch_requests(app, installed, routes.register(app, installed))
    sync.register(app)
    event_stream.register(app, cookies.session_token)
    feed.register(app)
    epcis.register(app)
    app.register_error_handler(Exception, _on_error)
    return app


def _on_error(error: Exception) -> Response:
    """Answer any error. Registered on the application, because a blueprint does not see unknown paths and methods."""
    error = domain_error(error)
    return envelope.error_response(error) if is_api_path(request.path) else blueprint.error_page(error)


def _watch_requests(app: Flask, installed: Services, checks: Guard) -> None:
    """Set a deadline for SQL statements, refuse writes during an upgrade, check requests of the API, compress their
    responses, measure the time, and release the caller's slot.

    A view that streams a file keeps its slot. There is one hook per phase, because Flask takes 2 µs for each hook.
    """
    settings = installed.settings

    @app.before_request
    def begin() -> Response | None:
        of_request.held, of_request.caller = ExitStack(), ""
        limit_statements(STATEMENT_SECONDS, for_all=request.method in _READING)
        hide_people(True)  # until the guard of the pages or an endpoint knows that the caller may see them
        if request.method not in _READING and is_pending(settings.config.data_dir):
            raise Unavailable(N_("An upgrade is being completed; try again in a few seconds"))
        return check_route(checks) if request_context().is_api else None

    @app.after_request
    def finish(response: Response) -> Response:
        """Count by route and known method only, because clients choose paths and methods freely."""
        context = request_context()
        compress(response, context)
        seconds = time.perf_counter() - context.started
        rule = request.url_rule
        _series(request.method, rule.rule if rule else "none", response.status_code).observe(seconds)
        access_log = settings.config.http_access_log
        if access_log != "off":
            _write_access(context, response.status_code, seconds, as_json=access_log == "json")
        return response

    @app.teardown_request
    def end(_error: BaseException | None) -> None:
        limit_statements(None)
        if of_request.held:
            of_request.held.close()
        of_request.held = None
        share_processor(None)


def _write_access(context: RequestContext, status: int, seconds: float, as_json: bool) -> None:
    path = without_secret(request.path)
    access = Access(request.method, path, status, seconds * 1_000, context.request_id, context.actor)
    write_access(access, as_json)


@lru_cache(maxsize=4096)
def _series(method: str, route: str, status: int) -> Any:
    """Return a time series. Cached, because the lookup costs more than the increment."""
    return metrics.request_seconds.labels(method if method in _METHODS else "other", route, status)
