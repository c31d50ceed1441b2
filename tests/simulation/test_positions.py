"""The simulated forklifts: few false moves, and real ones seen in time. `tests.bench.positions` measures more."""

from __future__ import annotations

from itertools import islice

from tests.bench.positions import with_smoothing, without
from tests.simulation.measure import score, total
from tests.simulation.warehouse import scenarios, traces


def test_forklifts_between_docks_are_followed_and_nothing_flaps() -> None:
    scenario = next(one for one in scenarios() if one.name.startswith("docks"))
    end = scenario.hours * 3600
    watched = list(islice(traces(scenario), 3))
    before = total([score(trace, without(trace), end, scenario.passing) for trace in watched])
    after = total([score(trace, with_smoothing(trace, "rfid"), end, scenario.passing) for trace in watched])
    assert before.false_per_hour > 50 * after.false_per_hour
    assert after.delay(0.95) <= 5
    assert after.share_right > 0.98
