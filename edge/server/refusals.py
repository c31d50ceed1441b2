"""Error responses of the server itself, for requests that never reach the application."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from waitress.task import ErrorTask
from waitress.utilities import Error

from edge.api import envelope, guard, middleware
from edge.api.middleware import RequestContext
from edge.memory_budget import RETRY_SECONDS
from edge.rate_limits import Budget

_NOT_COUNTED = Budget(True, 0, 0, 0)
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
        context = RequestContext(request.headers.get("X_REQUEST_ID"), path, _NOT_COUNTED)
        if request.error.code == Overloaded.code:
            self.response_headers = [("Retry-After", str(RETRY_SECONDS))]
        if path.startswith("/") and not context.is_api:
            self.response_headers = [*self.response_headers, (middleware.REQUEST_ID, context.request_id)]
            super().execute()
        else:
            self._send_envelope(path, context)

    def _send_envelope(self, path: str, context: RequestContext) -> None:
        request: Any = self.request
        channel: Any = self.channel
        kind = _KINDS.get(request.error.code, "bad_request")
        is_too_long = kind == "payload_too_large" and request.error.body.startswith("exceeds")
        detail = guard.TOO_LARGE if is_too_long else request.error.body
        content = envelope.body(kind, detail, path, context.request_id)
        status, _ = envelope.KINDS[kind]
        self.status = f"{status} {HTTPStatus(status).phrase}"
        checks = guard.guard_of(channel.app)
        context.budget = checks.buckets.untouched
        framing = middleware.response_headers(checks.headers, context)
        self.response_headers = [
            *self.response_headers,
            *middleware.CORS,
            *framing,
            ("Content-Type", "application/json"),
        ]
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
