"""A form that is sent twice, by a double click on a slow link, is processed once; both get the same answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import redirect, request
from werkzeug.wrappers import Response

from edge.pages.guard import current_session

MOST = 2000  # forms that are remembered, the newest
LONGEST = 64  # characters; the names in our forms have 43


class _Sent:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.led_to = ""


_lock = threading.Lock()
_sent: OrderedDict[tuple[int, str, str], _Sent] = OrderedDict()


def once(view: Callable[..., Any]) -> Callable[..., Any]:
    """For views that create something, below their role. Forms name themselves in `once`; see `ui.once_field`."""

    @wraps(view)
    def answer(**arguments: Any) -> Any:
        name = request.form.get("once", "")
        if not 0 < len(name) <= LONGEST:
            return view(**arguments)
        sent = _remembered((current_session().person_id, request.path, name))
        with sent.lock:  # the second one waits for the first
            if sent.led_to:
                return redirect(sent.led_to, 303)
            answered = view(**arguments)
            if isinstance(answered, Response) and answered.status_code == 303:
                sent.led_to = answered.location or ""
            return answered

    return answer


def _remembered(key: tuple[int, str, str]) -> _Sent:
    with _lock:
        sent = _sent.setdefault(key, _Sent())
        _sent.move_to_end(key)
        if len(_sent) > MOST:
            _sent.popitem(last=False)
        return sent
