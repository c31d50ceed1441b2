"""`verify` reports and repairs differences between site and hub with little traffic."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from edge import clock
from edge.database.connection import FILE_NAME
from edge.sync import verify
from edge.sync.store import hub_link
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
        here = hub_link.find()
        assert here
        differences = verify.compare(here, site.call)
        verify.repair(here, differences)
        return [str(difference) for difference in differences]


def test_everything_is_compared_nightly_in_slices(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "SLICE_DAYS", 1)
    monkeypatch.setattr(clock, "now", lambda: EPOCH + 70 * HOUR)
    spoil(ber.hub, "UPDATE history SET seen_for = seen_for + 1 WHERE row", 30)
    with ber.in_use():
        hub_link.update(joined_at=0)
        slices = []
        while (here := hub_link.find()) and verify.is_due(here):
            slices.append(verify.next_slice(here, ber.call))
    assert [bool(summary) for summary in slices] == [False, False, True, False]
    assert ber.rows("SELECT verify_result FROM target") == [("1 difference: 2023-11-16 P-2. Sent again: 1.",)]
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)


def test_changes_during_a_comparison_are_no_difference(ber: SiteBox) -> None:
    pallet = ber.rows("SELECT id FROM asset WHERE external_key = 'P-1'")[0][0]

    def busy(send: Callable[[], object]) -> object:
        answer = send()
        ber.scan_now(pallet, 0, EPOCH + 31 * HOUR)
        return answer

    spoil(ber.hub, "DELETE FROM history WHERE row", 30)
    ber.spoil = busy
    assert ask(ber) == ["2023-11-16 P-2"]


def spoil(hub: Hub, sql: str, hours: int) -> None:
    """Change a row of the crate's history in the hub's database."""
    track = "(SELECT t.no FROM track t JOIN asset a ON a.id = t.asset_id WHERE a.external_key = 'P-2')"
    with closing(sqlite3.connect(hub.folder / FILE_NAME)) as connection:
        connection.execute(sql.replace("row", f"position_no = {track} AND observed_at = {EPOCH + hours * HOUR}"))
        connection.commit()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE history SET seen_for = seen_for + 1 WHERE row",
        "UPDATE history SET rule = rule + 1 WHERE row",
        "DELETE FROM history WHERE row",
        "INSERT INTO history SELECT position_no, observed_at + 1, 0, 0, source_no, 0, 0, 0, 0 FROM history WHERE row",
    ],
)
def test_a_manually_changed_row_is_detected_and_repaired(ber: SiteBox, damage: str) -> None:
    assert ask(ber) == []
    spoil(ber.hub, damage, 30)
    assert ask(ber) == ["2023-11-16 P-2"]
    sent = []
    call, ber.call = ber.call, lambda path, body: (sent.append(len(body)), call(path, body))[1]  # type: ignore[func-returns-value,method-assign]
    ber.sync()
    assert sum(sent) < 5000
    assert hub_dump(ber) == site_dump(ber)
    assert ask(ber) == []
