"""WSGI middleware that adds the request id and the API headers to responses, and the compression of responses.

In Flask's `after_request` the same headers would add 20 % to the time of a small response.
"""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flask import Response, request
from ulid import ULID

from edge import clock
from edge.database.connection import hide_people, share_processor
from edge.rate_limits import Budget, note_caller

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

REQUEST_ID = "X-Request-ID"
# The same on every response, also of the server itself (interface: Service 9).
CORS = (
    ("Access-Control-Allow-Origin", "*"),
    (
        "Access-Control-Expose-Headers",
        "X-Request-ID, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Location, "
        "Retry-After, Idempotent-Replayed",
    ),
    ("Access-Control-Max-Age", "3600"),
    ("Access-Control-Allow-Methods", "GET, HEAD, POST, PATCH, DELETE, OPTIONS"),
    ("Access-Control-Allow-Headers", "Content-Type, Authorization, X-Request-ID, Idempotency-Key"),
)
NOSNIFF = ("X-Content-Type-Options", "nosniff")
_KEY = "edge.request_context"  # in the environment of a request
MIN_SIZE = 1024  # bytes; shorter responses are not compressed
LEVEL = 4  # compresses a page of 200 assets to a sixth of its size in 2 ms
FEED_TYPE = "application/x-ndjson"
_COMPRESSIBLE_TYPES = ("application/json", "application/yaml")
_random = random.Random()  # noqa: S311  request ids are not secret

Headers = Sequence[tuple[str, str]]


class RequestContext:
    """Values of one request that its response headers and the access log need.

    It has the client's request id if that is acceptable, else a new ULID (interface: Conventions).
    """

    __slots__ = ("actor", "budget", "deprecation", "is_api", "request_id", "started")

    def __init__(self, given_id: str | None, path: str, budget: Budget) -> None:
        if given_id and len(given_id) <= 128 and given_id.isascii() and given_id.isprintable():
            self.request_id = given_id
        else:
            self.request_id = str(ULID(int(time.time() * 1000).to_bytes(6) + _random.getrandbits(80).to_bytes(10)))
        self.started = time.perf_counter()
        self.is_api = is_api_path(path)
        self.actor = ""
        self.budget = budget
        self.deprecation: Headers = ()


def is_api_path(path: str) -> bool:
    """True for paths under /api/ and for those of the OpenAPI document."""
    return path.startswith("/api/") or path in ("/api", "/openapi.json", "/openapi.yaml")


def with_api_headers(application: WSGIApplication, fixed: Headers, untouched: Budget) -> WSGIApplication:
    """Wrap a WSGI application.

    Every response gets a request id, and the order not to guess its media type. Responses under API paths, including
    unknown ones, also get the CORS headers, the `fixed` headers and the rate limit; `untouched` is the budget of a
    caller who has not been counted.
    """

    def wrapped(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = "/" + environ["PATH_INFO"].lstrip("/")
        context = environ[_KEY] = RequestContext(environ.get("HTTP_X_REQUEST_ID"), path, untouched)

        def start(status: str, headers: list[tuple[str, str]], *failure: Any) -> Any:
            own = [(REQUEST_ID, context.request_id), NOSNIFF]
            if context.is_api:
                own = [*CORS, *response_headers(fixed, context)]
            return start_response(status, [*own, *headers], *failure)

        return application(environ, start)

    return wrapped


def request_context() -> RequestContext:
    """Return the context of the current request."""
    context: RequestContext = request.environ[_KEY]
    return context


def admit(credential: str, caller: str, organization_id: int, *, hides_people: bool) -> None:
    """Note who sent the request: for the access log, its statements, and the choice among waiting requests."""
    request_context().actor = caller
    hide_people(hides_people)
    has_others = note_caller(credential, caller, organization_id)
    share_processor(organization_id if has_others else None)


def response_headers(fixed: Headers, context: RequestContext) -> list[tuple[str, str]]:
    """Return the API headers of one response: fixed ones, request id, rate limit and deprecation."""
    return [
        *fixed,
        (REQUEST_ID, context.request_id),
        ("X-RateLimit-Remaining", str(context.budget.remaining)),
        ("X-RateLimit-Reset", str(-(-clock.now() // clock.SECOND) + context.budget.full_after)),
        NOSNIFF,
        *context.deprecation,
    ]


def compress(response: Response, context: RequestContext) -> None:
    """Compress a response of the API (interface: Additions) or the open feed if the client accepts gzip.

    Responses to HEAD are compressed too, before their body is dropped, because they need the headers of GET.
    BREACH does not apply: a third-party page cannot make the browser send the bearer token.
    """
    is_compressible = response.mimetype in _COMPRESSIBLE_TYPES if context.is_api else response.mimetype == FEED_TYPE
    if response.is_streamed or not is_compressible:
        return
    content = response.get_data()
    if len(content) > MIN_SIZE:
        response.vary.add("Accept-Encoding")
        if "HTTP_ACCEPT_ENCODING" in request.environ and request.accept_encodings["gzip"] > 0:
            response.set_data(gzip.compress(content, LEVEL, mtime=0))
            response.headers["Content-Encoding"] = "gzip"
