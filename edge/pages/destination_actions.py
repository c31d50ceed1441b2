"""Buttons that event destinations, channels and outputs have in common: test, enable, disable, remove."""

from __future__ import annotations

from typing import Protocol

from werkzeug.wrappers import Response

from edge.audit.actors import Actor
from edge.pages.guard import actor, pages, require_role
from edge.pages.notices import done
from edge.people.people import Role


class Destinations(Protocol):
    """The module that keeps the rows."""

    def request_test(self, actor: Actor, no: int) -> object: ...

    def enable(self, actor: Actor, no: int) -> object: ...

    def disable(self, actor: Actor, no: int) -> object: ...

    def remove(self, actor: Actor, no: int) -> object: ...


def add_actions(path: str, name: str, destinations: Destinations) -> None:
    """Add the routes of the buttons below `path`. `name` begins the keys of the notices."""

    @pages.post(f"{path}/<int:no>/test", endpoint=f"test_{name}")
    @require_role(Role.ADMINISTRATOR)
    def test(no: int) -> Response:
        destinations.request_test(actor(), no)
        return done(f"{path}/{no}", f"{name}-tested")

    @pages.post(f"{path}/<int:no>/enable", endpoint=f"enable_{name}")
    @require_role(Role.ADMINISTRATOR)
    def enable(no: int) -> Response:
        destinations.enable(actor(), no)
        return done(f"{path}/{no}", f"{name}-enabled")

    @pages.post(f"{path}/<int:no>/disable", endpoint=f"disable_{name}")
    @require_role(Role.ADMINISTRATOR)
    def disable(no: int) -> Response:
        destinations.disable(actor(), no)
        return done(f"{path}/{no}", f"{name}-disabled")

    @pages.post(f"{path}/<int:no>/remove", endpoint=f"remove_{name}")
    @require_role(Role.ADMINISTRATOR)
    def remove(no: int) -> Response:
        destinations.remove(actor(), no)
        return done(path, f"{name}-removed")
