"""How well positions agree with the truth, with and without smoothing, over simulated readers: `tests/simulation`.

For each scenario: share of time at the right location, false moves an hour for each asset, and the delay of real moves
(half of them are seen within the first figure, 95 % within the second), also as a number of reads.
Usage: python -m tests.bench.positions [--assets N]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from itertools import islice

from edge.clock import SECOND
from edge.store.heard import AntennaKind, weight_of
from edge.store.recent import ALWAYS, Recent
from edge.store.retrace import State, retrace
from tests.simulation.measure import Decided, Score, score, total
from tests.simulation.warehouse import Scenario, Trace, scenarios, traces

GAP = 300 * SECOND


def without(trace: Trace) -> list[Decided]:
    """Every read at another location is a move."""
    decided: list[Decided] = []
    for read in trace.reads:
        if not decided or decided[-1][1] != read.location:
            decided.append((read.at, read.location))
    return decided


def with_smoothing(trace: Trace, tag_type: str) -> list[Decided]:
    """What history says; a move is there when the read came that decided it, within the second."""
    weight = weight_of(AntennaKind.ZONE, tag_type)
    recent = Recent(ALWAYS)
    for read in trace.reads:
        recent.add(round(read.at * SECOND), read.location, read.strength, weight)
    steps, _ = retrace(recent.heard, 0, State(None, 0, None), (), GAP)
    return [(step.observed_at / SECOND, step.location_id) for step in steps]


def described(name: str, scores: Sequence[Score]) -> str:
    whole = total(scores)
    late = "nothing moves"
    if whole.delays:
        late = f"{_seconds(whole.delay(0.5))} / {_seconds(whole.delay(0.95))}"
        late += f" ({whole.reads_until(0.5):.0f} / {whole.reads_until(0.95):.0f} reads)"
    return f"  {name:<8} right {whole.share_right:6.1%}, false moves {whole.false_per_hour:9.2f} an hour, delay {late}"


def _seconds(delay: float) -> str:
    return "never" if math.isinf(delay) else f"{delay:.1f} s"


def compare(scenario: Scenario, count: int) -> None:
    end = scenario.hours * 3600
    before, after = [], []
    for trace in islice(traces(scenario), count or None):
        before.append(score(trace, without(trace), end, scenario.passing))
        after.append(score(trace, with_smoothing(trace, scenario.tag_type), end, scenario.passing))
    print(scenario.name)
    print(described("off", before))
    print(described("auto", after))
    fewer = total(before).false_per_hour / max(total(after).false_per_hour, 1e-9)
    print(f"  {'over 1000' if fewer > 1000 else f'{fewer:.0f}'} times fewer false moves, target 50")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assets", type=int, default=0, help="of each scenario; 0: all")
    options = parser.parse_args()
    for scenario in scenarios():
        compare(scenario, options.assets)


if __name__ == "__main__":
    main()
