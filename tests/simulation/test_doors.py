"""Simulated doors: the model is frozen, and the passage rule keeps its promises in it. `tests.bench.doors` has more."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from tests.bench import doors as bench
from tests.bench.doors import RULES, Score, by_rule, compare
from tests.simulation import doors

FROZEN = "fee5a87ff9df99fb485395638f5bb47062f2dad4c0612ca66403b8b5ea83e720"
SEED = 8  # one of development; the published table has another one


def measured(name: str, share: float) -> Score:
    scenario = next(one for one in doors.scenarios() if one.name == name)
    return compare(scenario, share, SEED, {"edge": by_rule})["edge"]


def test_the_model_is_the_one_that_was_frozen_before_the_rule_existed() -> None:
    assert sha256(Path(doors.__file__).read_bytes()).hexdigest() == FROZEN


@pytest.mark.slow
@pytest.mark.parametrize("rate", [5, 10, 20])
def test_passages_with_enough_reads_are_detected_with_their_direction(rate: int) -> None:
    number, detected, right, _, wrong = measured(f"pass, {rate} a second", 0.5).detected(is_many=True)
    assert number > 100
    assert detected >= 0.97  # of 200; the table in the manual has more runs
    assert right >= 0.97
    assert wrong == 0


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1, 2, 5])
def test_with_few_reads_the_direction_is_unknown_rather_than_wrong(rate: int) -> None:
    _, _, right, unknown, wrong = measured(f"pass, {rate} a second", 0.5).detected(is_many=False)
    assert unknown > 0 or right == 1
    assert wrong <= 0.01


@pytest.mark.slow
def test_a_pallet_staged_for_hours_passes_nothing() -> None:
    score = measured("staged 3 m away for 10 hours, 5 a second", 0.1)
    assert score.hours >= 20  # the table in the manual has 660
    assert score.false_in_ten_hours < 1


@pytest.mark.slow
def test_simple_rules_are_worse_where_pallets_are_staged() -> None:
    scenario = next(one for one in doors.scenarios() if one.name.startswith("staged 1 to 5 m before and after, 10"))
    scores = compare(scenario, 0.2, SEED)
    assert set(scores) == set(RULES)
    ours = sum(scores["edge"].false.values())
    assert all(sum(scores[name].false.values()) > ours for name in bench.RULES if name != "edge")
