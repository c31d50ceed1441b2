"""Pages of a hub about assets that travel between sites: each site has a track, and the hub's history is all of them.

The model keeps a list of sightings and knows no tracks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from edge.clock import HOUR
from edge.database.connection import execute
from edge.records import assets
from edge.tracking import flows, history_engine, past, past_board, report
from edge.tracking.past import PastFilter
from tests.sync.world import EPOCH, Hub, SiteBox

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]

MINUTE = HOUR // 60
SPAN = 2_000 * MINUTE
CODES = ("BER", "MUC")


class Sighting(NamedTuple):
    at: int
    location_id: int


class Company:
    """A hub with two sites and assets that all know. No asset is seen twice at one moment."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        with self.hub.in_use():
            self.assets = [assets.create(self.hub.actor, name=f"Pallet {number}").id for number in range(3)]
        self.boxes = [SiteBox(folder / code, code, self.hub) for code in CODES]
        for box in self.boxes:
            box.join()
            box.settle()
        with self.hub.in_use():
            self.docks = {key: number for number, key in execute("SELECT id, external_key FROM location")}
        self.seen: dict[int, list[Sighting]] = {asset_id: [] for asset_id in self.assets}

    def scan(self, box: SiteBox, asset: int, dock: int, at: int) -> None:
        with box.in_use():
            sql = "SELECT local_id FROM link WHERE remote_id = ? AND peer = 0"
            box.scan_now(execute(sql, (self.assets[asset],)).fetchone()[0], dock, at)
        sightings = self.seen[self.assets[asset]]
        sightings.append(Sighting(at, self.docks[f"{box.name}-DOCK-{dock}"]))
        sightings.sort()

    def live(self, chance: random.Random) -> None:
        for _ in range(3):
            for number, box in enumerate(self.boxes):
                for _ in range(chance.randrange(7)):
                    asset, at = chance.randrange(3), EPOCH + chance.randrange(0, SPAN, MINUTE) + number
                    if all(one.at != at for one in self.seen[self.assets[asset]]):
                        self.scan(box, asset, chance.randrange(3), at)
                box.settle()

    def moves(self, asset_id: int, until: int = EPOCH + 2 * SPAN) -> list[Sighting]:
        """Return the first sighting of each stay."""
        moves: list[Sighting] = []
        for one in self.seen[asset_id]:
            if one.at <= until and (not moves or moves[-1].location_id != one.location_id):
                moves.append(one)
        return moves

    def ways(self) -> Iterator[tuple[int, int, int | None, int]]:
        """Yield time, asset, origin and location of each move."""
        for asset_id in self.assets:
            moves = self.moves(asset_id)
            for before, move in pairwise([None, *moves]):
                if move:
                    yield move.at, asset_id, before.location_id if before else None, move.location_id


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path)


@pytest.mark.parametrize("seed", range(5))
def test_pages_of_a_hub_have_the_moves_between_sites(seed: int, company: Company) -> None:
    chance = random.Random(seed)
    company.live(chance)
    with company.hub.in_use():
        for _ in range(3):
            since = EPOCH + chance.randrange(SPAN)
            assert_moves(company, since)
            assert_past(company, since)
            for location_id in company.docks.values():
                assert_passages(company, location_id, since)


@pytest.mark.parametrize("seed", range(5))
def test_an_asset_is_at_its_location_since_its_return(seed: int, company: Company) -> None:
    chance = random.Random(seed)
    company.live(chance)
    with company.hub.in_use():
        current = report.current_positions(company.assets)
        for asset_id in company.assets:
            moves = company.moves(asset_id)
            if not moves:
                continue
            elsewhere = [one.at for one in company.seen[asset_id] if one.location_id != moves[-1].location_id]
            position = current[asset_id]
            assert position.location_id == moves[-1].location_id
            if history_engine.is_remote():
                assert max(elsewhere, default=moves[-1].at) <= position.dwell_started_at <= moves[-1].at
            else:
                assert position.dwell_started_at == moves[-1].at


def assert_moves(company: Company, since: int) -> None:
    moves = flows.moves_since(company.hub.organization_id, since, 24)
    expected = [(at, origin, place) for at, _, origin, place in company.ways() if at >= since]
    assert moves.by_way == Counter((origin, place) for _, origin, place in expected)
    by_hour = Counter(min((at - since) // HOUR, 23) for at, _, _ in expected)
    assert moves.by_hour == [by_hour[hour] for hour in range(24)]


def assert_past(company: Company, at: int) -> None:
    owner, until = company.hub.organization_id, at + SPAN // 4
    rows = past_board.board_at(owner, PastFilter(at), limit=9).rows
    board = {row.asset_id: (row.location_id, row.arrived_at) for row in rows}
    for asset_id in company.assets:
        moves = company.moves(asset_id, at)
        assert board.get(asset_id) == ((moves[-1].location_id, moves[-1].at) if moves else None)
        stays = past.stays(owner, asset_id, since=at, until=until).rows
        assert [(stay.location_id, stay.until) for stay in stays] == list(stays_between(company, asset_id, at, until))


def stays_between(company: Company, asset_id: int, since: int, until: int) -> Iterator[tuple[int, int]]:
    moves = company.moves(asset_id)
    for move, following in pairwise([*moves, None]):
        if move and move.at < until and (following is None or following.at > since):
            yield move.location_id, min(until, following.at) if following else until


def assert_passages(company: Company, location_id: int, since: int) -> None:
    passages = flows.passages(company.hub.organization_id, location_id, since)
    assert sorted((one.at, one.asset_id, one.came, one.other_id) for one in passages) == sorted(
        (at, asset_id, place == location_id, origin if place == location_id else place)
        for at, asset_id, origin, place in company.ways()
        if at >= since and location_id in (origin, place)
    )
