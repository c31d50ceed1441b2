"""Parses requests with waitress, within limits for the head and the memory budget for the body."""

from __future__ import annotations

from functools import partial
from typing import Any

from waitress.buffers import OverflowableBuffer
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.utilities import BadRequest
from werkzeug.http import parse_options_header

from edge.api import guard
from edge.memory_budget import HELD, SMALL, WORK, cost_of, cost_of_form, cost_of_parts, marks_in
from edge.pages import guard as pages_guard
from edge.server import connections
from edge.server.refusals import Overloaded
from edge.sync import batch_format

# Largest body of any route. The excess is read and dropped, because the client must finish sending to see the refusal.
MAX_BODY = max(guard.MAX_BODY, batch_format.MAX_BODY, pages_guard.MAX_UPLOAD)
_PIECE = 256 * 1024
FORM = "application/x-www-form-urlencoded"
UNSUPPORTED = b"UNSUPPORTED"  # stands for a method in lower case: methods are case-sensitive, so it is answered 405
_NOT_ASCII = "Percent-encode characters of the address that are not ASCII, such as %C3%BC for \u00fc in UTF-8"


class Body(OverflowableBuffer):  # type: ignore[misc, unused-ignore]
    """Keeps the body within the memory budget and the largest size of any route; drops and counts the rest."""

    dropped = taken = 0
    is_refused = False

    def __init__(self, overflow: int, owner: str) -> None:
        super().__init__(overflow)
        self.owner = owner

    def append(self, data: bytes) -> None:
        size = super().__len__() + len(data)
        if size > MAX_BODY or self.is_refused or not self._has_room(size):
            self.dropped += len(data)
        else:
            super().append(data)

    def _has_room(self, size: int) -> bool:
        more = max(0, size - SMALL) - self.taken
        if more > 0:
            self.is_refused = not HELD.take(more, self.owner)
            self.taken += 0 if self.is_refused else more
        return not self.is_refused

    def __len__(self) -> int:
        return super().__len__() + self.dropped

    def close(self) -> None:
        HELD.give_back(self.taken, self.owner)
        self.taken = 0
        super().close()

    def cost(self, media_type: str) -> int:
        """Return the memory that the body takes while it is parsed. Raises TooLarge, or Unavailable if it is
        not even there to find that out.
        """
        if len(self) <= SMALL:
            return 0
        kind, options = parse_options_header(media_type)
        file = self.getfile()
        try:
            if (kind := kind.lower()) == FORM or kind.startswith("multipart/"):
                with WORK.holding(2 * len(self), self.owner):
                    body, boundary = file.read(), options.get("boundary", "").encode("latin-1", "replace")
                    return cost_of_form(body) if kind == FORM else cost_of_parts(body, boundary)
            return cost_of(len(self), sum(map(marks_in, iter(partial(file.read, _PIECE), b""))))
        finally:
            file.seek(0)


class Parser(HTTPRequestParser):  # type: ignore[misc, unused-ignore]
    """Parses one request. `rest` keeps pipelined data until the response is sent."""

    pieces = 0
    rest = b""

    def __init__(self, adj: Any, *, channel: Any) -> None:
        super().__init__(adj)
        self._channel = channel

    def received(self, data: bytes) -> int:
        """Parse a piece of the request. Heads in very many pieces are refused: waitress scans the whole head
        for each one.
        """
        self.pieces += 1
        if not self.headers_finished and self.pieces > connections.MOST_PIECES:
            self.parse_header(b"GET / HTTP/1.0\r\n")
            self.error, self.completed = BadRequest("The request headers came in too many pieces"), True
            return len(data)
        consumed: int = super().received(data)
        self._check_body()
        if self.headers_finished and self._channel.is_refused and self.error is None and not self.empty:
            self.error, self.completed = Overloaded("Too many connections at the moment"), True
        if self.completed and not self.empty:
            self.rest = data[consumed:]
            return len(data)
        return consumed

    def _check_framing(self) -> None:
        """Refuse requests that a proxy may read in another way, as a different request or one for another host."""
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Send either Content-Length or Transfer-Encoding")
        if self.version != "1.1" and "TRANSFER_ENCODING" in self.headers:  # waitress ignores it
            raise ParsingError("Transfer-Encoding requires HTTP/1.1")
        if "," in self.headers.get("HOST", ""):  # waitress joins repeated headers
            raise ParsingError("Send one Host")

    def _check_body(self) -> None:
        receiver: Any = self.body_rcv
        if receiver is None:
            return
        if self.chunked and len(receiver.control_line) + len(receiver.trailer) > connections.MOST_FRAMING:
            self.error, self.completed = BadRequest("The framing of the body is too long"), True
        elif self.completed and receiver.buf.is_refused and self.error is None:
            self.error = Overloaded("Too much data is being received at the moment")

    def parse_header(self, header_plus: bytes) -> None:
        """Parse the head. Turns an invalid host into a refusal; waitress would log a traceback and close."""
        if header_plus.count(b"\n") > connections.MOST_HEADERS:
            super().parse_header(header_plus.partition(b"\r\n")[0] + b"\r\n")  # the refusal needs the path
            raise ParsingError("The request has too many header lines")
        first_line = header_plus.partition(b"\r\n")[0]
        method = first_line.partition(b" ")[0]
        if method.isalpha() and method != method.upper():  # waitress would refuse it as malformed
            header_plus = UNSUPPORTED + header_plus[len(method) :]
        try:
            super().parse_header(header_plus)
        except (ValueError, ParsingError) as error:
            if not first_line.isascii():
                raise ParsingError(_NOT_ASCII) from error
            if isinstance(error, ParsingError):
                raise
            raise ParsingError("Invalid URI") from error
        if self.body_rcv is not None:
            self.body_rcv.buf = Body(self.adj.inbuf_overflow, self._channel.owner_of(self))
        self._check_framing()
