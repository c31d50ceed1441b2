"""Past positions, history by days, arrivals and departures, and missing assets."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge import clock
from edge.audit.actors import shell
from edge.clock import DAY, HOUR
from edge.pages import charts
from edge.people.people import Role
from edge.records import assets
from edge.tracking import flows, past, past_board, positions
from edge.tracking.past import PastFilter, Stay
from edge.tracking.stays import Quality, Scan
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


def see(organization_id: int, asset_id: int, location_id: int, at: int) -> None:
    positions.record([Scan(organization_id, asset_id, location_id, None, None, at, at, Quality.HANDHELD)], 0)


def at(cast: Cast, moment: int, **filters: object) -> list[tuple[str, str]]:
    rows = past_board.board_at(cast.acme, PastFilter(moment, **filters), limit=50).rows
    return [(row.name, row.location_name) for row in rows]


def test_the_board_of_a_moment_shows_the_positions_at_that_time(cast: Cast, site: Site) -> None:
    now = clock.now()
    for hours, location in ((9, site.dock), (8, site.dock), (5, site.rack), (1, site.dock)):
        see(cast.acme, site.pallet.id, location.id, now - hours * HOUR)
    see(cast.acme, site.cage.id, site.rack.id, now - 4 * HOUR)
    assert at(cast, now - 10 * HOUR) == []
    assert at(cast, now - 6 * HOUR) == [("Pallet 1", "Dock 1")]
    assert at(cast, now - 5 * HOUR) == [("Pallet 1", "Rack A")]
    assert at(cast, now - 2 * HOUR) == [("Pallet 1", "Rack A"), ("Roll cage", "Rack A")]
    assert at(cast, now) == [("Pallet 1", "Dock 1"), ("Roll cage", "Rack A")]
    assert at(cast, now, sort="-name") == [("Roll cage", "Rack A"), ("Pallet 1", "Dock 1")]
    assert at(cast, now, sort="seen")[0][0] == "Roll cage"
    assert at(cast, now, q="roll") == [("Roll cage", "Rack A")]
    assert at(cast, now, location_id=site.dock.id) == [("Pallet 1", "Dock 1")]
    assert len(at(cast, now, location_id=site.hall.id)) == 2
    assert past_board.board_at(cast.rival, PastFilter(now), limit=50).rows == []
    row = past_board.board_at(cast.acme, PastFilter(now - 7 * HOUR), limit=1)
    assert (row.total_count, row.rows[0].arrived_at, row.rows[0].last_seen_at) == (1, now - 9 * HOUR, now - 8 * HOUR)


def test_an_asset_that_was_retired_since_was_still_there_then(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    now = clock.now()
    see(cast.acme, site.cage.id, site.rack.id, now - 4 * HOUR)
    assets.delete(shell(cast.acme), site.cage.id)
    assert at(cast, now - HOUR) == [("Roll cage", "Rack A")]
    assert at(cast, clock.now() + 1) == []
    assert "retired since" in sign_in_as(Role.VIEWER).get("/past").text


def test_rows_at_one_location_are_one_stay_with_a_duration(cast: Cast, site: Site) -> None:
    now = clock.now()
    for hours, location in ((30, site.dock), (9, site.rack), (8, site.rack), (5, site.dock)):
        see(cast.acme, site.pallet.id, location.id, now - hours * HOUR)
    result = past.stays(cast.acme, site.pallet.id, since=now - 20 * HOUR, until=now)
    assert [(row.location_name, (row.until - row.observed_at) // HOUR, row.sightings) for row in result.rows] == [
        ("Dock 1", 21, 1),
        ("Rack A", 4, 2),
        ("Dock 1", 5, 1),
    ]
    assert not result.is_cut


def test_a_location_shows_arrivals_departures_and_stock(cast: Cast, site: Site) -> None:
    now = clock.now()
    see(cast.acme, site.pallet.id, site.rack.id, now - 30 * HOUR)  # there since before the period
    see(cast.acme, site.cage.id, site.dock.id, now - 10 * HOUR)
    see(cast.acme, site.cage.id, site.rack.id, now - 9 * HOUR)
    see(cast.acme, site.pallet.id, site.dock.id, now - 3 * HOUR)
    edges = [now - 12 * HOUR, now - 6 * HOUR, now]
    rack = flows.flow(cast.acme, site.rack.id, edges)
    assert [(span.arrived, span.left, span.present) for span in rack] == [(1, 0, 2), (0, 1, 1)]
    assert [span.asset_time // HOUR for span in rack] == [6 + 3, 3 + 6]
    hall = flows.flow(cast.acme, site.hall.id, edges)
    assert [(span.arrived, span.left, span.present) for span in hall] == [(1, 0, 2), (0, 0, 2)], "moves inside it"
    assert all(span.present == 0 for span in flows.flow(cast.rival, site.hall.id, edges))
    drawn = charts.coming_and_going(rack, ["2026-03-02 06:00", "2026-03-02 12:00"])
    assert (drawn.upper, drawn.lower) == ("1", "1"), "the ends of the axis are numbers, not totals in words"
    assert drawn.about.startswith("1 arrived, 1 left")
    assert [bar.label for bar in drawn.bars] == ["2026-03-02 06:00: 1 arrived", "2026-03-02 12:00: 1 left"]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 4)), min_size=1, max_size=20))
def test_dwell_times_of_all_days_add_up_to_the_time_the_asset_was_seen(lengths: list[tuple[int, int]]) -> None:
    moment, stays = 10 * HOUR, []
    for hours, place in lengths:
        stays.append(Stay(moment, moment + hours * HOUR, place, f"P-{place}", f"Place {place}", True, moment, 1))
        moment = stays[-1].until
    edges = [*range(0, moment, DAY), moment] if moment % DAY else list(range(0, moment + 1, DAY))
    result = charts.dwell_times(stays, edges)
    assert sum(taken for shares in result for _, taken in shares.values()) == moment - 10 * HOUR
    for shares, (since, until) in zip(result, pairwise(edges), strict=True):
        assert sum(taken for _, taken in shares.values()) <= until - since


def test_charts_have_names_for_screen_readers(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    now = clock.now()
    for hours, location in ((30, site.dock), (9, site.rack), (5, site.dock)):
        see(cast.acme, site.pallet.id, location.id, now - hours * HOUR)
    browser = sign_in_as(Role.VIEWER)
    for path, expected in (
        (f"/assets/{site.pallet.id}/history", "Time at each location"),
        (f"/locations/{site.hall.id}/history", "Arrivals and departures"),
    ):
        for query in ("", "?from=2026-01-01&to=2026-01-31"):
            assert browser.get(path + query).status_code == 200, path + query
        text = browser.get(path).text
        assert expected in text
        svg = ET.fromstring(text[text.index('<svg class="plot"') :].partition("</svg>")[0] + "</svg>")  # noqa: S314
        assert svg.attrib["aria-labelledby"] == f"{svg[0].attrib['id']} {svg[1].attrib['id']}"
        assert svg[0].text
        assert len(svg.findall("g")) > 0


@pytest.mark.parametrize("path", ["/assets/{asset}/history", "/locations/{location}/history", "/export/history.csv"])
@pytest.mark.parametrize(
    "query",
    ["from=x", "to=2026-13-01", "from=0000-01-01", "from=0001-01-01&to=0001-01-02", "from=2026-02-02&to=2026-02-01"],
)
def test_invalid_days_are_named(sign_in_as: SignIn, site: Site, path: str, query: str) -> None:
    path = path.format(asset=site.pallet.id, location=site.dock.id)
    answer = sign_in_as(Role.VIEWER).get(f"{path}?{query}")
    assert answer.status_code == 400
    assert "Page not found" not in answer.text
    day = query.partition("&")[0].partition("=")[2]
    wrong = "The first day is after the last day" if "&to=2026" in query else f"&#39;{day}&#39; is not a day since 1970"
    assert wrong in answer.text


def test_a_wrong_moment_is_named(sign_in_as: SignIn) -> None:
    answer = sign_in_as(Role.VIEWER).get("/past?at=2026-03-02T25:00")
    assert (answer.status_code, "&#39;2026-03-02T25:00&#39; is not a time" in answer.text) == (400, True)


@pytest.mark.parametrize(
    "query", ["at=x", "at=9999-12-31T23:59%2b23:00", "at=2026-03-02T14:00&offset=x&location=y&sort=z&q=%00", "at="]
)
def test_an_odd_moment_is_no_fault(sign_in_as: SignIn, site: Site, query: str) -> None:
    assert sign_in_as(Role.VIEWER).get(f"/past?{query}").status_code in (200, 400)


def test_a_moment_can_be_exported_with_its_filters(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    now = clock.now()
    see(cast.acme, site.pallet.id, site.dock.id, now - 30 * HOUR)
    see(cast.acme, site.cage.id, site.rack.id, now - 30 * HOUR)
    answer = sign_in_as(Role.VIEWER).get("/export/past.csv?q=pallet")
    lines = answer.text.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("ASSET-0001,Pallet 1,DOCK-1,Dock 1,")


def test_missing_assets_are_a_list(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    now = clock.now()
    see(cast.acme, site.pallet.id, site.dock.id, now - 80 * HOUR)
    see(cast.acme, site.cage.id, site.rack.id, now - HOUR // 2)
    browser = sign_in_as(Role.VIEWER)
    text = browser.get("/not-seen?hours=72").text
    assert "Pallet 1" in text
    assert "Dock 1" in text
    assert "Roll cage" not in text
    assert "No missing assets" in browser.get("/not-seen?hours=168").text
    assert browser.get("/not-seen?hours=nonsense&offset=-1").status_code == 200


def test_a_busy_history_comes_in_pages_of_limited_size(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    places, now = (site.dock.id, site.rack.id, site.hall.id), clock.now()
    moves = [
        Scan(cast.acme, site.cage.id, places[number % 3], None, None, at, at, Quality.HANDHELD)
        for number, at in enumerate(range(now - 90 * clock.DAY, now - clock.DAY, 30 * clock.HOUR // 12))
    ]
    positions.record(moves, 0)
    browser = sign_in_as(Role.VIEWER)
    days = f"from={clock.rfc3339(now - 91 * clock.DAY)[:10]}&to={clock.rfc3339(now)[:10]}"
    text = browser.get(f"/assets/{site.cage.id}/history?{days}").text
    assert f"{len(moves):,} stays" in text
    assert len(text) < 500_000
    seen = 0
    while True:
        seen += text.split("</thead>")[1].split("</table>")[0].count("<tr>")
        later = re.search(r'href="([^"]+)">More</a>', text)
        if not later or seen >= 200:
            break
        text = browser.get(later[1].replace("&amp;", "&")).text
    assert seen == 200
    assert "151 to 200 of" in text
