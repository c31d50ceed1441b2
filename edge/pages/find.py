"""The search of every page: assets, locations, readers, pages and the manual."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from flask import render_template, request

from edge.database.lists import SortTerm
from edge.pages import navigation
from edge.pages.forms import search_text
from edge.pages.guard import has_role, organization_id, viewers
from edge.pages.manual import manual
from edge.pages.translation import gettext
from edge.people.people import Role
from edge.readers import status
from edge.records import locations
from edge.records.record import RecordFilter
from edge.texts import N_
from edge.tracking.board import BoardFilter, board

MOST = 5  # of each kind
FEWEST_OF_MANUAL = 3  # characters


class Hit(NamedTuple):
    name: str
    detail: str
    address: str


@viewers.get("/find", manual="office#find")
def find() -> str:
    """Return the page of results, or only the results, which a page asks for while somebody types."""
    q = search_text(request.args.get("q", ""))
    template = "_found.html" if "part" in request.args else "find.html"
    return render_template(template, q=q, groups=list(_groups(q)) if q else [])


def _groups(q: str) -> Iterator[tuple[str, list[Hit]]]:
    needle = q.casefold()
    for title, hits in (
        (N_("Assets"), _assets(q)),
        (N_("Locations"), _locations(q)),
        (N_("Readers"), _readers(needle)),
        (N_("Pages"), _pages(needle)),
        (N_("Manual"), _sections(q)),
    ):
        if shown := list(islice(hits, MOST)):
            yield title, shown


def _assets(q: str) -> Iterable[Hit]:
    rows = board(organization_id(), BoardFilter(q), limit=MOST).rows
    return (Hit(one.name, one.location_name or one.external_key, f"/assets/{one.asset_id}") for one in rows)


def _locations(q: str) -> Iterable[Hit]:
    rows = locations.list_page(organization_id(), RecordFilter(q=q), limit=MOST, sort=(SortTerm("name"),)).rows
    return (Hit(one.name, one.external_key, f"/locations/{one.id}") for one in rows)


def _readers(needle: str) -> Iterable[Hit]:
    if has_role(Role.EDITOR):
        for one in status.list_states(organization_id()):
            if needle in one.name.casefold() or needle in one.topic.casefold():
                yield Hit(one.name, one.location_name or one.topic, f"/readers/{one.id}")


def _pages(needle: str) -> Iterable[Hit]:
    for title, places in navigation.groups():
        for one in places:
            if needle in gettext(one.name).casefold():
                yield Hit(gettext(one.name), gettext(title), one.address)


def _sections(q: str) -> Iterable[Hit]:
    if len(q) >= FEWEST_OF_MANUAL:
        for one in manual().search(q):
            yield Hit(one.heading, one.title, f"/manual/{one.chapter}#{one.anchor}")
