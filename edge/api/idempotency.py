"""Idempotency keys: a repeated create returns the stored response (interface: Additions)."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flask import Response

from edge.api.envelope import ApiError
from edge.errors import Invalid
from edge.records import idempotency
from edge.records.idempotency import Answer, Create

HEADER, REPLAYED = "Idempotency-Key", "Idempotent-Replayed"
MAX_KEY = 255
PATTERN = "^[ -~]+$"
SCHEMA = {"minLength": 1, "maxLength": MAX_KEY, "pattern": PATTERN}
ABOUT = "Makes retries safe: for 24 hours the first response is returned again"

_running: set[tuple[int, str, str]] = set()
_lock = threading.Lock()


def check_key(key: str) -> str:
    """Return the key if it is valid. Raises Invalid."""
    if not key:
        raise Invalid.one(HEADER, "too_short", f"{HEADER} must have at least 1 character", min_length=1)
    if len(key) > MAX_KEY:
        raise Invalid.one(HEADER, "too_long", f"{HEADER} must have at most {MAX_KEY} characters", max_length=MAX_KEY)
    if not (key.isascii() and key.isprintable()):
        raise Invalid.one(HEADER, "invalid_value", f"{HEADER} must be printable ASCII", pattern=PATTERN)
    return key


def request_hash(path: str, body: bytes) -> bytes:
    """Return a hash that detects the reuse of a key for another request (interface: Additions)."""
    return hashlib.sha256(path.encode() + b"\0" + body).digest()


def once(request: Create, create: Callable[[], Response]) -> Response:
    """Run `create` and store its response, or return the stored one if the request was handled before.

    Errors of `create` are not stored. Raises Conflict if the key was used for a different request, and ApiError
    (409) while another request with the key is running.
    """

    def make() -> Answer:
        response = create()
        return Answer(response.status_code, response.headers["Location"], response.get_data())

    with _exclusive(request):
        answer, is_replay = idempotency.once(request, make)
    headers = {"Location": answer.location, **({REPLAYED: "true"} if is_replay else {})}
    return Response(answer.body, answer.status, headers, content_type="application/json")


@contextmanager
def _exclusive(request: Create) -> Iterator[None]:
    key = (request.organization_id, request.caller, request.key)
    with _lock:
        if key in _running:
            detail = f"A request with this {HEADER} is still running; send it again later"
            raise ApiError("conflict", detail, {"Retry-After": "1"})
        _running.add(key)
    try:
        yield
    finally:
        with _lock:
            _running.discard(key)
