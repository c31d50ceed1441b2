"""Memory budget for requests and responses.

HELD limits data that waits for clients: incomplete request bodies and unread responses. One address may use half of it.
WORK limits data of requests in progress: parsed JSON, unpacked batches, tables, images. One address or site may use two
thirds of it. Small requests always pass, so that the service stays responsive.

Both fit into the unit's MemoryMax=512M together with the memory that is limited elsewhere: the program and its database
connections (120 MB), recent reads (64 MB), messages (56 MB), two password checks (64 MB).
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from typing import ForwardRef

from werkzeug import Request

from edge.errors import TooLarge, Unavailable
from edge.texts import N_

MB = 1024 * 1024
SMALL = 64 * 1024  # bytes; not counted for each direction of a connection and for each request
RETRY_SECONDS = 2
MOST_OF_REQUEST = 32 * MB  # for the parsed values of one body
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # from glibc's malloc.h
_VALUE = 128  # bytes; upper bound for one JSON value or form field as a Python object
_MARKS = (b",", b":", b"{", b"[", b"&", b"=")
_OF_FIELD = 280  # bytes; upper bound for one escaped character, name or value of a form while it is parsed
_WIDE = 10  # bytes for each byte of a text in which one character takes four bytes
_BELOW_LEAD = bytes(range(0xC0))  # all bytes that do not begin a character beyond ASCII
# After a boundary: only spaces until the end of the line, as in werkzeug, and the head of a part.
_HEAD = rb"(?=--|[^\S\r\n]*[\r\n])(?s:(.*?))(?:\r\n\r\n|\r\r|\n\n|\Z)"
_OF_FILE = re.compile(rb'\r\nContent-Disposition: form-data; name="[\w.-]+"; filename="[^"\\\r\n]*"', re.IGNORECASE)


def return_freed_memory() -> None:
    """Make glibc return large blocks to the system when they are freed. Call once, before starting threads.

    By default, glibc keeps freed blocks for each thread: eight threads that opened one image each held 500 MB. Does
    nothing with other C libraries.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MB)
        mallopt(_M_ARENA_MAX, 2)


def forget_forward_references() -> None:
    """Keep the annotations of named tuples as the texts in the source. Call once, after the imports.

    `typing` compiles each of these texts into an object, which nobody uses: 2 MB for all of edge.
    """
    for kind in tuple.__subclasses__():
        annotations = vars(kind).get("__annotations__", {})
        for name, annotation in annotations.items():
            if isinstance(annotation, ForwardRef):
                annotations[name] = annotation.__forward_arg__


class Budget:
    """A number of bytes, with an optional limit for each owner."""

    def __init__(self, size: int, most_of_owner: int | None = None) -> None:
        self._size = size
        self._most_of_owner = most_of_owner or size
        self._used = 0
        self._owners: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        return self._used

    def take(self, size: int, owner: str = "") -> bool:
        """Reserve bytes; return False if there is no room. Call `give_back` afterwards. Without an owner only
        the total counts.
        """
        with self._lock:
            of_owner = self._owners.get(owner, 0) + size
            if self._used + size > self._size or (owner and of_owner > self._most_of_owner):
                return False
            self._used += size
            self._owners[owner] = of_owner
            return True

    def give_back(self, size: int, owner: str = "") -> None:
        with self._lock:
            self._used -= size
            left = self._owners.pop(owner, 0) - size
            if left:
                self._owners[owner] = left

    @contextmanager
    def holding(self, size: int, owner: str = "") -> Iterator[None]:
        """Reserve bytes while the block runs. Raises Unavailable."""
        if size <= SMALL:
            yield
            return
        if not self.take(size, owner):
            raise Unavailable(N_("The server is busy; try again in a few seconds"), RETRY_SECONDS)
        try:
            yield
        finally:
            self.give_back(size, owner)


HELD = Budget(48 * MB, most_of_owner=24 * MB)
WORK = Budget(128 * MB, most_of_owner=88 * MB)  # a batch of a site and its answer take 88 MB


class _OfRequest(threading.local):
    """What the request of this thread has reserved, and for whom; `held` is None outside of requests."""

    held: ExitStack | None = None
    caller = ""


of_request = _OfRequest()  # set and cleared by the application


def hold_for_request(size: int) -> None:
    """Reserve bytes until the request of this thread ends, outside of requests nothing. Raises Unavailable."""
    if of_request.held is not None:
        of_request.held.enter_context(WORK.holding(size, of_request.caller))


def marks_in(text: bytes) -> int:
    """Return an upper bound for the number of values in JSON or a form: the number of characters that begin or
    separate values.
    """
    return sum(map(text.count, _MARKS))


def cost_of(size: int, marks: int, most: int = MOST_OF_REQUEST) -> int:
    """Return the bytes that a parsed text takes. Raises TooLarge."""
    return _checked(3 * size + _VALUE * marks, most)


def cost_of_form(form: bytes) -> int:
    """Return the bytes that a form takes while it is parsed, mostly for its escaped characters. Raises TooLarge."""
    marks = sum(map(form.count, (b"%", b"&", b"="))) + len(form.translate(None, _BELOW_LEAD))
    return _checked(_WIDE * len(form) + _OF_FIELD * marks)


def cost_of_parts(body: bytes, boundary: bytes) -> int:
    """Return the bytes that a form with files takes: lines of heads and texts take many times their size. Raises
    TooLarge.
    """
    marks, texts, text_from = 0, 0, len(body)
    line = b"--" + re.escape(boundary)
    first = re.search(line + _HEAD, body)  # may be anywhere, the others begin a line
    others = re.compile(line + b"(?<=[\r\n]" + line + b")" + _HEAD)
    heads = chain([first], others.finditer(body, first.end())) if first else ()
    for head in islice(heads, Request.max_form_parts):  # werkzeug refuses more
        texts += max(0, head.start() - text_from)
        text_from = len(body) if _OF_FILE.match(head[1]) else head.end()
        marks += sum(map(head[1].count, (b"\r", b"\n", b";")))
    return 2 * len(body) + _checked(_WIDE * (texts + len(body) - text_from) + _OF_FIELD * marks)


def _checked(cost: int, most: int = MOST_OF_REQUEST) -> int:
    if cost > most:
        raise TooLarge(N_("Too many values; split the file"))
    return cost
