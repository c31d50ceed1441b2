"""The checks of every API request (interface: Order of answers).

Their order: User-Agent, path, method, token, scope, rate limit, media type, query and path parameters, body.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Flask, Request, Response, request
from werkzeug.exceptions import NotFound
from werkzeug.http import http_date, parse_options_header

from edge import clock
from edge.api import idempotency, middleware, responses
from edge.api.envelope import ApiError, unauthorized
from edge.api.operations import FORM, Call, Operation
from edge.api.responses import PREFIX
from edge.api.schemas import ANSWERS, earliest_sunset
from edge.audit import actors
from edge.people import tokens
from edge.people.tokens import Principal
from edge.rate_limits import Buckets, client_network
from edge.records.idempotency import Create
from edge.services import Services
from edge.validation import body, form, query
from edge.validation.body import Body

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MAX_BODY = 1024 * 1024
SLOW_SECONDS = 0.1
TOO_LARGE = f"The body must have at most {MAX_BODY} bytes"
NOT_VALID = "Invalid or expired token"
USE_BEARER = "Use Authorization: Bearer <token>"
OTHER_TOKEN_HEADERS = ("X-API-Key", "Api-Key", "X-Auth-Token", "X-Access-Token", "X-Token", "Token")
BLOCKED = "Send a User-Agent that names your application, for example: User-Agent: acme-wms/1.4\n"

_TOKEN = re.compile(r"(?i:bearer\s+)?eyJ[\w-]+\.[\w-]+\.[\w-]+")
_COMMENT = re.compile(r"\([^()]*\)")
ANONYMOUS = Principal("", 0, (), None, actors.service())


class Guard(NamedTuple):
    """Settings and rate limiter, fixed when the application is created."""

    environment: str
    blocked_products: frozenset[str]
    buckets: Buckets
    headers: middleware.Headers


def guard_for(services: Services) -> Guard:
    """Build the guard from the settings."""
    config = services.config
    per_second, burst = config.rate_per_second, config.rate_burst
    policy = f"{burst};w={max(1, -(-burst // per_second))}"
    headers = (("RateLimit-Policy", policy), ("X-RateLimit-Limit", str(burst)))
    blocked_products = frozenset(agent.lower().removesuffix("/") for agent in config.http_blocked_user_agents)
    return Guard(config.environment, blocked_products, Buckets(burst, per_second), headers)


def guard_of(app: Flask) -> Guard:
    """Return the guard that `install` set."""
    guard: Guard = app.extensions["api"]
    return guard


def install(app: Flask, installed: Guard) -> None:
    """Add the API headers to the application."""
    app.extensions["api"] = installed
    app.url_map.merge_slashes = False  # a path with `//` answers 404 instead of a redirect
    app.wsgi_app = middleware.with_api_headers(  # type: ignore[assignment, method-assign]
        app.wsgi_app, installed.headers, installed.buckets.untouched
    )


def check_route(installed: Guard) -> Response | None:
    """Check User-Agent, path and method of a request under an API path, also where no route matches.

    Return a response to end the request early.
    """
    current: Request = request._get_current_object()  # type: ignore[attr-defined]  # resolve the proxy once
    environ, path, method = current.environ, current.path, current.method
    is_preflight = method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ
    if (
        not is_preflight
        and path.startswith("/api/")
        and _is_blocked(installed.blocked_products, environ.get("HTTP_USER_AGENT", ""))
    ):
        return Response(BLOCKED, 403, content_type="text/plain; charset=utf-8")
    if method == "OPTIONS" and path.startswith(f"{PREFIX}/"):
        return responses.nothing()
    uri = environ.get("REQUEST_URI", path)
    if ("//" in uri or "%" in uri) and _has_odd_slashes(uri):
        raise NotFound
    if current.routing_exception is not None:
        raise current.routing_exception
    return responses.nothing() if method == "OPTIONS" else None


def view(installed: Guard, operation: Operation) -> Callable[..., Response]:
    """Return the view of an operation, with its checks."""
    handler = operation.handler

    def write(**path: Any) -> Response:
        call = authorize(installed, operation, path)
        return idempotency.once(call.idempotent, lambda: handler(call)) if call.idempotent else handler(call)

    def read(**path: Any) -> Response:
        call = authorize(installed, operation, path)
        began = time.thread_time()
        try:
            return handler(call)
        finally:
            charge(installed, call.principal.subject, time.thread_time() - began)

    chosen = read if operation.method == "GET" else write
    field_sunset = earliest_sunset(ANSWERS[operation.answer]) if operation.answer else None
    if operation.sunset or field_sunset:
        return _deprecated(chosen, operation.sunset, field_sunset)
    return chosen


def _deprecated(
    view: Callable[..., Response], sunset: datetime | None, field_sunset: datetime | None
) -> Callable[..., Response]:
    """Wrap a view of an operation that is deprecated or returns a deprecated field (interface: Versioning 5).

    After `sunset` it answers 410. `field_sunset` is only announced.
    """
    first = min(moment for moment in (sunset, field_sunset) if moment)
    headers = (("Deprecation", "true"), ("Sunset", http_date(first)))

    def deprecated(**path: Any) -> Response:
        middleware.request_context().deprecation = headers
        if sunset and clock.to_datetime(clock.now()) >= sunset.astimezone(UTC):
            raise ApiError("gone", f"This was removed on {http_date(sunset)}")
        return view(**path)

    return deprecated


def authorize(installed: Guard, operation: Operation, path: dict[str, str]) -> Call:
    """Check the request and return its parsed values. Raises ApiError, Invalid or Unreadable."""
    current: Request = request._get_current_object()  # type: ignore[attr-defined]
    if operation.is_open:
        principal = ANONYMOUS
        take_from_budget(installed, f"address:{client_network(current.remote_addr or '')}")
    else:
        principal = bearer(installed, current.environ)
        if operation.is_api_key_only and principal.api_key_id is None:
            raise unauthorized(NOT_VALID)
        if operation.scope and operation.scope not in principal.scopes:
            raise ApiError("forbidden", f"This operation requires the scope {operation.scope}")
        take_from_budget(installed, principal.subject)
    media_type = _media_type(operation.media_types) if operation.media_types else ""
    parameters = query.decode(operation.query, current.query_string) if current.query_string else {}
    ids = {name: query.record_id(name, text) for name, text in path.items()}
    key = _idempotency_key(current.environ) if operation.is_create else None
    raw = _read_body(operation.max_body or MAX_BODY) if operation.body else b""
    content = _parse_body(operation.body, media_type, raw) if operation.body else {}
    create = None
    if key is not None:
        create = Create(principal.organization_id, principal.subject, key, idempotency.request_hash(current.path, raw))
    return Call(principal, ids, parameters, content, next(iter(ids.values()), 0), create)


def bearer(installed: Guard, environ: WSGIEnvironment) -> Principal:
    """Return the bearer of the token. Raises ApiError."""
    header: str | None = environ.get("HTTP_AUTHORIZATION")
    if header is None:
        raise unauthorized(USE_BEARER if _has_token_elsewhere(environ) else "Missing authorization header")
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise unauthorized(USE_BEARER)
    principal = tokens.principal(installed.environment, token.strip())
    if principal is None:
        raise unauthorized(NOT_VALID)
    middleware.admit(header, principal.subject, principal.organization_id, hides_people=principal.hides_people)
    return principal


def _has_token_elsewhere(environ: WSGIEnvironment) -> bool:
    """True if a common token header is present or any header holds an access token (interface: Authentication 5)."""
    if any(name in request.headers for name in OTHER_TOKEN_HEADERS):
        return True
    return any(name.startswith("HTTP_") and _TOKEN.fullmatch(value) for name, value in environ.items())


def take_from_budget(installed: Guard, key: str) -> None:
    """Count a request. Raises ApiError if there were too many."""
    middleware.request_context().budget = budget = installed.buckets.take(key)
    if not budget.allowed:
        raise ApiError("rate_limited", "Too many requests", {"Retry-After": str(budget.retry_after)})


def charge(installed: Guard, caller: str, seconds: float) -> None:
    """Charge a slow request to the rate limit.

    `seconds` is CPU time of the thread, so the load of other requests costs the caller nothing.
    """
    if seconds > SLOW_SECONDS:
        installed.buckets.charge(caller, seconds)


def _media_type(accepted: Sequence[str]) -> str:
    """Return the media type of the request in lower case. Raises ApiError if it is not accepted."""
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in ("identity", ""):
        raise ApiError("unsupported_media_type", "Send the body without Content-Encoding")
    content_type = request.headers.get("Content-Type", "")
    if content_type in accepted:
        return content_type
    media_type, options = parse_options_header(content_type)
    if media_type.lower() not in accepted or options.get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise ApiError("unsupported_media_type", f"Send Content-Type: {' or '.join(accepted)}")
    return media_type.lower()


def _idempotency_key(environ: WSGIEnvironment) -> str | None:
    key: str | None = environ.get("HTTP_IDEMPOTENCY_KEY")
    return None if key is None else idempotency.check_key(key)


def _parse_body(declared: Body, media_type: str, raw: bytes) -> dict[str, Any]:
    return body.judge(declared, form.parse(raw, declared.fields)) if media_type == FORM else body.decode(declared, raw)


def _read_body(max_size: int) -> bytes:
    if (request.content_length or 0) > max_size:
        raise ApiError("payload_too_large", f"The body must have at most {max_size} bytes")
    return request.get_data(cache=False)


def _is_blocked(blocked_products: frozenset[str], user_agent: str) -> bool:
    """True if the User-Agent is missing, blank or a library's default (interface: Service 8).

    A default names only blocked products and comments, such as `Python/3.11 aiohttp/3.9`. One product of the
    application's own makes it acceptable.
    """
    products = _COMMENT.sub("", user_agent).lower().split()
    return all(product.partition("/")[0] in blocked_products for product in products)


def _has_odd_slashes(uri: str) -> bool:
    """True if the raw path has an encoded or a doubled slash. The server normalizes both, but no route has them."""
    path = uri.partition("?")[0]
    if not path.startswith("/"):  # absolute-form request target (RFC 9112, 3.2.2)
        path = "/" + path.partition("://")[2].partition("/")[2]
    return "//" in path or "%2f" in path.lower()
