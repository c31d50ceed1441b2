"""A form that is submitted twice, by a double click on a slow link, is processed once; both get the same response."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import abort, redirect, request
from werkzeug.wrappers import Response

from edge.pages.guard import current_session

MOST = 2000  # forms that are remembered, the newest
LONGEST = 64  # characters; the names in our forms have 43
PAGE_SECONDS = 60  # for which a page is remembered, since it shows a secret


class _Sent:
    """What the form was answered with, once it was processed: a redirect, or a page for as long as that is kept."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.led_to = ""
        self.page = ""
        self.page_until = 0.0

    def answer(self) -> Any:
        """None while nothing was created."""
        if self.led_to:
            return redirect(self.led_to, 303)
        if not self.page_until:
            return None
        if time.monotonic() > self.page_until:
            self.page = ""
            abort(409, "This form was sent before, and what it created is there. A secret is not shown again.")
        return self.page


_lock = threading.Lock()
_sent: OrderedDict[tuple[int, str, str], _Sent] = OrderedDict()


def once(view: Callable[..., Any]) -> Callable[..., Any]:
    """For views that create something, below their role. Forms name themselves in `once`; see `ui.once_field`.

    Such a view answers with a redirect, or with the page that shows what was created, and with a status beside it if it
    refused.
    """

    @wraps(view)
    def answer(**arguments: Any) -> Any:
        name = request.form.get("once", "")
        if not 0 < len(name) <= LONGEST:
            return view(**arguments)
        sent = _remembered((current_session().person_id, request.path, name))
        with sent.lock:  # the second one waits for the first
            if (known := sent.answer()) is not None:
                return known
            answered = view(**arguments)
            if isinstance(answered, Response) and answered.status_code == 303:
                sent.led_to = answered.location or ""
            elif isinstance(answered, str):
                sent.page, sent.page_until = answered, time.monotonic() + PAGE_SECONDS
            return answered

    return answer


def _remembered(key: tuple[int, str, str]) -> _Sent:
    with _lock:
        sent = _sent.setdefault(key, _Sent())
        _sent.move_to_end(key)
        if len(_sent) > MOST:
            _sent.popitem(last=False)
        return sent
