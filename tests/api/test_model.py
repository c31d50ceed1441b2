"""A site that is asked at random answers as a plain model of the specification does, from the first step to the last.

Always the same runs; `MODEL_RUNS=1000 python -m pytest tests/api/test_model.py` makes more of them. A failing run is
shortened as far as it goes on failing; what was asked in it is shown.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from flask import Flask
from jsonschema import ValidationError

from edge.store.database import close_database
from tests.api.conftest import make_app
from tests.api.model.site import Site

RUNS = int(os.environ.get("MODEL_RUNS", "15"))
STEPS = 200

Play = Callable[[list[str]], str | None]


@pytest.fixture(scope="module")
def app() -> Flask:
    return make_app()


@pytest.fixture
def play(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Take these steps at a new site; gives what went wrong."""

    def played(steps: list[str]) -> str | None:
        with TemporaryDirectory() as folder:
            site = Site(app, Path(folder), monkeypatch)
            try:
                for step in steps:
                    site.step(step)
                site.take_stock()
            except (AssertionError, ValidationError) as error:
                return "\n".join([*site.log, str(error)])
            finally:
                close_database()
        return None

    return played


def shortest(play: Play, steps: list[str]) -> list[str]:
    """End where it first fails, then leave out halves, quarters, and so on, as long as it still fails."""
    steps = steps[: bisect_left(range(len(steps)), True, key=lambda end: bool(play(steps[:end])))]
    size = len(steps)
    while size > 1:
        size = (size + 1) // 2
        for start in range(len(steps) - size, -1, -size):
            fewer = steps[:start] + steps[start + size :]
            if play(fewer):
                steps = fewer
    return steps


@pytest.mark.parametrize("run", range(RUNS))
def test_every_answer_is_the_one_the_model_gives(play: Play, run: int) -> None:
    steps = [f"{run}/{number}" for number in range(STEPS)]
    if play(steps):
        pytest.fail(str(play(shortest(play, steps))), pytrace=False)
