"""Random requests get the responses that a model of the specification predicts.

The suite repeats the same steps; `MODEL_RUNS=1000 .venv/bin/pytest tests/api/test_model.py` takes that many runs of up
to 150 new steps. Hypothesis shrinks a failing run and prints its requests.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from edge.database.connection import close_database
from tests.api.model.site import ACTIONS, Site
from tests.application import make_app

RUNS = int(os.environ.get("MODEL_RUNS", "0"))
STEPS = 150
APP = make_app()


class AskedAtRandom(RuleBasedStateMachine):
    """Give each step its own seed, so removing one from a failing run does not change the others."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.site = Site(APP, Path(self.folder.name), self.patch)

    @rule(action=st.sampled_from(ACTIONS), seed=st.integers(0, 2**32))
    def take(self, action: Callable[[Site], None], seed: int) -> None:
        self.site.dice = Random(seed)
        try:
            action(self.site)
        except AssertionError as error:
            error.add_note("\n".join(self.site.log))
            raise

    def teardown(self) -> None:
        try:
            self.site.take_stock()
        finally:
            self.patch.undo()
            close_database()
            self.folder.cleanup()


def test_every_response_is_the_one_of_the_model() -> None:
    run_state_machine_as_test(
        AskedAtRandom,
        settings=settings(
            max_examples=RUNS or 5,
            stateful_step_count=STEPS,
            derandomize=not RUNS,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
