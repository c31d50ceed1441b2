"""Error responses of the server itself, for requests that never reach the application."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from waitress.task import ErrorTask
from waitress.utilities import Error

from edge.api import cors, envelope, guard, middleware
from edge.memory_budget import RETRY_SECONDS

_KINDS = {413: "payload_too_large", 500: "internal_error", 503: "service_unavailable"}


class Overloaded(Error):  # type: ignore[misc, unused-ignore]
    """The memory budget is used up."""

    code = 503
    reason = "Service Unavailable"


class Refusal(ErrorTask):  # type: ignore[misc, unused-ignore]
    """Uses the envelope of the API unless the request is clearly for another path (interface: Requests)."""

    def execute(self) -> None:
        request: Any = self.request
        channel: Any = self.channel
        channel.drains = True
        path = _path(request)
        request_id = middleware.request_id(request.headers.get("X_REQUEST_ID"))
        if request.error.code == Overloaded.code:
            self.response_headers = [("Retry-After", str(RETRY_SECONDS))]
        if path.startswith("/") and not middleware.is_api_path(path):
            self.response_headers = [*self.response_headers, (middleware.REQUEST_ID, request_id)]
            super().execute()
        else:
            self._send_envelope(path, request_id)

    def _send_envelope(self, path: str, request_id: str) -> None:
        request: Any = self.request
        channel: Any = self.channel
        kind = _KINDS.get(request.error.code, "bad_request")
        is_too_long = kind == "payload_too_large" and request.error.body.startswith("exceeds")
        detail = guard.TOO_LARGE if is_too_long else request.error.body
        content = envelope.body(kind, detail, path, request_id)
        status, _ = envelope.KINDS[kind]
        self.status = f"{status} {HTTPStatus(status).phrase}"
        checks = guard.guard_of(channel.app)
        framing = middleware.response_headers(
            checks.headers, middleware.RequestContext(request_id, checks.buckets.untouched)
        )
        self.response_headers = [*self.response_headers, *cors.HEADERS, *framing, ("Content-Type", "application/json")]
        self.set_close_on_finish()
        self.content_length = len(content)
        if getattr(request, "command", "") != "HEAD":
            self.write(content)


def _path(request: Any) -> str:
    """Return the requested path from the first line if the parser has not parsed it."""
    known: str = getattr(request, "path", "")
    if known and request.error.code != 431:
        return known
    first_line: bytes = request.header_plus or getattr(request, "first_line", b"")
    fields = first_line.lstrip().partition(b"\r\n")[0].split(b" ")
    return fields[1].partition(b"?")[0].decode("latin-1") if len(fields) > 1 else ""
