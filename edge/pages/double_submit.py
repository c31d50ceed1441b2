"""Processes a form that is submitted twice, for example by a double click, only once. Both requests get the same
response.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import abort, redirect, request
from werkzeug.wrappers import Response

from edge.pages.guard import current_session
from edge.pages.kept_values import KeptValues
from edge.pages.translation import gettext

MOST = 2000  # newest forms that are remembered
LONGEST = 64  # characters; tokens in forms have 43
PAGE_SECONDS = 60  # pages are kept briefly, because they show a secret
MOST_PAGES = 50  # of all people; those of 2,000 forms would take up to 60 MB


class _Sent:
    """A processed form and its response: a redirect, or a page that is kept for a limited time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.led_to = ""
        self.has_page = False

    def answer(self) -> Any:
        """Return the response, or None if nothing was created."""
        if self.led_to:
            return redirect(self.led_to, 303)
        return _pages.get(self, _no_page) if self.has_page else None


def _no_page() -> str:
    abort(409, gettext("This form was already sent and its record was created. Secrets are not shown again."))


_lock = threading.Lock()
_sent: OrderedDict[tuple[int, str, str], _Sent] = OrderedDict()
_pages: KeptValues[str] = KeptValues(PAGE_SECONDS, MOST_PAGES)


def once(view: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a view that creates something; use below the role. The form contains `ui.once_field`.

    The view must return a redirect, or a page that shows the created record. A tuple with a status means that it
    refused.
    """

    @wraps(view)
    def answer(**arguments: Any) -> Any:
        name = request.form.get("once", "")
        if not 0 < len(name) <= LONGEST:
            return view(**arguments)
        sent = _remembered((current_session().person_id, request.path, name))
        with sent.lock:  # a second request waits for the first
            if (known := sent.answer()) is not None:
                return known
            answered = view(**arguments)
            if isinstance(answered, Response) and answered.status_code == 303:
                sent.led_to = answered.location or ""
            elif isinstance(answered, str):
                sent.has_page = True
                _pages.get(sent, lambda: answered)
            return answered

    return answer


def _remembered(key: tuple[int, str, str]) -> _Sent:
    with _lock:
        sent = _sent.setdefault(key, _Sent())
        _sent.move_to_end(key)
        if len(_sent) > MOST:
            _sent.popitem(last=False)
        return sent
