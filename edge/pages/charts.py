"""Bar charts as numbers in a plot of 1000 by 200. Templates draw them, with a table below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from edge import clock
from edge.pages import formatting
from edge.pages.formatting import count as number_of
from edge.pages.translation import gettext, localized, ngettext
from edge.texts import N_
from edge.tracking.flows import Span
from edge.tracking.past import Stay

WIDTH, HEIGHT = 1000, 200
GAP = 0.15  # share of the space between two bars
MOST_LABELS = 8
LEAST_HEIGHT = 2  # of bars above zero
MONTHS = (
    *(N_("Jan"), N_("Feb"), N_("Mar"), N_("Apr"), N_("May"), N_("Jun")),
    *(N_("Jul"), N_("Aug"), N_("Sep"), N_("Oct"), N_("Nov"), N_("Dec")),
)


class Bar(NamedTuple):
    """`color` is an index in the palette of the style sheet; `label` is shown on hover and tap."""

    x: float
    y: float
    width: float
    height: float
    color: int
    label: str


class Chart(NamedTuple):
    """`upper` and `lower` label the top and bottom of the plot; `zero` is the position of the axis."""

    title: str
    about: str
    bars: Sequence[Bar]
    upper: str
    lower: str
    zero: float
    labels: Sequence[str]


def coming_and_going(spans: Sequence[Span], names: Sequence[str]) -> Chart:
    """Return arrivals as bars upward and departures as bars downward, on the same scale."""
    came, went = sum(span.arrived for span in spans), sum(span.left for span in spans)
    about = gettext("%(came)s, %(went)s; bars upward are arrivals, bars downward departures.") % {
        "came": _moved(came, 0),
        "went": _moved(went, 1),
    }
    numbers = [(span.arrived, span.left) for span in spans]
    return up_and_down(gettext("Arrivals and departures"), about, numbers, names, _moved)


def _moved(count: int, color: int) -> str:
    if color:
        return ngettext("%(num)s left", "%(num)s left", count) % {"num": number_of(count)}
    return ngettext("%(num)s arrived", "%(num)s arrived", count) % {"num": number_of(count)}


def _plain(count: int, _color: int) -> str:
    return number_of(count)


def up_and_down(
    title: str,
    about: str,
    numbers: Sequence[tuple[int, int]],
    names: Sequence[str],
    label: Callable[[int, int], str] = _plain,
) -> Chart:
    """Return the first number of each period as a bar upward, and the second one downward, on the same scale.

    `label` describes a number and its color. The ends of the plot have plain numbers, which nobody takes for totals.
    """
    most = max(1, *(max(pair) for pair in numbers))
    middle = HEIGHT / 2 if any(down for _, down in numbers) else HEIGHT
    bars = []
    for number, (pair, name) in enumerate(zip(numbers, names, strict=True)):
        x, width = _slot(number, len(numbers))
        for color, count in enumerate(pair):
            if count:
                height = max(count / most * middle, LEAST_HEIGHT)
                y = middle - height if color == 0 else middle
                bars.append(Bar(x, round(y, 1), width, round(height, 1), color, f"{name}: {label(count, color)}"))
    lower = number_of(most) if middle < HEIGHT else "0"
    return Chart(title, about, bars, number_of(most), lower, middle, _labels(names))


def presence(spans: Sequence[Span], names: Sequence[str]) -> Chart:
    """Return the average number of assets in each period."""
    means = [mean(span) for span in spans]
    most = max(1.0, *means)
    bars = []
    for number, (value, name) in enumerate(zip(means, names, strict=True)):
        if value:
            x, width = _slot(number, len(spans))
            height = round(max(value / most * HEIGHT, LEAST_HEIGHT), 1)
            label = gettext("%(name)s: %(number)s assets on average") % {"name": name, "number": _decimal(value)}
            bars.append(Bar(x, HEIGHT - height, width, height, 2, label))
    about = gettext("Highest average in %(bars)s bars: %(number)s assets.") % {
        "bars": len(spans),
        "number": _decimal(most),
    }
    upper = number_of(round(most))
    return Chart(gettext("Average number of assets"), about, bars, upper, "0", HEIGHT, _labels(names))


def _decimal(value: float) -> str:
    return localized(f"{value:,.1f}")


def strengths(title: str, counts: Sequence[int], weakest: int, step: int) -> Chart:
    """Return the distribution of signal strengths in dBm."""
    most, names = max(1, *counts), [f"{weakest + number * step} dBm" for number in range(len(counts))]
    bars = []
    for number, (count, name) in enumerate(zip(counts, names, strict=True)):
        if count:
            x, width = _slot(number, len(counts))
            height = round(max(count / most * HEIGHT, LEAST_HEIGHT), 1)
            upper = f"{weakest + (number + 1) * step} dBm"
            label = gettext("%(from)s to %(to)s: %(reads)s") % {"from": name, "to": upper, "reads": _reads(count)}
            bars.append(Bar(x, HEIGHT - height, width, height, 2, label))
    about = gettext("%(reads)s by strength, from %(from)s to %(to)s.") % {
        "reads": _reads(sum(counts)),
        "from": names[0],
        "to": names[-1],
    }
    labels = [names[0], names[len(names) // 2], names[-1]]
    return Chart(title, about, bars, number_of(most), "0", HEIGHT, labels)


def _reads(count: int) -> str:
    return ngettext("%(num)s read", "%(num)s reads", count) % {"num": number_of(count)}


def mean(span: Span) -> float:
    return span.asset_time / (span.until - span.since)


def dwell(stays: Sequence[Stay], edges: Sequence[int], names: Sequence[str], colors: Mapping[int, int]) -> Chart:
    """Return the time at each location in each period, as stacked bars."""
    longest = max(until - since for since, until in pairwise(edges))
    bars = []
    for number, (name, times) in enumerate(zip(names, dwell_times(stays, edges), strict=True)):
        x, width = _slot(number, len(names))
        y = float(HEIGHT)
        for stay, taken in times.values():
            height = taken / longest * HEIGHT
            y -= height
            label = f"{name}: {stay.location_name}, {formatting.micros_duration(taken)}"
            bars.append(Bar(x, round(y, 1), width, round(height, 1), colors[stay.location_id], label))
    upper = formatting.micros_duration(longest)
    about = gettext("A full bar is %(duration)s.") % {"duration": upper}
    return Chart(gettext("Time at each location"), about, bars, upper, "0", HEIGHT, _labels(names))


def dwell_times(stays: Iterable[Stay], edges: Sequence[int]) -> list[dict[int, tuple[Stay, int]]]:
    """Return, for each period and location, one stay and the total duration of all stays."""
    times: list[dict[int, tuple[Stay, int]]] = [{} for _ in edges[1:]]
    for stay in stays:
        for number, (since, until) in enumerate(pairwise(edges)):
            taken = min(stay.until, until) - max(stay.observed_at, since)
            if taken > 0:
                before = times[number].get(stay.location_id, (stay, 0))[1]
                times[number][stay.location_id] = (stay, before + taken)
    return times


def names_of(edges: Sequence[int]) -> list[str]:
    """Name the periods between edges: `2026-03-02 14:00` for hours, `2026-03-02` for days, as in `formatting`."""
    is_by_hour = len(edges) > 1 and edges[1] - edges[0] <= clock.HOUR
    name_of = formatting.moment if is_by_hour else formatting.day
    return [name_of(edge) for edge in edges[:-1]]


def _slot(number: int, slots: int) -> tuple[float, float]:
    width = WIDTH / slots
    return round((number + GAP / 2) * width, 1), round((1 - GAP) * width, 1)


def _labels(names: Sequence[str]) -> list[str]:
    """Return one label per bar if there are few bars, else the first, middle and last one."""
    shown = names if len(names) <= MOST_LABELS else (names[0], names[len(names) // 2], names[-1])
    return [_short(name) for name in shown]


def _short(name: str) -> str:
    """Shorten a name to `14:00` for an hour or `2 Mar` for a day, as usual in the language of the page."""
    if len(name) > len("2026-03-02"):
        return name[-5:]
    day = datetime.strptime(name, formatting.date_pattern())
    return gettext("%(day)s %(month)s") % {"day": day.day, "month": gettext(MONTHS[day.month - 1])}
