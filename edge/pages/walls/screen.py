"""What a wall shows: a page without a session, opened by the secret in its address.

Only GET, only of that wall. A session in the same browser changes nothing: a screen never shows more than its
link. Positions of people are left out unless the setting of the organization says that walls show them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, NamedTuple

from flask import Response, g, make_response, render_template, request
from markupsafe import Markup
from werkzeug.exceptions import TooManyRequests

from edge import clock
from edge.database.connection import hide_people
from edge.doors import doors, passage_report
from edge.doors.passage_rule import Direction
from edge.errors import NotFound, Unavailable
from edge.expected_lists import expected_lists
from edge.muster import musters
from edge.muster.musters import Muster
from edge.muster.whereabouts import Person
from edge.pages.guard import address, public
from edge.pages.kept_values import KeptValues
from edge.pages.polling import version_of
from edge.pages.rules.alerts import sentence
from edge.pages.tracking import home
from edge.pages.tracking.floor_plans import Spot, spot_of
from edge.rate_limits import Buckets, client_network
from edge.rules import alerts
from edge.rules.alerts import AlertFilter
from edge.services import services
from edge.texts import N_
from edge.tracking import floor_plans, location_board, tracked_people
from edge.tracking.floor_plans import Plan
from edge.walls import walls
from edge.walls.walls import Shows, Wall

MOST_ALERTS = 8
MOST_PASSAGES = 5
MOST_ITEMS = 6
MOST_AREAS = 5
MOST_LISTS = 3
MOST_LINES = 6  # of an expected list
MOST_PEOPLE = 12
RETRY_SECONDS = 30  # after an error, browsers load the page again
# Per wall and network: others with the link cannot stop the screen. A screen needs 20 requests in a minute.
_requests = Buckets(burst=120, per_second=10)

EVERY = {Shows.OVERVIEW: 10, Shows.PLAN: 5}  # seconds between requests; 3 for all others
KEPT_SECONDS = 1.0
MOST_KEPT = 100
_kept: KeptValues[str] = KeptValues(KEPT_SECONDS, MOST_KEPT)

DIRECTIONS = {
    Direction.IN: N_("in"),
    Direction.OUT: N_("out"),
    Direction.TURNED_BACK: N_("turned back"),
    Direction.UNKNOWN: N_("unknown direction"),
}
Screen = Callable[[Wall], Response]


class MusterCount(NamedTuple):
    """An open muster. `people`: the missing ones, only if walls may show people."""

    one: Muster
    missing: int
    safe: int
    people: list[Person]
    offline: list[str]


def _of_wall(screen: Screen) -> Callable[[str], Response]:
    """Find the wall of a code and give the request the rights of the wall."""

    @wraps(screen)
    def opened(code: str) -> Response:
        g.session = None
        g.pop("new_form_cookie", None)
        wall = walls.find_by_code(code)
        if wall is None:
            hide_people(True)
            response = make_response(render_template("walls/gone.html"), 404)
            response.headers["Refresh"] = str(RETRY_SECONDS)  # nobody is there to load it again
            return _secured(response)
        if not _requests.take(f"{wall.id} {client_network(address())}").allowed:
            raise TooManyRequests(retry_after=RETRY_SECONDS)
        g.language = wall.language
        hide_people(tracked_people.setting(wall.organization_id).is_hidden_on_walls)
        return _secured(screen(wall))

    return opened


def _secured(response: Response) -> Response:
    response.headers["Referrer-Policy"] = "no-referrer"  # the address is a secret
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return response


@public.get("/w/<code>", manual="walls#the-screen")
@_of_wall
def show_screen(wall: Wall) -> Response:
    with suppress(Unavailable):  # a full disk must not stop the screen
        walls.record_seen(wall)
    page = render_template(
        "walls/screen.html",
        wall=wall,
        address=f"/w/{_code()}",
        every=EVERY.get(wall.shows, 3),
        build=services().version,
        now=clock.now(),
        content=Markup(_content(wall)),  # noqa: S704 - rendered by a template
    )
    return make_response(page)


@public.get("/w/<code>/now")
@_of_wall
def screen_now(wall: Wall) -> Response:
    """Return the content. The page polls this."""
    with suppress(Unavailable):
        walls.record_seen(wall)
    text = _content(wall)
    version = version_of(text)
    response = Response(status=304) if request.if_none_match.contains(version) else make_response(text)
    response.set_etag(version)
    response.headers["Cache-Control"] = "private, no-cache"
    return response


@public.get("/w/<code>/plan")
@_of_wall
def screen_plan(wall: Wall) -> Response:
    """Return the drawing of the plan that the wall shows."""
    if wall.location_id is None:
        raise NotFound("this wall shows no plan")
    content, media_type = floor_plans.image(wall.organization_id, wall.location_id)
    response = Response(content, mimetype=media_type)
    response.headers["Cache-Control"] = "private, max-age=86400"
    return response


def _content(wall: Wall) -> str:
    """Return the content, at most a second old. Many screens with one link cost as much as one."""
    return _kept.get((wall.id, _code()), lambda: render_template("walls/_screen.html", **_values(wall)))


def _code() -> str:
    """Return the code in the address of the request, in its only spelling."""
    return walls.plain((request.view_args or {})["code"])


def _values(wall: Wall) -> dict[str, Any]:
    shown = {
        Shows.OVERVIEW: _overview,
        Shows.DOOR: _door,
        Shows.PLAN: _plan,
        Shows.LISTS: _lists,
    }.get(wall.shows)
    newest = MOST_ALERTS if wall.shows == Shows.ALERTS else 1
    return {
        "wall": wall,
        "address": f"/w/{_code()}",
        "Shows": Shows,
        "most_lines": MOST_LINES,
        "build": services().version,
        "musters": _musters(wall),
        "alerts": [
            (alert, sentence(alert)) for alert in alerts.list_alerts(wall.organization_id, AlertFilter(), newest)
        ],
        "alerts_total": alerts.count_alerts(wall.organization_id, AlertFilter()),
        **(shown(wall) if shown else {}),
    }


def _musters(wall: Wall) -> list[MusterCount]:
    """Return the open musters, which every wall shows."""
    shows_people = not tracked_people.setting(wall.organization_id).is_hidden_on_walls
    now, silent_for = clock.now(), services().config.events_reader_offline_minutes * 60 * clock.SECOND
    counts = []
    for one in musters.open_musters(wall.organization_id):
        state = musters.find_state(wall.organization_id, one.id)
        missing = state.missing
        offline = {
            reader.name for point in state.points for reader in point.readers if reader.is_offline(silent_for, now)
        }
        people = missing[:MOST_PEOPLE] if shows_people and wall.shows == Shows.MUSTER else []
        counts.append(MusterCount(one, len(missing), len(state.people) - len(missing), people, sorted(offline)))
    return counts


def _overview(wall: Wall) -> dict[str, Any]:
    items = home.attention(
        wall.organization_id,
        sees_readers=True,
        sees_messages=True,
        sees_box=home.sees_box_on_wall(),
        sees_musters=False,  # every wall shows them
    )
    return {"attention": items[:MOST_ITEMS], "day": home.day_of(wall.organization_id), "most_areas": MOST_AREAS}


def _door(wall: Wall) -> dict[str, Any]:
    if wall.door_id is None or wall.subject is None:
        return {"door": None}
    door = doors.find_door(wall.organization_id, wall.door_id)
    today = passage_report.totals(door.organization_id, clock.midnight(services().zone)).get(door.id)
    return {
        "door": door,
        "today": today or passage_report.Totals(0, 0, 0, 0),
        "passages": passage_report.passages_of_door(door.organization_id, door.id, MOST_PASSAGES),
        "directions": DIRECTIONS,
        "lists": expected_lists.states_at_door(door.organization_id, door.id),
    }


def _plan(wall: Wall) -> dict[str, Any]:
    if wall.location_id is None or floor_plans.find_plan(wall.organization_id, wall.location_id) is None:
        return {"plan": None}
    plan, spots = drawn(wall.organization_id, wall.location_id)
    return {"plan": plan, "spots": spots}


def drawn(organization_id: int, location_id: int) -> tuple[Plan, list[Spot]]:
    plan, shapes = floor_plans.whole_plan(organization_id, location_id)
    branches = {branch.id: branch for branch in location_board.tree(organization_id)}
    return plan, [spot_of(plan, shape, branches[shape.location_id], False) for shape in shapes]


def _lists(wall: Wall) -> dict[str, Any]:
    started = [one for one in expected_lists.open_lists(wall.organization_id) if one.is_open]
    states = [expected_lists.find_state(wall.organization_id, one.id) for one in started[:MOST_LISTS]]
    return {"lists": states, "more_lists": len(started) - len(states)}
