"""CORS of the API: permissive, with the whole header set on every response (spec: What the service does 9).

flask-cors answers browsers: requests with an Origin, and preflights. By the rules of CORS, methods, headers and age go
with preflights only, and nothing at all without an Origin; the middleware adds what is missing, as the specification
wants. Without an Origin flask-cors is not even asked, since finding that out takes it a tenth of the time of a small
response.
"""

from __future__ import annotations

import re

from flask import Flask, Response, request
from flask_cors import CORS

METHODS = "GET, HEAD, POST, PATCH, DELETE, OPTIONS"
ALLOWED_HEADERS = "Content-Type, Authorization, X-Request-ID, Idempotency-Key"
EXPOSED_HEADERS = (
    "X-Request-ID, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Location, "
    "Retry-After, Idempotent-Replayed"
)
MAX_AGE_SECONDS = 3600
PATHS = re.compile(r"/(api(/.*)?|openapi\.(json|yaml))$")

BEYOND_PREFLIGHTS = (
    ("Access-Control-Allow-Methods", METHODS),
    ("Access-Control-Allow-Headers", ALLOWED_HEADERS),
    ("Access-Control-Max-Age", str(MAX_AGE_SECONDS)),
)
# For clients that are not browsers, and for requests that the server refuses before the application sees them.
ALL = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Expose-Headers", EXPOSED_HEADERS),
    *BEYOND_PREFLIGHTS,
)


def install(app: Flask) -> None:
    CORS(
        app,
        resources=PATHS,
        origins="*",
        send_wildcard=True,
        always_send=False,
        methods=METHODS,
        allow_headers=[],  # it would repeat only what the client asked for; the middleware sends the whole list
        expose_headers=EXPOSED_HEADERS,
        max_age=MAX_AGE_SECONDS,
        intercept_exceptions=False,  # errors become responses in the application's own handler
    )
    answer_browser = app.after_request_funcs[None].pop()

    @app.after_request
    def answer(response: Response) -> Response:
        return answer_browser(response) if "HTTP_ORIGIN" in request.environ else response  # type: ignore[return-value]
