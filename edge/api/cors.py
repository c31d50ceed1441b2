"""CORS headers of the API, the same on every response (spec: What the service does 9)."""

from __future__ import annotations

METHODS = "GET, HEAD, POST, PATCH, DELETE, OPTIONS"
ALLOWED_HEADERS = "Content-Type, Authorization, X-Request-ID, Idempotency-Key"
EXPOSED_HEADERS = (
    "X-Request-ID, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Location, "
    "Retry-After, Idempotent-Replayed"
)
MAX_AGE_SECONDS = 3600

HEADERS = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Expose-Headers", EXPOSED_HEADERS),
    ("Access-Control-Allow-Methods", METHODS),
    ("Access-Control-Allow-Headers", ALLOWED_HEADERS),
    ("Access-Control-Max-Age", str(MAX_AGE_SECONDS)),
)
