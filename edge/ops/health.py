"""Is the service alive, and is it ready? Each part registers one check; nothing here starts or stops anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Check(NamedTuple):
    """The answer of one part: `ok`, or a line that says what is wrong and what to do."""

    name: str
    ok: bool
    detail: str


class Health:
    """The parts of a running service, asked at the moment somebody wants to know."""

    def __init__(self) -> None:
        self._parts: list[tuple[Callable[[], Check], bool]] = []

    def register(self, check: Callable[[], Check], *, vital: bool = True) -> None:
        """A failing vital part makes the service not alive; another one only makes it not ready."""
        self._parts.append((check, vital))

    def checks(self) -> list[tuple[Check, bool]]:
        return [(check(), vital) for check, vital in self._parts]

    def is_alive(self) -> bool:
        return all(check.ok for check, vital in self.checks() if vital)
