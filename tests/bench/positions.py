"""Measure how well positions agree with the truth over simulated readers: `tests/simulation`.

Compares "auto" and "off" with three simple rules that many sites use. "auto" is the position on the screen at each
moment, "history" the position known afterwards: there a move begins with its first read, not with the read that proved
it. Prints for each scenario: share of time at the right location, false moves an hour per asset, and the delay of real
moves (median and 95th percentile), also as a number of reads. In "history" a move is also false if it begins some
moments before the asset crosses the border.
Usage: python -m tests.bench.positions [--assets N]
"""

from __future__ import annotations

import argparse
import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from edge.clock import SECOND
from edge.tracking.decision_rule import Rule
from edge.tracking.packed_reads import ALWAYS, Recent
from edge.tracking.retrace import State, first_from, retrace
from edge.tracking.signal_strength import AntennaKind, weight_of
from edge.tracking.signs import ReaderOutages, Signs
from tests.simulation.measure import Decided, Score, score, total
from tests.simulation.warehouse import Scenario, SimulatedRead, Trace, scenarios, traces

GAP = 300 * SECOND
FORGOTTEN = 10.0  # seconds after which the simple rules ignore the last read of a location
SHOWN = 4  # seconds until the screen shows a portal or a silence
LATER = frozenset((Rule.PORTAL, Rule.SETTLED))
WORSE = 0.001


def without(trace: Trace) -> list[Decided]:
    """Treat every read at another location as a move."""
    decided: list[Decided] = []
    for read in trace.reads:
        if not decided or decided[-1][1] != read.location:
            decided.append((read.at, read.location))
    return decided


def with_smoothing(trace: Trace, scenario: Scenario) -> list[Decided]:
    """Return the moves in history. A move begins at its first read and is known at the read that decided it."""
    zone, portal = (weight_of(kind, scenario.tag_type) for kind in (AntennaKind.ZONE, AntennaKind.PORTAL))
    recent = Recent(ALWAYS)
    for read in trace.reads:
        weight = portal if read.location in scenario.portals else zone
        recent.add(round(read.at * SECOND), read.location, read.strength, weight, read.antenna)
    readers = ReaderOutages(0, scenario.reader_of, Signs())
    steps, _, _ = retrace(recent.detections, 0, State(None, 0, None), (), GAP, readers)
    return [(step.observed_at / SECOND, step.location_id) for step in steps]


def known_at(trace: Trace, scenario: Scenario) -> list[Decided]:
    """Return the moves as the screen shows them at the time."""
    zone, portal = (weight_of(kind, scenario.tag_type) for kind in (AntennaKind.ZONE, AntennaKind.PORTAL))
    recent = Recent(ALWAYS)
    for read in trace.reads:
        weight = portal if read.location in scenario.portals else zone
        recent.add(round(read.at * SECOND), read.location, read.strength, weight, read.antenna)
    readers, detections = ReaderOutages(0, scenario.reader_of, Signs()), recent.detections
    here, since, shown = None, 0, []
    seconds = sorted({one.second for one in detections})
    state, begin = State(None, 0, None), 0
    for number, second in enumerate(seconds):
        end = first_from(detections, second + 1)
        horizon = (seconds[number + 1] if number + 1 < len(seconds) else second + 100) - 1
        traced = retrace(detections[:end], begin, state, (), GAP, readers, horizon)
        for step in traced.steps:
            at = max(step.observed_at / SECOND, min(second + SHOWN, horizon) if step.rule in LATER else second)
            here, since = step.location_id, step.since
            shown.append((max(at, shown[-1][0] if shown else 0), here))
        held = traced.held
        begin = first_from(detections, held.second) if held else end
        state = State(here, since, traced.seen_at)
    return shown


def six_db_for_three_seconds(trace: Trace) -> list[Decided]:
    """Move to a location that is stronger by 6 dB for 3 s, comparing the last read of each."""
    return _by_level(trace, lambda _, strength: strength, 6.0, 3.0)


def smoothed_by_five_db(trace: Trace) -> list[Decided]:
    """Compare exponential means of each location (factor 0.15) with 5 dB of hysteresis."""
    return _by_level(trace, lambda before, strength: before + 0.15 * (strength - before), 5.0, 0.0)


def _by_level(trace: Trace, mean: Callable[[float, float], float], lead: float, seconds: float) -> list[Decided]:
    levels: dict[int, float] = {}
    last_read_at: dict[int, float] = {}
    ahead_since: dict[int, float] = {}
    decided: list[Decided] = []
    for read in trace.reads:
        before = levels.get(read.location, read.strength)
        levels[read.location] = mean(before, read.strength)
        last_read_at[read.location] = read.at
        if not decided:
            decided.append((read.at, read.location))
        here = decided[-1][1]
        gone = read.at - last_read_at[here] > FORGOTTEN
        if read.location == here or not (gone or levels[read.location] > levels[here] + lead):
            ahead_since.pop(read.location, None)
            continue
        since = ahead_since.setdefault(read.location, read.at)
        if read.at - since >= seconds:
            decided.append((read.at, read.location))
            ahead_since.clear()
    return decided


def strongest_in_five_seconds(trace: Trace) -> list[Decided]:
    """Return the location with the strongest read of the last 5 s."""
    decided: list[Decided] = []
    window: deque[SimulatedRead] = deque()
    for read in trace.reads:
        window.append(read)
        while window[0].at < read.at - 5:
            window.popleft()
        strongest = max(window, key=lambda one: one.strength).location
        if not decided or decided[-1][1] != strongest:
            decided.append((read.at, strongest))
    return decided


def described(name: str, scores: Sequence[Score]) -> str:
    whole = total(scores)
    late = "nothing moves"
    if whole.delays:
        late = f"{_seconds(whole.delay(0.5))} / {_seconds(whole.delay(0.95))}"
        late += f" ({whole.reads_until(0.5):.0f} / {whole.reads_until(0.95):.0f} reads)"
    return f"  {name:<8} right {whole.share_right:6.1%}, false moves {whole.false_per_hour:9.2f} an hour, delay {late}"


def _seconds(delay: float) -> str:
    return "never" if math.isinf(delay) else f"{delay:.1f} s"


RULES: dict[str, Callable[[Trace, Scenario], list[Decided]]] = {
    "off": lambda trace, _: without(trace),
    "6 dB 3 s": lambda trace, _: six_db_for_three_seconds(trace),
    "EMA 5 dB": lambda trace, _: smoothed_by_five_db(trace),
    "max 5 s": lambda trace, _: strongest_in_five_seconds(trace),
    "history": with_smoothing,
    "auto": known_at,
}


def compare(scenario: Scenario, count: int) -> None:
    end = scenario.hours * 3600
    scores: dict[str, list[Score]] = {name: [] for name in RULES}
    for trace in islice(traces(scenario), count or None):
        for name, rule in RULES.items():
            scores[name].append(score(trace, rule(trace, scenario), end, scenario.passing))
    print(scenario.name)
    for name, rows in scores.items():
        print(described(name, rows))
    auto = total(scores["auto"])
    fewer = total(scores["off"]).false_per_hour / max(auto.false_per_hour, 1e-9)
    print(f"  {'over 1000' if fewer > 1000 else f'{fewer:.0f}'} times fewer false moves, target 50")
    for name in ("6 dB 3 s", "EMA 5 dB", "max 5 s"):
        simple = total(scores[name])
        if simple.share_right > auto.share_right + WORSE:
            print(f"  NOT as good as {name}: right {auto.share_right:.1%} against {simple.share_right:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assets", type=int, default=0, help="of each scenario; 0: all")
    options = parser.parse_args()
    for scenario in scenarios():
        compare(scenario, options.assets)


if __name__ == "__main__":
    main()
