"""Pages from the index of past positions are the same as from all positions, whatever happened to history since."""

from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path

import pytest

from edge import clock
from edge.database.change_log import Kind
from edge.database.connection import execute, reading, writing
from edge.records import assets
from edge.sync.store import change_feed
from edge.tracking import deletion, late_reads, past, past_board, past_index
from edge.tracking.past import SORTS, PastFilter
from tests.sync.world import GAP, SECOND, Box, Hub, SiteBox

NOW = 1_700_000_000 * SECOND
HOUR = clock.HOUR
SPAN = 40 * HOUR
SORTED = [*SORTS, *(f"-{name}" for name in SORTS)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(past_index, "NEEDED_FROM", -1)
    monkeypatch.setattr(past_board, "COUNTED", -1)
    monkeypatch.setattr(past_board, "_FIRST_BLOCK", 4)


def complete() -> None:
    past_index.maintain(lambda _: False)
    assert past_index.is_complete()


def assert_index() -> None:
    """Compare the table, once it is brought up to date, with all ended stays."""
    past_index.catch_up()
    expected = set(
        execute(
            "SELECT source_no, observed_at, position_no, observed_at + seen_for, until FROM (SELECT *, "
            "lead(observed_at) OVER (PARTITION BY position_no ORDER BY observed_at, seq) AS until FROM history) "
            "WHERE until > observed_at"
        )
    )
    stored = execute("SELECT source_no, observed_at, track_no, seen_until, until, cell FROM past_stay").fetchall()
    assert {row[:5] for row in stored} == expected
    assert len(stored) == len(expected)


def assert_pages(box: Box, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare all pages at some moments: random ones, and those when something began or ended."""
    moments = [row[0] for row in execute("SELECT observed_at + seen_for FROM history ORDER BY random() LIMIT 2")]
    places = [row[0] for row in execute("SELECT id FROM location")]
    for at in [*moments, NOW - chance.randrange(SPAN), NOW]:
        for sort in SORTED:
            for place in (None, chance.choice(places)):
                monkeypatch.setattr(past_board, "MOST_COMPUTED", chance.choice([6, 5000]))
                filters = PastFilter(at, location_id=place, sort=sort)
                sql, values = past.past_statement(box.organization_id, filters)
                rows = past.past_rows(execute(sql, {**values, "limit": -1, "offset": 0}).fetchall())
                offset = chance.randrange(len(rows) + 2)
                for start, limit in ((0, 7), (offset, 5)):
                    page = past_board.board_at(box.organization_id, filters, limit=limit, offset=start)
                    assert page.rows == rows[start : start + limit]
                    if page.is_counted and page.rows:
                        assert page.total_count == len(rows)
                    elif not page.is_counted:
                        assert page.total_count == start + limit + 1 <= len(rows)


def change(site: SiteBox, chance: random.Random) -> None:
    """Make one change of history: a read, perhaps a late one, or its undoing, or one that retention or people make."""
    tracks = execute("SELECT asset_id, no FROM track ORDER BY no").fetchall()
    dice = chance.random()
    if dice < 0.75 or not tracks:
        asset = chance.choice(execute("SELECT id FROM asset WHERE deleted_at IS NULL").fetchall())[0]
        for _ in range(chance.randrange(1, 4)):
            # Whole minutes, so that reads also touch each other and moments of the comparison.
            at = NOW - chance.randrange(SPAN // (60 * SECOND)) * 60 * SECOND
            site.scan_now(asset, chance.randrange(len(site.docks)), at)
    elif dice < 0.9:
        asset, no = chance.choice(tracks)
        rows = execute("SELECT observed_at, seq FROM history WHERE position_no = ?", (no,)).fetchall()
        at, seq = chance.choice(rows)
        with writing():
            late_reads.take_back(asset, at, seq, GAP)
    elif dice < 0.94:
        deletion.drop_history(NOW - SPAN + chance.randrange(SPAN // 3), limit=3)
    elif dice < 0.97:
        live = execute("SELECT id FROM asset WHERE deleted_at IS NULL").fetchall()
        assets.delete(site.actor, chance.choice(live)[0])
    else:
        names = ["dock", "Dock", "Ärmel", "other"]
        with writing():
            execute("UPDATE location SET name = ? WHERE id = ?", (chance.choice(names), chance.choice(site.docks)))


@pytest.mark.parametrize("seed", range(6))
def test_pages_follow_every_change_of_history(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    box = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    with box.in_use():
        for _ in range(25):
            assets.create(box.actor, name=chance.choice(["Pallet", "pallet", f"Crate {chance.randrange(99)}"]))
        for _ in range(chance.randrange(60)):  # from before the index
            change(box, chance)
        past_index._begin()
        past_index.add_tracks(5)
        for step in range(120):
            change(box, chance)
            if step == 3:
                complete()
            if step % 10 == 9:
                with reading() if chance.random() < 0.3 else nullcontext():  # where the index cannot catch up
                    assert_pages(box, chance, monkeypatch)
                assert_index()


@pytest.mark.parametrize("seed", range(2))
def test_pages_of_a_hub_follow_its_sites(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An asset that travels has a track of each site, and the newest of them says where it was."""
    chance = random.Random(seed)
    hub = Hub(tmp_path / "hub", "hub")
    boxes = [SiteBox(tmp_path / code, code, hub) for code in ("BER", "MUC")]
    with hub.in_use():
        keys = [assets.create(hub.actor, name="Pallet").external_key for _ in range(10)]
        complete()
    for box in boxes:
        box.join()
        box.settle()
    for _ in range(5):
        for box in boxes:
            with box.in_use():
                for _ in range(12):
                    sql = "SELECT id FROM asset WHERE external_key = ?"
                    asset = execute(sql, (chance.choice(keys),)).fetchone()[0]
                    # No two reads at one time: the order of such tracks is open.
                    at = NOW - chance.randrange(SPAN // 60) * 60 - boxes.index(box)
                    box.scan_now(asset, chance.randrange(3), at)
            box.settle()
        with hub.in_use():
            assert execute("SELECT count(*) FROM track WHERE is_newest = 0").fetchone()[0]
            assert_index()
            assert_pages(hub, chance, monkeypatch)


def test_a_stay_that_a_site_moves_to_another_location_leaves_nothing_behind(tmp_path: Path) -> None:
    box = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    box.join()
    asset = box.add_asset("A")
    for hours, dock in ((3, 0), (2, 1), (1, 2)):
        box.scan(asset, dock, NOW - hours * HOUR)
    box.settle()
    with box.hub.in_use():
        complete()
    with box.in_use():
        execute(
            "UPDATE history SET source_no = (SELECT max(source_no) FROM history) WHERE observed_at = ?",
            (NOW - 2 * HOUR,),
        )
        change_feed.add(Kind.RANGE, 1, NOW - 4 * HOUR, NOW)
    box.settle()
    with box.hub.in_use():
        assert execute("SELECT count(DISTINCT source_no) FROM history").fetchone() == (2,)
        assert_index()


def test_a_small_box_has_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_index, "NEEDED_FROM", 20_000)
    box = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    with box.in_use():
        box.scan_now(box.add_asset_now("A"), 0, NOW - HOUR)
        past_index.maintain(lambda _: False)
        assert not past_index.is_complete()
        assert execute("SELECT count(*) FROM follower").fetchone()[0] == 0
        for sort in SORTED:
            page = past_board.board_at(box.organization_id, PastFilter(NOW, sort=sort), limit=5)
            assert len(page.rows) == 1


def test_the_index_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_index, "_STEP", 1)
    box = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    with box.in_use():
        for key in "ABC":
            asset = box.add_asset_now(key)
            box.scan_now(asset, 0, NOW - 3 * HOUR)
            box.scan_now(asset, 1, NOW - HOUR)
        past_index.maintain(lambda _: True)
        assert not past_index.is_complete()
        assert execute("SELECT count(*) FROM past_stay").fetchone()[0] == 1
        complete()
        assert_index()
