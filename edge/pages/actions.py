"""Buttons that only call a function: to remove a door, to enable a rule, to test a channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from werkzeug.wrappers import Response

from edge.pages.guard import Again, Views, actor, administrators
from edge.pages.notices import done


def add_action(
    views: Views, path: str, act: Callable[..., object], then: str, notice: str, again: Again | None = None
) -> None:
    """Add the route of a button: it calls `act` with the actor and the ids in `path`, and leads to the page `then`, in
    which `{no}` stands for an id of that name. `again` as in `Views.post`.
    """

    def view(**ids: Any) -> Response:
        act(actor(), *ids.values())
        return done(then.format(**ids), notice)

    view.__name__ = path  # names the endpoint
    views.post(path, again=again)(view)


def add_actions(path: str, name: str, store: Any) -> None:
    """Add the buttons that event destinations, channels and outputs have in common. `name` begins their notices.

    `store`: the module of the rows.
    """
    one = f"{path}/<int:no>"
    for act, done_by in (("test", store.request_test), ("enable", store.enable), ("disable", store.disable)):
        add_action(administrators, f"{one}/{act}", done_by, f"{path}/{{no}}", f"{name}-{act.removesuffix('e')}ed")
    add_action(administrators, f"{one}/remove", store.remove, path, f"{name}-removed")
