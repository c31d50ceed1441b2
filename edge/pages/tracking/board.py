"""The start page: all assets with location, time there, and last seen, in the columns chosen on this device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from flask import redirect, render_template, request
from werkzeug.datastructures import MultiDict

from edge.pages import cookies
from edge.pages.actions import add_fragment
from edge.pages.forms import search_text, whole
from edge.pages.guard import Answer, is_own_path, organization_id, viewers
from edge.pages.paging import Heading, heading, offset_asked, pager
from edge.pages.translation import gettext
from edge.readers.first_steps import first_steps
from edge.records import loans
from edge.records.loans import LoanFilter
from edge.rules import saved_filters
from edge.rules.saved_filters import SavedFilter
from edge.sync.store import sites
from edge.texts import N_
from edge.tracking import location_board
from edge.tracking.board import DEFAULT_SORT, SORTS, BoardFilter, board

PER_PAGE = 50
Name = TypeVar("Name")

MOST_QUICK = 8  # saved filters above the list
UNSEEN = {
    0: N_("Seen at any time"),
    1: N_("Not seen for 1 hour"),
    8: N_("Not seen for 8 hours"),
    24: N_("Not seen for 1 day"),
    72: N_("Not seen for 3 days"),
    168: N_("Not seen for 7 days"),
    720: N_("Not seen for 30 days"),
}
SHOWS = {
    "": N_("Current assets"),
    "lent": N_("Lent assets"),
    "overdue": N_("Overdue assets"),
    "retired": N_("Retired assets"),
}

# The name is always shown.
COLUMNS = {
    "key": N_("Key"),
    "location": N_("Location"),
    "area": N_("Area"),
    "since": N_("There for"),
    "seen": N_("Not seen for"),
    "borrower": N_("Borrower"),
}
USUAL = ("key", "location", "since", "seen")
_SEPARATOR = "."  # needs no quotes in a cookie

HEADINGS = {"name": N_("Asset")} | {name: title for name, title in COLUMNS.items() if name in SORTS}
ORDERS = {
    "name": N_("By asset"),
    "key": N_("By key"),
    "location": N_("By location"),
    "since": N_("By there for"),
    "seen": N_("By not seen for"),
}


@viewers.get("/", manual="office#board")
def show_board() -> str:
    shown = _rows()
    query, offset = shown["query"], offset_asked()
    return render_template(
        "tracking/board.html",
        shows=_translated(SHOWS),
        filters=[(row.name, board_query(row.filter)) for row in _quick_filters()],
        present=board_query(query),
        saved_fields=parse_qsl(board_query(query)),
        sites=sites.names_by_location(organization_id()),
        locations=location_board.choices(organization_id()),
        unseen=_translated(UNSEEN),
        **_steps(),
        sorts=_translated(ORDERS),
        all_columns=_translated(COLUMNS),
        file_columns=query_of_file(),
        here_again="/?" + board_query(query, offset),
        live="/board/rows?" + board_query(query, offset),
        **shown,
    )


def _steps() -> dict[str, Any]:
    """Return the progress of setup."""
    return {"steps": first_steps(organization_id())}


add_fragment(viewers, "/board/steps", "tracking/_first-steps.html", _steps, "steps")


def _rows() -> dict[str, Any]:
    """Return the rows that the query asks for."""
    query = board_filter(request.args)
    page = board(organization_id(), query, limit=PER_PAGE, offset=offset_asked())
    lent = loans.of_assets(organization_id(), [row.asset_id for row in page.rows])
    overdue = [loan.is_overdue for loan in lent.values()]
    return {"page": page, "loans": lent, "overdue": overdue, "query": query, **_pager(query)}


add_fragment(viewers, "/board/rows", "tracking/_board-rows.html", _rows, "page", "loans", "overdue", "columns")


def _translated(titles: Mapping[Name, str]) -> dict[Name, str]:
    return {name: gettext(title) for name, title in titles.items()}


def _quick_filters() -> list[SavedFilter]:
    return saved_filters.list_filters(organization_id())[:MOST_QUICK]


def board_filter(values: MultiDict[str, str]) -> BoardFilter:
    """Parse the filter in a URL, ignoring invalid values."""
    location_id = values.get("location", 0, type=whole)
    hours = values.get("unseen", 0, type=whole)
    q = search_text(values.get("q", ""))
    sort = values.get("sort", DEFAULT_SORT)
    return BoardFilter(
        q,
        location_id or None,
        min(max(hours, 0), 100_000),
        sort if sort.removeprefix("-") in SORTS else DEFAULT_SORT,
        values.get("show") == "retired",
        values.get("site", 0, type=whole) or None,
        LoanFilter(values["show"]) if values.get("show") in list(LoanFilter) else None,
    )


def board_query(query: BoardFilter, offset: int = 0) -> str:
    """Format a filter as a query string for `board_filter`."""
    values = {
        "q": query.q,
        "site": query.site_id,
        "location": query.location_id,
        "unseen": query.unseen_hours,
        "show": "retired" if query.retired else query.loan or "",
        "sort": query.sort if query.sort != DEFAULT_SORT else "",
        "offset": offset,
    }
    return urlencode({name: value for name, value in values.items() if value})


def _pager(query: BoardFilter) -> dict[str, object]:
    return {
        "labels": "/labels?" + board_query(query),
        "bulk": "/bulk?" + board_query(query),
        "export": "/export/board.csv?" + "&".join(filter(None, (board_query(query), urlencode(query_of_file())))),
        "headings": {sort: _heading(query, sort) for sort in HEADINGS},
        "columns": chosen_columns(),
        **pager(PER_PAGE, lambda row: "/?" + board_query(query, row)),
    }


def _heading(query: BoardFilter, sort: str) -> Heading:
    return heading(gettext(HEADINGS[sort]), sort, query.sort, lambda by: "/?" + board_query(query._replace(sort=by)))


@viewers.post("/board/columns")
def choose_columns() -> Answer:
    """Save the columns for this device."""
    back = request.form.get("next", "")
    response = redirect(back if is_own_path(back) else "/", 303)
    chosen = _known(request.form.getlist("column"))
    if chosen == USUAL:
        cookies.delete(response, cookies.COLUMNS)
    else:
        cookies.write(response, cookies.COLUMNS, _SEPARATOR.join(("name", *chosen)), cookies.LONGEST_SECONDS)
    return response


def chosen_columns() -> tuple[str, ...]:
    """Return the columns to show on this device."""
    saved = cookies.read(cookies.COLUMNS)
    return _known(saved.split(_SEPARATOR)) if saved else USUAL


def columns_of_file() -> tuple[str, ...] | None:
    """Return the columns that the query asks for, or None without any."""
    asked = request.args.get("columns")
    return None if asked is None else _known(asked.split(_SEPARATOR))


def query_of_file() -> dict[str, str]:
    """Return the query for `columns_of_file` with the columns of this device, nothing with the usual ones."""
    chosen = chosen_columns()
    return {} if chosen == USUAL else {"columns": _SEPARATOR.join(("name", *chosen))}


def _known(names: Iterable[str]) -> tuple[str, ...]:
    given = set(names)
    return tuple(name for name in COLUMNS if name in given)
