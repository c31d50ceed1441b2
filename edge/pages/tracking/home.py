"""Home: urgent tasks, the last 24 hours, areas compared with yesterday, longest dwell, latest moves.

Walls show a part of it. The moves of the last hours are kept for some seconds, because reading them takes longest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flask import render_template

from edge import clock
from edge.database.connection import are_people_hidden, reading
from edge.doors import passage_report
from edge.errors import HistoryUnavailable
from edge.muster import musters
from edge.operations.doctor import findings
from edge.pages import charts, formatting
from edge.pages.actions import add_fragment
from edge.pages.charts import Chart
from edge.pages.dates import exact
from edge.pages.guard import has_role, organization_id, viewers
from edge.pages.kept_values import KeptValues
from edge.pages.muster import musters as muster_pages
from edge.pages.operations import may_see_the_box
from edge.pages.readers.list import SILENT_AFTER
from edge.pages.tracking import history_notes
from edge.pages.translation import gettext
from edge.people import organizations
from edge.people.people import Role
from edge.readers import status
from edge.records import loans
from edge.rules import alerts
from edge.rules.alerts import AlertFilter
from edge.services import services
from edge.texts import N_
from edge.tracking import asset_values, board, flows, location_board
from edge.tracking.board import BoardFilter, BoardRow
from edge.tracking.flows import Moves
from edge.tracking.location_board import Branch

HOURS = 24
ROWS = 8
MOST_AREAS = 20
MISSING_HOURS = 24
MOST_LOW = 1_000
KEPT_SECONDS = 30.0
MOST_KEPT = 50


class Known(NamedTuple):
    """Results of the slowest queries at a moment: the moves since a time, and the assets at each location or below."""

    moves: Moves
    below: Mapping[int, int]


_kept: KeptValues[Known] = KeptValues(KEPT_SECONDS, MOST_KEPT)


class Item(NamedTuple):
    """Something that needs attention, with the page that lists it."""

    title: str
    number: int
    address: str


class Area(NamedTuple):
    """A part of the site: assets now and at the beginning of the period, and those that came and left since."""

    id: int
    name: str
    here: int
    before: int
    arrived: int
    left: int

    @property
    def difference(self) -> int:
        return self.here - self.before


class Day(NamedTuple):
    """The last 24 hours. `since` is their beginning; `inward` and `outward` count passages of doors.

    Without history, `moves` is None for the reason in `note`, and areas have their present numbers.
    """

    since: int
    areas: list[Area]
    moves: int | None
    inward: int
    outward: int
    by_hour: list[tuple[int, int]]
    is_of_doors: bool
    note: str = ""


@viewers.get("/home", manual="office#home")
def show_home() -> str:
    return render_template("tracking/home.html", **_values())


def _values() -> dict[str, Any]:
    day = day_of(organization_id())
    longest, latest = (
        board.board(organization_id(), BoardFilter(sort=sort), limit=ROWS).rows for sort in ("since", "-since")
    )
    return {
        "attention": attention(
            organization_id(),
            sees_readers=has_role(Role.EDITOR),
            sees_messages=has_role(Role.ADMINISTRATOR),
            sees_box=may_see_the_box(),
            sees_musters=muster_pages.may_muster(),
        ),
        "day": day,
        "chart": chart_of(day),
        "at": exact(day.since),
        "longest": _seen(longest),
        "latest": _seen(latest),
    }


add_fragment(viewers, "/home/now", "tracking/_home.html", _values, "attention", "day", "longest", "latest")


def _seen(rows: Sequence[BoardRow]) -> list[BoardRow]:
    return [row for row in rows if row.dwell_started_at is not None]


def attention(
    organization_id: int, *, sees_readers: bool, sees_messages: bool, sees_box: bool, sees_musters: bool
) -> list[Item]:
    """Return the tasks, the most urgent first, without those of number 0."""
    items = [Item(N_("Open alerts"), alerts.count_alerts(organization_id, AlertFilter()), "/alerts")]
    if sees_musters:
        items.insert(0, Item(N_("Open musters"), len(musters.open_musters(organization_id)), "/musters"))
    if sees_box and services().config.data_dir is not None:
        levels = findings.last(services().config.data_dir).levels.values()
        items.append(Item(N_("Faults of the box"), sum(1 for level in levels if level), "/status"))
    if sees_readers:
        counts = status.inbox_counts(organization_id)
        items.append(Item(N_("Readers offline"), _offline(organization_id), "/readers"))
        if sees_messages:
            items.append(Item(N_("Unreadable messages"), counts.dead_letters, "/readers/dead-letters"))
            items.append(Item(N_("Topics without a reader"), counts.topics, "/readers/topics"))
        items.append(Item(N_("Unmatched tags"), counts.unknown_tags, "/readers/unknown-tags"))
    items += [
        Item(N_("Overdue loans"), loans.count_overdue(organization_id), "/?show=overdue"),
        Item(N_("Assets not seen for 1 day"), _missing(organization_id), f"/not-seen?hours={MISSING_HOURS}"),
        Item(N_("Low batteries"), len(asset_values.list_low(organization_id, MOST_LOW)), "/battery-low"),
    ]
    return [item for item in items if item.number]


def sees_box_on_wall() -> bool:
    """Return True if faults of the box concern one organization only."""
    return len(organizations.list_organizations()) == 1


def _missing(organization_id: int) -> int:
    return board.count_unseen(organization_id, [MISSING_HOURS])[MISSING_HOURS]


def _offline(organization_id: int) -> int:
    silent_before = clock.now() - SILENT_AFTER
    return sum(
        row.is_enabled and bool(row.is_offline or (row.last_received_at or 0) < silent_before)
        for row in status.list_states(organization_id)
        if row.last_received_at is not None
    )


def day_of(organization_id: int) -> Day:
    """Return the last 24 hours, from the beginning of an hour."""
    since = clock.now() // clock.HOUR * clock.HOUR - (HOURS - 1) * clock.HOUR
    with reading():
        branches = location_board.tree(organization_id)
        known = _known(organization_id, since, branches)
    passed = passage_report.by_hour(organization_id, since)
    moves, below = known or Known(Moves([0] * HOURS, Counter()), {})
    by_hour = [passed.get(hour, (0, 0)) for hour in range(HOURS)] if passed else [(n, 0) for n in moves.by_hour]
    inward, outward = (sum(pair[side] for pair in passed.values()) for side in (0, 1))
    total = None if known is None else sum(moves.by_hour)
    note = "" if known else _why_missing(organization_id, since)
    return Day(since, _areas(branches, moves, below), total, inward, outward, by_hour, bool(passed), note)


def chart_of(day: Day) -> Chart:
    names = [formatting.moment(day.since + hour * clock.HOUR) for hour in range(HOURS)]
    title = gettext("In and out through doors by hour") if day.is_of_doors else gettext("Moves by hour")
    return charts.up_and_down(title, "", day.by_hour, names)


def _known(organization_id: int, since: int, branches: Sequence[Branch]) -> Known | None:
    """Return the moves since a time, at most `KEPT_SECONDS` old, or None without history."""
    if flows.are_too_many(organization_id, since):
        return None
    key = (organization_id, are_people_hidden(), since)
    try:
        below = {one.id: one.below for one in branches}
        return _kept.get(key, lambda: Known(flows.moves_since(organization_id, since, HOURS), below))
    except HistoryUnavailable:
        return None


def _why_missing(organization_id: int, since: int) -> str:
    return history_notes.TOO_MANY_MOVES if flows.are_too_many(organization_id, since) else history_notes.UNAVAILABLE


def forget() -> None:
    """Forget the moves that are kept."""
    _kept.clear()


def _areas(branches: Sequence[Branch], moves: Moves, below: Mapping[int, int]) -> list[Area]:
    """Return the locations at the top of the tree, or those below a single one, with the most assets first."""
    tops = [branch for branch in branches if branch.parent_id is None]
    if len(tops) == 1 and tops[0].children:
        tops = [branch for branch in branches if branch.parent_id == tops[0].id]
    top_ids = {branch.id for branch in tops}
    area_of: dict[int, int | None] = {}
    for branch in branches:  # parents first
        area_of[branch.id] = branch.id if branch.id in top_ids else area_of.get(branch.parent_id or 0)
    arrived, left = dict.fromkeys(top_ids, 0), dict.fromkeys(top_ids, 0)
    for (origin_id, location_id), number in moves.by_way.items():
        to, origin = area_of.get(location_id), area_of.get(origin_id or 0)
        if to != origin:
            if to is not None:
                arrived[to] += number
            if origin is not None:
                left[origin] += number
    areas = [
        Area(one.id, one.name, one.below, then + left[one.id] - arrived[one.id], arrived[one.id], left[one.id])
        for one in tops
        for then in [below.get(one.id, one.below)]
    ]
    return sorted(areas, key=lambda area: -area.here)[:MOST_AREAS]
