"""Simulated forklifts: few false moves, and timely real ones. `tests.bench.positions` measures more."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.bench.positions import known_at, with_smoothing, without
from tests.simulation.measure import score, total
from tests.simulation.warehouse import scenarios, traces

pytestmark = pytest.mark.slow


def test_forklifts_between_docks_are_followed_without_flapping() -> None:
    scenario = next(one for one in scenarios() if one.name.startswith("docks"))
    end = scenario.hours * 3600
    watched = list(islice(traces(scenario), 3))
    before = total([score(trace, without(trace), end, scenario.passing) for trace in watched])
    after = total([score(trace, known_at(trace, scenario), end, scenario.passing) for trace in watched])
    assert before.false_per_hour > 50 * after.false_per_hour
    assert after.delay(0.95) <= 5
    assert after.share_right > 0.98


def test_two_doors_in_range_do_not_flap_with_first_reads_only() -> None:
    scenario = next(one for one in scenarios() if one.name.startswith("two doors"))
    end = scenario.hours * 3600
    watched = list(islice(traces(scenario), 8))
    before = total([score(trace, without(trace), end, scenario.passing) for trace in watched])
    after = total([score(trace, known_at(trace, scenario), end, scenario.passing) for trace in watched])
    assert before.false_per_hour > 50 * after.false_per_hour
    assert after.share_right > 0.97


def test_with_repeats_after_5_s_most_moves_have_the_time_of_their_first_read() -> None:
    scenario = next(one for one in scenarios() if one.name.startswith("the same, a reader that repeats"))
    end = scenario.hours * 3600
    watched = list(islice(traces(scenario), 6))
    after = total([score(trace, with_smoothing(trace, scenario), end, scenario.passing) for trace in watched])
    shown = total([score(trace, known_at(trace, scenario), end, scenario.passing) for trace in watched])
    assert after.reads_until(0.7) == 1
    assert after.delay(0.5) <= 5
    assert not shown.false_moves


def test_a_portal_next_to_a_full_staging_area_detects_no_passages() -> None:
    scenario = next(one for one in scenarios() if one.name.startswith("a portal beside"))
    end = scenario.hours * 3600
    watched = list(islice(traces(scenario), 4))
    after = total([score(trace, known_at(trace, scenario), end, scenario.passing) for trace in watched])
    assert after.false_per_hour < 3
    assert after.share_right > 0.99
