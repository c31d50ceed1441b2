"""`edge init`: questions in a terminal."""

from __future__ import annotations

import sys

import click
import pytest

from tests.commands.conftest import PASSWORD, Shell


def test_a_password_that_is_too_short_is_asked_for_again(bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the installer ended, after the packages had been installed."""
    typed = iter(["short", PASSWORD, PASSWORD])
    monkeypatch.setattr(click.termui, "hidden_prompt_func", lambda _: next(typed))
    monkeypatch.setattr("edge.commands.context.sys", _Terminal())
    said = bare.ok("init", "--org", "Acme", "--email", "boss@acme.test")
    assert "at least 12 characters" in said
    assert "Created Acme with its administrator boss@acme.test. Start the service: edge serve" in said


class _Terminal:
    """The module sys with a terminal as standard input."""

    def __getattr__(self, name: str) -> object:
        return self if name == "stdin" else getattr(sys, name)

    def isatty(self) -> bool:
        return True
