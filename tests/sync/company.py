"""A hub with two sites that know each other's assets, for tests of sites that leave, return, retire and merge."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge import clock
from edge.records import lookup
from edge.sync.store import sites
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_equal


class Company:
    """A hub with two sites that know each other's imported assets, all created at one moment."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.ber, self.ham = (SiteBox(folder / code, code, self.hub) for code in ("BER", "HAM"))
        with monkeypatch.context() as frozen:
            at = clock.now()
            frozen.setattr(clock, "now", lambda: at)
            self.own = [self.ber.add_asset(f"B-{number}") for number in range(3)]
            self.theirs = [self.ham.add_asset(f"H-{number}") for number in range(4)]
        for site in (self.ber, self.ham):
            site.join()
        self.settle()
        for number, asset in enumerate(self.own):
            self.ber.scan(asset, number, EPOCH + number * HOUR)
        self.copies = [self.id_at(self.ber, f"H-{number}") for number in range(4)]
        self.ber.scan(self.copies[0], 1, EPOCH + 5 * HOUR)
        self.settle()

    def settle(self) -> None:
        for _ in range(3):
            for site in (self.ber, self.ham):
                if site.rows("SELECT 1 FROM target"):
                    site.settle()

    def id_at(self, box: SiteBox | Hub, key: str) -> int:
        with box.in_use():
            row = lookup.asset_by_key(box.organization_id, key)
            assert row
            return row.id

    def ids(self) -> dict[str, list[tuple[object, ...]]]:
        """Return id and key of all records at the hub and both sites."""
        sql = "SELECT id, external_key FROM asset WHERE deleted_at IS NULL UNION ALL SELECT id, external_key "
        sql += "FROM location WHERE deleted_at IS NULL ORDER BY 1"
        return {box.name: box.rows(sql) for box in (self.hub, self.ber, self.ham)}

    def assert_settled(self) -> None:
        self.settle()
        for site in (self.ber, self.ham):
            assert_equal(site)
        for box in (self.hub, self.ber, self.ham):
            assert box.rows("SELECT * FROM conflict") == [], (box.name, box.rows("SELECT * FROM conflict"))
            assert box.rows("PRAGMA foreign_key_check") == []

    def site(self, box: SiteBox) -> sites.Site:
        """Return a site at the hub with an open database."""
        return sites.get_site(self.hub.organization_id, box.site_no)
