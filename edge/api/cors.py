"""CORS headers of the API, the same on every response (spec: What the service does 9).

flask-cors makes them once, from a preflight. As a hook of the application it would take a tenth of the time of a small
response, and responses that the server sends before the application sees the request would lack them.
"""

from __future__ import annotations

from flask import Flask, Response
from flask_cors import CORS

METHODS = "GET, HEAD, POST, PATCH, DELETE, OPTIONS"
ALLOWED_HEADERS = "Content-Type, Authorization, X-Request-ID, Idempotency-Key"
EXPOSED_HEADERS = (
    "X-Request-ID, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Location, "
    "Retry-After, Idempotent-Replayed"
)
MAX_AGE_SECONDS = 3600


def _preflight_headers() -> tuple[tuple[str, str], ...]:
    app = Flask(__name__, static_folder=None)
    CORS(
        app,
        origins="*",
        send_wildcard=True,
        methods=METHODS,
        allow_headers=[],  # flask-cors would sort them; below they have the order of the specification
        expose_headers=EXPOSED_HEADERS,
        max_age=MAX_AGE_SECONDS,
    )
    preflight = {"Origin": "*", "Access-Control-Request-Method": "GET"}
    with app.test_request_context(method="OPTIONS", headers=preflight):
        response = app.process_response(Response())
    made = tuple((name, value) for name, value in response.headers if name.startswith("Access-Control-"))
    return (*made, ("Access-Control-Allow-Headers", ALLOWED_HEADERS))


HEADERS = _preflight_headers()
