"""Whether site and hub agree can be asked, and a difference is named and mended with little traffic."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from edge.store import target
from edge.store.database import FILE_NAME
from edge.sync import verify
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, hub_dump, site_dump


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    pallet, crate = site.add_asset("P-1"), site.add_asset("P-2")
    for step in range(60):
        site.scan(pallet, step % 3, EPOCH + step * HOUR)
        site.scan(crate, step % 2, EPOCH + step * HOUR)
    site.join()
    site.sync()
    return site


def ask(site: SiteBox) -> list[str]:
    with site.in_use():
        here = target.find()
        assert here
        found = verify.compare(here, site.call)
        verify.repair(here, found)
        return [str(difference) for difference in found]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE history SET seen_for = seen_for + 1 WHERE rowid_key",
        "DELETE FROM history WHERE rowid_key",
        "INSERT INTO history SELECT position_no, observed_at + 1, 0, 0, source_no, 0, 0, NULL, 0 FROM history "
        "WHERE rowid_key",
    ],
)
def test_a_row_changed_by_hand_is_found_and_mended(ber: SiteBox, damage: str) -> None:
    assert ask(ber) == []
    track = "(SELECT t.no FROM track t JOIN asset a ON a.id = t.asset_id WHERE a.external_key = 'P-2')"
    where = f"position_no = {track} AND observed_at = {EPOCH + 30 * HOUR}"
    with closing(sqlite3.connect(ber.hub.folder / FILE_NAME)) as connection:
        connection.execute(damage.replace("rowid_key", where))
        connection.commit()
    assert ask(ber) == ["2023-11-16 P-2"]
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)
    assert ask(ber) == []
