"""A create that is sent again with its Idempotency-Key is answered again and not made again (contract: Additions)."""

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
ABOUT = "Makes it safe to send the request again: for 24 hours the first answer is given again"

_running: set[tuple[int, str, str]] = set()
_lock = threading.Lock()


def check_key(key: str) -> str:
    """Raises Invalid."""
    if not key:
        raise Invalid.one(HEADER, "too_short", f"{HEADER} must have at least 1 character", min_length=1)
    if len(key) > MAX_KEY:
        raise Invalid.one(HEADER, "too_long", f"{HEADER} must have at most {MAX_KEY} characters", max_length=MAX_KEY)
    if not (key.isascii() and key.isprintable()):
        raise Invalid.one(HEADER, "invalid_value", f"{HEADER} must be printable ASCII", pattern=PATTERN)
    return key


def hash_of(path: str, body: bytes) -> bytes:
    return hashlib.sha256(path.encode() + b"\0" + body).digest()


def once(sent: Create, create: Callable[[], Response]) -> Response:
    """The answer of `create`, or the first answer to the same request.

    Raises Conflict, and ApiError while the same key is being used. An error of `create` is not kept.
    """

    def make() -> Answer:
        response = create()
        return Answer(response.status_code, response.headers["Location"], response.get_data())

    with _alone(sent):
        answer, is_again = idempotency.once(sent, make)
    headers = {"Location": answer.location, **({REPLAYED: "true"} if is_again else {})}
    return Response(answer.body, answer.status, headers, content_type="application/json")


@contextmanager
def _alone(sent: Create) -> Iterator[None]:
    key = (sent.organization_id, sent.caller, sent.key)
    with _lock:
        if key in _running:
            detail = f"A request with this {HEADER} is still being answered; send it again later"
            raise ApiError("conflict", detail, {"Retry-After": "1"})
        _running.add(key)
    try:
        yield
    finally:
        with _lock:
            _running.discard(key)
