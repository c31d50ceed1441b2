"""Buttons that only call a function: to remove a door, to enable a rule, to test a channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from werkzeug.wrappers import Response

from edge.audit.actors import Actor
from edge.pages.guard import Views, actor, administrators
from edge.pages.notices import done


class Destinations(Protocol):
    """The module that keeps the rows."""

    def request_test(self, actor: Actor, no: int) -> object: ...
    def enable(self, actor: Actor, no: int) -> object: ...
    def disable(self, actor: Actor, no: int) -> object: ...
    def remove(self, actor: Actor, no: int) -> object: ...


def add_action(views: Views, path: str, act: Callable[..., object], then: str, notice: str) -> None:
    """Add the route of a button: it calls `act` with the actor and the ids in `path`, and leads to the page `then`, in
    which `{no}` stands for an id of that name.
    """

    def view(**ids: Any) -> Response:
        act(actor(), *ids.values())
        return done(then.format(**ids), notice)

    view.__name__ = path  # names the endpoint
    views.post(path)(view)


def add_actions(path: str, name: str, destinations: Destinations) -> None:
    """Add the buttons that event destinations, channels and outputs have in common. `name` begins their notices."""
    one = f"{path}/<int:no>"
    add_action(administrators, f"{one}/test", destinations.request_test, f"{path}/{{no}}", f"{name}-tested")
    add_action(administrators, f"{one}/enable", destinations.enable, f"{path}/{{no}}", f"{name}-enabled")
    add_action(administrators, f"{one}/disable", destinations.disable, f"{path}/{{no}}", f"{name}-disabled")
    add_action(administrators, f"{one}/remove", destinations.remove, path, f"{name}-removed")
