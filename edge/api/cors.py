"""CORS headers of the API, the same on every response (interface: Service 9).

Responses that the server sends before the application sees the request have them too.
"""

from __future__ import annotations

HEADERS = (
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
