"""Answers of a service: their JSON, and what an error means for the record and for the service.

Everything in them is from outside: sizes are bounded, and texts are printable.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from edge.database.change_log import Kind
from edge.errors import EdgeError, TooLarge, Unavailable
from edge.events.checked_connection import Answer
from edge.memory_budget import MB, WORK, cost_of, marks_in
from edge.terminal import printable
from edge.upstream.content import of_answer

MAX_ANSWER = 16 * MB
MOST_MEMORY = 64 * MB  # of a parsed answer
MAX_ERROR = 256 * 1024
MAX_DETAIL = 300  # characters
LIMITED_SECONDS = 10.0  # after a 429 without Retry-After
REJECTED_SECONDS = 300.0  # a revoked key stays revoked, so retry slowly
_OF_RECORD = (400, 404, 409, 413, 415, 422)  # about one record, not about the service
_OF_SERVICE = (401, 429, 503)  # never about one record
_REDIRECTS = range(300, 400)
_GZIP = 31  # `wbits` of zlib

Record = dict[str, Any]


class Away(EdgeError):
    """The service cannot be used now. `wait_seconds`: the pause it asks for, 0 without one.

    `may_be_of_record`: it fails in a way that may be about one record. `has_answered`: it was not the connection.
    """

    def __init__(
        self, message: str, wait_seconds: float = 0.0, *, may_be_of_record: bool = False, has_answered: bool = False
    ) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds
        self.may_be_of_record = may_be_of_record
        self.has_answered = has_answered


class TooMuch(Away):
    """An answer is larger than this box reads."""

    def __init__(self) -> None:
        super().__init__("An answer of the service takes too much memory", may_be_of_record=True, has_answered=True)


class Refused(EdgeError):
    """The service refused a request about one record."""

    def __init__(self, status: int, detail: str, fields: Sequence[str]) -> None:
        super().__init__(f"{status}: {detail}"[:500])
        self.status = status
        self.fields = fields

    @property
    def is_stale(self) -> bool:
        """True if the record has changed since it was read."""
        return self.status == HTTPStatus.BAD_REQUEST and "updated_at" in self.fields


def decoded(answer: Answer) -> Any:
    """Return the JSON value of an answer. Raises Away if another program has answered, or it takes much memory."""
    try:
        content = _unpacked(answer)
        with WORK.holding(cost_of(len(content), marks_in(content), MOST_MEMORY)):
            return json.loads(content)
    except TooLarge as error:
        raise TooMuch from error
    except Unavailable as error:
        raise Away(f"This box is busy: {error}") from error
    except (ValueError, RecursionError, zlib.error) as error:
        raise other_program() from error


def data(value: Any, kind: type) -> Any:
    """Return `data` of an answer. Raises Away."""
    found = value.get("data") if isinstance(value, dict) else None
    if not isinstance(found, kind):
        raise other_program()
    return found


def checked(kind: Kind, record: Any) -> Record:
    """Return a record with all fields that are used. Raises Away."""
    try:
        of_answer(kind, record)
        is_complete = isinstance(record["id"], int) and all(isinstance(tag["id"], int) for tag in record["tags"])
        record["updated_at"]
    except (KeyError, TypeError) as error:
        raise other_program() from error
    if not is_complete:
        raise other_program()
    complete: Record = record
    return complete


def other_program() -> Away:
    text = "Another program, perhaps a proxy, responds at the address of the service"
    return Away(text, may_be_of_record=True, has_answered=True)


def error_of(answer: Answer, secrets: Sequence[str] = ()) -> EdgeError:
    """Return the exception for an answer that is no success. `secrets` are left out of its text.

    A proxy's page is never about a record: its 404 does not say that somebody has deleted one.
    """
    for secret in filter(None, secrets):
        answer = answer._replace(content=answer.content.replace(secret.encode(), b"(secret)"))
    status, wait = answer.status, answer.wait_seconds
    error = _envelope(answer)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Away("The service limits requests (429)", wait or LIMITED_SECONDS)
    if status in _REDIRECTS:
        target = _shown(answer.headers.get("location", "nowhere"))
        return Away(f"The service redirects to {target}, which is not followed. If it has moved, add that address")
    if error is None:
        text = f"The service responded {status} without an error message of the API, perhaps a proxy"
        least = REJECTED_SECONDS if status == HTTPStatus.UNAUTHORIZED else 0.0
        return Away(text, max(wait, least), may_be_of_record=status not in _OF_SERVICE, has_answered=True)
    detail, fields = error
    if status in _OF_RECORD:
        return Refused(status, detail, fields)
    text = f"The service responded {status}: {detail}"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Away(text, max(wait, REJECTED_SECONDS))
    return Away(text, wait, may_be_of_record=status not in _OF_SERVICE, has_answered=True)


def _unpacked(answer: Answer) -> bytes:
    """Return the content without its compression, which is not asked for but added by some proxies. Raises TooLarge."""
    if answer.headers.get("content-encoding", "").lower() not in ("gzip", "x-gzip"):
        content = answer.content
    else:
        content = zlib.decompressobj(_GZIP).decompress(answer.content, MAX_ANSWER)
    if len(content) >= MAX_ANSWER:
        raise TooLarge("Too many bytes")
    return content


def _envelope(answer: Answer) -> tuple[str, list[str]] | None:
    """Return the error detail and the names of its fields, or None if it is not an error of the API."""
    try:
        error = json.loads(_unpacked(answer)[:MAX_ERROR])["error"]
        return _shown(str(error["detail"])), [str(field["field"]) for field in error.get("fields") or ()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, TooLarge, zlib.error):
        return None


def _shown(text: str) -> str:
    return printable(text[:MAX_DETAIL])
