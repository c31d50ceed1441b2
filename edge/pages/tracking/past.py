"""Past positions: the board at a past moment, history of an asset or location, and assets that are missing."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import render_template, request

from edge import clock
from edge.database.lists import Page
from edge.pages import charts
from edge.pages.dates import exact, local, requested_days, requested_moment, shortcuts
from edge.pages.forms import search_text, whole
from edge.pages.guard import organization_id, viewers
from edge.pages.paging import Heading, heading, offset_asked, pager
from edge.pages.tracking import timeline
from edge.pages.tracking.board import UNSEEN
from edge.pages.translation import gettext
from edge.records import assets, locations
from edge.texts import N_
from edge.tracking import asset_values, board, flows, location_board, past, past_board
from edge.tracking.board import BoardFilter
from edge.tracking.past import DEFAULT_SORT, SORTS, PastFilter

PER_PAGE = 50
MOST_DAYS = 92
MINUTE = 60 * clock.SECOND
LENGTHS = (1, 7, 31)
COLUMNS = {"name": N_("Asset"), "key": N_("Key"), "location": N_("Location"), "seen": N_("Last seen before")}
STEPS = {
    N_("A day earlier"): -clock.DAY,
    N_("An hour earlier"): -clock.HOUR,
    N_("An hour later"): clock.HOUR,
    N_("A day later"): clock.DAY,
}


@viewers.get("/past", manual="office#past-positions")
def show_past() -> str:
    """Show the board at a past moment."""
    now = clock.now()
    query = past_filter(now)
    offset = offset_asked()
    return render_template(
        "tracking/past.html",
        page=past_board.board_at(organization_id(), query, limit=PER_PAGE, offset=offset),
        query=query,
        at=local(query.at),
        latest=local(now),
        steps={
            gettext(name): _query_string(query._replace(at=min(query.at + step, now))) for name, step in STEPS.items()
        },
        locations=location_board.choices(organization_id()),
        headings={sort: _heading(query, sort) for sort in COLUMNS},
        **pager(PER_PAGE, lambda row: "/past?" + _query_string(query, row)),
        export=_query_string(query),
    )


def past_filter(now: int) -> PastFilter:
    """Parse the filter in the URL. The default is an hour ago; the future is replaced by now.

    The time is cut to minutes, because URLs have no seconds and the CSV file must match the page.
    """
    values = request.args
    at = max(0, min(requested_moment(now - clock.HOUR), now))
    sort = values.get("sort", DEFAULT_SORT)
    return PastFilter(
        at - at % MINUTE,
        search_text(values.get("q", "")),
        values.get("location", 0, type=whole) or None,
        sort if sort.removeprefix("-") in SORTS else DEFAULT_SORT,
    )


def _query_string(query: PastFilter, offset: int = 0) -> str:
    values = {
        "at": exact(query.at),
        "q": query.q,
        "location": query.location_id,
        "sort": query.sort if query.sort != DEFAULT_SORT else "",
        "offset": offset,
    }
    return urlencode({name: value for name, value in values.items() if value})


def _heading(query: PastFilter, sort: str) -> Heading:
    return heading(
        gettext(COLUMNS[sort]), sort, query.sort, lambda by: "/past?" + _query_string(query._replace(sort=by))
    )


@viewers.get("/assets/<int:asset_id>/history", manual="office#past-positions")
def asset_history(asset_id: int) -> str:
    """Show the stays on the selected days, and the time at each location."""
    asset = assets.get_any(organization_id(), asset_id)
    days = requested_days(7, MOST_DAYS)
    edges = days.edges()
    end = min(edges[-1], asset.deleted_at or edges[-1])
    stays = past.stays(organization_id(), asset_id, since=days.since, until=end)
    clipped = [stay._replace(observed_at=max(stay.observed_at, days.since)) for stay in stays.rows]
    strip = timeline.strip(clipped[::-1], end)
    names = charts.names_of(edges)
    offset = offset_asked()
    colors = strip.colors if strip else {stay.location_id: 0 for stay in clipped}
    return render_template(
        "tracking/asset-history.html",
        asset=asset,
        days=days,
        shortcuts=shortcuts(LENGTHS),
        page=Page(stays.rows[::-1][offset : offset + PER_PAGE], len(stays.rows)),
        **pager(PER_PAGE, lambda row: f"/assets/{asset_id}/history?{days.query}&offset={row}"),
        is_cut=stays.is_cut,
        strip=strip,
        chart=charts.dwell(clipped, edges, names, colors) if len(edges) > 1 and clipped else None,
        spent=list(zip(names, charts.dwell_times(clipped, edges), strict=True)),
        most=past.MOST_ROWS,
    )


@viewers.get("/locations/<int:location_id>/history", manual="office#past-positions")
def location_history(location_id: int) -> str:
    """Show arrivals, departures and average presence by hour or day."""
    location = locations.get(organization_id(), location_id)
    days = requested_days(7, MOST_DAYS)
    edges = days.edges()
    spans = flows.flow(organization_id(), location_id, edges) if len(edges) > 1 else []
    names = charts.names_of(edges)
    drawn = [charts.coming_and_going(spans, names), charts.presence(spans, names)] if spans else []
    rows = [(name, span, charts.mean(span)) for name, span in zip(names, spans, strict=True)]
    return render_template(
        "tracking/location-history.html",
        location=location,
        way=location_board.way_to(location_board.tree(organization_id()), location_id),
        days=days,
        shortcuts=shortcuts(LENGTHS),
        charts=drawn,
        rows=rows[::-1],
    )


@viewers.get("/battery-low", manual="readers#sensor-values")
def show_low_batteries() -> str:
    """Show assets whose tag has a low battery, the lowest first."""
    offset = offset_asked()
    rows = asset_values.list_low(organization_id(), PER_PAGE + 1, offset)
    return render_template(
        "tracking/battery-low.html",
        rows=rows[:PER_PAGE],
        low=asset_values.LOW,
        earlier=f"/battery-low?offset={max(offset - PER_PAGE, 0)}" if offset else None,
        later=f"/battery-low?offset={offset + PER_PAGE}" if len(rows) > PER_PAGE else None,
    )


@viewers.get("/not-seen", manual="office#missing-assets")
def show_not_seen() -> str:
    """Show assets not seen for a long time, longest first."""
    hours = request.args.get("hours", 24, type=whole)
    hours = hours if hours in UNSEEN and hours else 24
    offset = offset_asked()
    counts = board.count_unseen(organization_id(), [length for length in UNSEEN if length])
    query = BoardFilter(unseen_hours=hours, sort="seen")
    return render_template(
        "tracking/not-seen.html",
        page=board.board(organization_id(), query, limit=PER_PAGE, offset=offset),
        counts=counts,
        lengths={length: gettext(title) for length, title in UNSEEN.items() if length},
        hours=hours,
        **pager(PER_PAGE, lambda row: f"/not-seen?hours={hours}&offset={row}"),
    )
