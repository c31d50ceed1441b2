"""Charts as numbers: where each bar is in a plot of 1000 by 200. The template draws them, with a table beneath."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from edge import clock
from edge.pages import formatting
from edge.tracking.flows import Span
from edge.tracking.past import Stay

WIDTH, HEIGHT = 1000, 200
GAP = 0.15  # of the width of a bar with the space beside it
MOST_LABELS = 8  # below a chart
LEAST_HEIGHT = 2  # of a bar that is not zero


class Bar(NamedTuple):
    """`colour` is a number of the style sheet's palette; `told` is what hovering and tapping shows."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    label: str


class Chart(NamedTuple):
    """`upper` and `lower` are what the top and the bottom of the plot stand for, `zero` is where nothing is."""

    title: str
    about: str
    bars: Sequence[Bar]
    upper: str
    lower: str
    zero: float
    labels: Sequence[str]


def coming_and_going(spans: Sequence[Span], names: Sequence[str]) -> Chart:
    """What arrived upwards, what left downwards, by the same scale."""
    most = max(1, *(max(span.arrived, span.left) for span in spans))
    middle = HEIGHT / 2
    bars = []
    for number, (span, name) in enumerate(zip(spans, names, strict=True)):
        x, width = _slot(number, len(spans))
        for count, colour, word in ((span.arrived, 0, "arrived"), (span.left, 1, "left")):
            if count:
                height = max(count / most * middle, LEAST_HEIGHT)
                y = middle - height if colour == 0 else middle
                bars.append(Bar(x, round(y, 1), width, round(height, 1), colour, f"{name}: {count:,} {word}"))
    came, went = sum(span.arrived for span in spans), sum(span.left for span in spans)
    about = f"{came:,} arrived and {went:,} left; bars upwards are arrivals, bars downwards what left."
    return Chart("Arrived and left", about, bars, f"{most:,} arrived", f"{most:,} left", middle, _labels(names))


def presence(spans: Sequence[Span], names: Sequence[str]) -> Chart:
    """How many assets were there, on average over each piece of time."""
    means = [mean(span) for span in spans]
    most = max(1.0, *means)
    bars = []
    for number, (value, name) in enumerate(zip(means, names, strict=True)):
        if value:
            x, width = _slot(number, len(spans))
            height = round(max(value / most * HEIGHT, LEAST_HEIGHT), 1)
            bars.append(Bar(x, HEIGHT - height, width, height, 2, f"{name}: {value:,.1f} assets on average"))
    about = f"At most {most:,.1f} assets on average in one of {len(spans)} bars."
    return Chart("Assets there, on average", about, bars, f"{most:,.0f}", "0", HEIGHT, _labels(names))


def strengths(title: str, counts: Sequence[int], weakest: int, step: int) -> Chart:
    """How often reads were how strong, in dBm."""
    most, names = max(1, *counts), [f"{weakest + number * step} dBm" for number in range(len(counts))]
    bars = []
    for number, (count, name) in enumerate(zip(counts, names, strict=True)):
        if count:
            x, width = _slot(number, len(counts))
            height = round(max(count / most * HEIGHT, LEAST_HEIGHT), 1)
            label = f"{name} to {weakest + (number + 1) * step} dBm: {formatting.plural(count, 'read')}"
            bars.append(Bar(x, HEIGHT - height, width, height, 2, label))
    about = f"{formatting.plural(sum(counts), 'read')} by strength, from {names[0]} to {names[-1]}."
    labels = [names[0], names[len(names) // 2], names[-1]]
    return Chart(title, about, bars, f"{most:,}", "0", HEIGHT, labels)


def mean(span: Span) -> float:
    return span.asset_time / (span.until - span.since)


def dwell(stays: Sequence[Stay], edges: Sequence[int], names: Sequence[str], colours: Mapping[int, int]) -> Chart:
    """How long the asset was at each location in each piece of time, as parts of one bar."""
    longest = max(until - since for since, until in pairwise(edges))
    bars = []
    for number, (name, times) in enumerate(zip(names, dwell_times(stays, edges), strict=True)):
        x, width = _slot(number, len(names))
        y = float(HEIGHT)
        for stay, taken in times.values():
            height = taken / longest * HEIGHT
            y -= height
            label = f"{name}: {stay.location_name}, {formatting.micros_duration(taken)}"
            bars.append(Bar(x, round(y, 1), width, round(height, 1), colours[stay.location_id], label))
    upper = formatting.micros_duration(longest)
    return Chart("Time at each location", f"A full bar is {upper}.", bars, upper, "0", HEIGHT, _labels(names))


def dwell_times(stays: Iterable[Stay], edges: Sequence[int]) -> list[dict[int, tuple[Stay, int]]]:
    """For each piece of time, by location: a stay there, and how long all of them lasted within the piece."""
    times: list[dict[int, tuple[Stay, int]]] = [{} for _ in edges[1:]]
    for stay in stays:
        for number, (since, until) in enumerate(pairwise(edges)):
            taken = min(stay.until, until) - max(stay.observed_at, since)
            if taken > 0:
                before = times[number].get(stay.location_id, (stay, 0))[1]
                times[number][stay.location_id] = (stay, before + taken)
    return times


def names_of(edges: Sequence[int]) -> list[str]:
    """Of the pieces between them: `2026-03-02 14:00` for an hour, `2026-03-02` for a day."""
    is_by_hour = len(edges) > 1 and edges[1] - edges[0] <= clock.HOUR
    moments = [formatting.moment(edge) for edge in edges[:-1]]
    return moments if is_by_hour else [moment[:10] for moment in moments]


def _slot(number: int, slots: int) -> tuple[float, float]:
    width = WIDTH / slots
    return round((number + GAP / 2) * width, 1), round((1 - GAP) * width, 1)


def _labels(names: Sequence[str]) -> list[str]:
    """Below a chart: one for each bar while they are few, else the first, the middle and the last."""
    shown = names if len(names) <= MOST_LABELS else (names[0], names[len(names) // 2], names[-1])
    return [_short(name) for name in shown]


def _short(name: str) -> str:
    """`14:00` of an hour, `2 Mar` of a day."""
    if len(name) > len("2026-03-02"):
        return name[-5:]
    day = date.fromisoformat(name)
    return f"{day.day} {day:%b}"
