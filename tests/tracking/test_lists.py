"""The pages of the boards, which read few rows, are the same as the files, which read all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge import clock
from edge.database.connection import execute, writing
from edge.records import assets, locations
from edge.tracking import board, location_board, past, past_board, stays
from edge.tracking.board import BoardFilter
from edge.tracking.past import PastFilter
from edge.tracking.past_board import board_at
from tests.sync.world import Box, Hub, SiteBox

NOW = 1_700_000_000 * clock.SECOND
HOUR = clock.HOUR


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SiteBox]:
    """Return a site with 60 assets: some never seen, some retired, many with the same times, names and locations."""
    monkeypatch.setattr(clock, "now", lambda: NOW)
    chance = random.Random(3)
    box = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    with box.in_use():
        box.docks.append(locations.create(box.actor, name="dock 1", external_key="D-4", parent_id=box.yard).id)
        gone = locations.create(box.actor, name="Gone", external_key="GONE").id
        box.docks.append(gone)
        for number in range(60):
            asset = assets.create(box.actor, name=chance.choice(["Pallet", "pallet", f"Crate {number}"])).id
            for _ in range(chance.randrange(5)):
                box.scan_now(asset, chance.randrange(len(box.docks)), NOW - chance.randrange(30) * 6 * HOUR)
            if chance.random() < 0.2:
                assets.delete(box.actor, asset)
        with writing():
            execute("UPDATE location SET deleted_at = ? WHERE id = ?", (NOW - HOUR, gone))
        yield box


def assert_retired_is_known(_box: Box) -> None:
    wrong = (
        "SELECT t.no FROM track t JOIN asset a ON a.id = t.asset_id WHERE t.is_retired <> (a.deleted_at IS NOT NULL)"
    )
    assert execute(wrong).fetchall() == []


@pytest.mark.parametrize("most_sorted", [0, 20_000])
@pytest.mark.parametrize("sort", [*board.SORTS, *(f"-{name}" for name in board.SORTS)])
def test_the_pages_of_the_board_are_the_file(
    site: SiteBox, sort: str, most_sorted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "MOST_SORTED", most_sorted)
    for branch in (None, site.yard, site.docks[0], site.docks[-1]):
        for hours in (0, 24, 100):
            filters = BoardFilter(location_id=branch, unseen_hours=hours, sort=sort)
            sql, values = board.board_statement(site.organization_id, filters)
            rows = [board.BoardRow(*row) for row in execute(sql, {**values, "limit": -1, "offset": 0})]
            assert pages(lambda offset: board.board(site.organization_id, filters, limit=7, offset=offset)) == rows  # noqa: B023  called here
            assert board.board(site.organization_id, filters, limit=0).total_count == len(rows)


@pytest.mark.parametrize("sort", ["key", "-key", "name", "-name"])
def test_the_pages_of_the_past_board_are_the_file(site: SiteBox, sort: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in (NOW, NOW - 24 * HOUR, NOW - 90 * HOUR, NOW - 1000 * HOUR):
        filters = PastFilter(at, sort=sort)
        sql, values = past.past_statement(site.organization_id, filters)
        rows = past.past_rows(execute(sql, {**values, "limit": -1, "offset": 0}).fetchall())
        for counted in (20_000, -1):
            monkeypatch.setattr(past_board, "COUNTED", counted)
            monkeypatch.setattr(past_board, "_FIRST_BLOCK", 5)
            assert pages(lambda offset: board_at(site.organization_id, filters, limit=7, offset=offset)) == rows  # noqa: B023  called here


def pages(page_at: object) -> list[object]:
    """Return the rows of all pages, and check that their totals agree."""
    rows: list[object] = []
    while True:
        page = page_at(len(rows))  # type: ignore[operator]  a function of the offset
        rows += page.rows
        has_more = page.total_count > len(rows)
        assert has_more or page.is_counted
        assert not page.is_counted or page.total_count >= len(rows)
        if not has_more:
            return rows


def test_counts_are_of_live_assets(site: SiteBox) -> None:
    counts = "SELECT count(*) FROM asset a LEFT JOIN position p ON p.asset_id = a.id WHERE a.deleted_at IS NULL AND "
    for branch in location_board.tree(site.organization_id):
        expected = execute(counts + "p.location_id = ?", (branch.id,)).fetchone()[0]
        assert branch.here == expected
        assert location_board.here(site.organization_id, branch.id, limit=1).total_count == expected
    unseen = board.count_unseen(site.organization_id, [72, 1, 24])
    assert list(unseen) == [72, 1, 24]
    for hours, count in unseen.items():
        limit = NOW - hours * HOUR
        sql = counts + "(p.last_seen_at IS NULL OR p.last_seen_at < ?)"
        assert execute(sql, (limit,)).fetchone()[0] == count


def test_a_track_follows_its_asset_into_retirement_and_back(site: SiteBox) -> None:
    assert_retired_is_known(site)
    first, second, third = [row[0] for row in execute("SELECT asset_id FROM track WHERE is_retired = 0 LIMIT 3")]
    key = assets.get(site.organization_id, first).external_key
    assets.delete(site.actor, first)
    assert_retired_is_known(site)
    assets.restore(site.actor, first)
    assert assets.get(site.organization_id, first).external_key == key
    assert_retired_is_known(site)
    assets.delete(site.actor, second)
    with writing():
        execute("DELETE FROM history WHERE position_no IN (SELECT no FROM track WHERE asset_id = ?)", (third,))
        execute("DELETE FROM track WHERE asset_id = ?", (third,))
        stays.move_to_asset(site.organization_id, second, third)
    assert_retired_is_known(site)


@pytest.mark.parametrize("filters", [BoardFilter(), BoardFilter(unseen_hours=1), BoardFilter(sort="seen")])
def test_a_location_of_another_organization_has_no_assets(site: SiteBox, filters: BoardFilter) -> None:
    """Its number would tell how much others have where."""
    place = filters._replace(location_id=site.docks[0])
    assert board.board(site.organization_id, place, limit=5).total_count > 0
    assert board.board(site.organization_id + 1, place, limit=5).total_count == 0
