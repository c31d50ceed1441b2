"""WSGI middleware: the headers that every response carries, and those of the API; which paths are its own.

They are added around the application, not by it: that takes a fifth of the time of a small response.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flask import request
from ulid import ULID

from edge.api import cors
from edge.limits import Budget

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

REQUEST_ID = "X-Request-ID"
_KEY = "edge.request_context"  # in the environment of a request
_random = random.Random()  # noqa: S311  for request ids, which are no secret

Headers = Sequence[tuple[str, str]]


class RequestContext:
    """What is noted about a request while it is handled, for the headers of its response."""

    __slots__ = ("budget", "deprecation", "request_id")

    def __init__(self, request_id: str, budget: Budget) -> None:
        self.request_id = request_id
        self.budget = budget
        self.deprecation: Headers = ()


def is_api_path(path: str) -> bool:
    return path.startswith("/api/") or path in ("/api", "/openapi.json", "/openapi.yaml")


def with_api_headers(application: WSGIApplication, fixed: Headers, untouched: Budget) -> WSGIApplication:
    """Every response gets a request id; those of the API, also to unknown paths, the `fixed` headers and their own."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        noted = environ[_KEY] = RequestContext(request_id(environ.get("HTTP_X_REQUEST_ID")), untouched)
        is_api = is_api_path("/" + environ["PATH_INFO"].lstrip("/"))

        def start(status: str, headers: list[tuple[str, str]], *failure: Any) -> Any:
            own = [(REQUEST_ID, noted.request_id)]
            if is_api:
                own = [*_cors_headers(environ, headers), *response_headers(fixed, noted)]
            return start_response(status, [*own, *headers], *failure)

        return application(environ, start)

    return answer


def _cors_headers(environ: WSGIEnvironment, given: Headers) -> Headers:
    """The CORS headers that flask-cors has not set."""
    if "HTTP_ORIGIN" not in environ:
        return cors.ALL
    if environ["REQUEST_METHOD"] != "OPTIONS":
        return cors.BEYOND_PREFLIGHTS
    names = {name.lower() for name, _ in given}
    return [header for header in cors.BEYOND_PREFLIGHTS if header[0].lower() not in names]


def request_context() -> RequestContext:
    """The context of the current request."""
    found: RequestContext = request.environ[_KEY]
    return found


def response_headers(fixed: Headers, noted: RequestContext) -> list[tuple[str, str]]:
    return [
        *fixed,
        (REQUEST_ID, noted.request_id),
        ("X-RateLimit-Remaining", str(noted.budget.remaining)),
        ("X-RateLimit-Reset", str(noted.budget.full_after)),
        *noted.deprecation,
    ]


def request_id(given: str | None) -> str:
    if given and len(given) <= 128 and given.isascii() and given.isprintable():
        return given
    # A request id need not be a secret, so it is not worth asking the system for randomness.
    return str(ULID(int(time.time() * 1000).to_bytes(6) + _random.getrandbits(80).to_bytes(10)))
