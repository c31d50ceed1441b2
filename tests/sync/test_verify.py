"""`verify` reports and repairs differences between site and hub with little traffic."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.database.connection import FILE_NAME, execute, writing
from edge.database.triggers import LOGGED
from edge.doors import doors
from edge.sync import batch_format, hub, verify
from edge.sync.store import digests, hub_link
from edge.tracking import copies
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_digests, hub_dump, site_dump


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


def ask(site: SiteBox, *, is_full: bool = False) -> list[str]:
    with site.in_use():
        here = hub_link.find()
        assert here
        differences = verify.compare(here, site.call, is_full=is_full)
        verify.repair(here, differences)
        return [difference.text for difference in differences]


def nightly(site: SiteBox) -> list[bool]:
    """Run the steps of a nightly comparison. Returns for each whether it reported differences."""
    with site.in_use():
        hub_link.update(joined_at=0)
        slices = []
        while (here := hub_link.find()) and verify.is_due(here):
            slices.append(bool(verify.next_slice(here, site.call)))
        return slices


@pytest.mark.parametrize("is_old_hub", [False, True])
def test_everything_is_compared_nightly_in_slices(
    ber: SiteBox, monkeypatch: pytest.MonkeyPatch, is_old_hub: bool
) -> None:
    monkeypatch.setattr(clock, "now", lambda: EPOCH + 70 * HOUR)
    if is_old_hub:
        monkeypatch.setattr(Hub, "answer", like_an_old_hub(Hub.answer))
    else:
        monkeypatch.setattr(verify, "SLICE_SECONDS", -1)
        monkeypatch.setattr(digests, "MAX_DAYS_READ", 1)
    spoil(ber.hub, "UPDATE history SET seen_for = seen_for + 1 WHERE row", 30)
    assert nightly(ber) == ([True] if is_old_hub else [False, False, True, False])  # it answers for all days at once
    assert ber.rows("SELECT verify_result FROM target") == [("1 difference: 2023-11-16 P-2. Sent again: 1.",)]
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)


def like_an_old_hub(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Answer like a hub of an earlier release, which knows nothing of partial answers and records."""

    def old(hub: Hub, site_no: int, path: str, body: bytes) -> Any:
        if path == "digests":
            question = batch_format.unpack(body)
            body = batch_format.pack({key: question[key] for key in ("range", "days")})
        content = answer(hub, site_no, path, body)
        return {key: value for key, value in content.items() if key != "until"}

    return old


def test_unchanged_days_are_not_read_again(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nightly(ber) == [False]
    read: list[tuple[int | None, int]] = []
    real = copies.rows_for_digest

    def spy(organization_id: int, site_no: int | None, since: int, until: int) -> Iterator[copies.DigestRow]:
        read.append((site_no, since // clock.DAY))
        return real(organization_id, site_no, since, until)

    monkeypatch.setattr(copies, "rows_for_digest", spy)
    assert ask(ber) == []
    assert read == []
    pallet = ber.rows("SELECT id FROM asset WHERE external_key = 'P-1'")[0][0]
    ber.scan(pallet, 0, EPOCH + 30 * HOUR + 7)
    ber.sync()
    assert ask(ber) == []
    day = (EPOCH + 30 * HOUR) // clock.DAY
    assert read == [(1, day), (None, day)]


def test_a_history_of_any_length_needs_no_long_request(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "MAX_DAYS_READ", 1)
    monkeypatch.setattr(hub, "DIGEST_SECONDS", -1)  # every answer ends after the first day that was not stored
    spoil(ber.hub, "DELETE FROM history WHERE row", 30)
    spoil(ber.hub, "DELETE FROM history WHERE row", 2)
    assert ask(ber) == ["2023-11-15 P-2", "2023-11-16 P-2"]
    ber.sync()
    assert ask(ber) == []


def test_a_stored_digest_that_is_wrong_corrects_itself(ber: SiteBox) -> None:
    assert ask(ber) == []
    for box in (ber, ber.hub):
        with closing(sqlite3.connect(box.folder / FILE_NAME)) as connection:
            connection.execute("UPDATE history_digest SET total = total + 1 WHERE row_count > 0")
            connection.commit()
        assert ask(ber) == []  # no track differs
        assert_digests(box)


def test_a_full_comparison_detects_changes_behind_the_back_of_the_triggers(ber: SiteBox) -> None:
    assert ask(ber) == []
    with closing(sqlite3.connect(ber.hub.folder / FILE_NAME)) as connection:
        connection.execute("DROP TRIGGER change_stay_left")
        connection.execute("DELETE FROM history WHERE observed_at = ?", (EPOCH + 30 * HOUR,))
        connection.execute(LOGGED["change_stay_left"].statement("change_stay_left"))
        connection.commit()
    assert ask(ber) == []
    assert ask(ber, is_full=True) == ["2023-11-16 P-1", "2023-11-16 P-2"]
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)
    assert_digests(ber.hub)


@pytest.mark.parametrize(
    ("damage", "difference"),
    [
        ("UPDATE asset SET name = 'Other' WHERE external_key = 'P-2'", "asset P-2"),
        ("UPDATE location SET description = 'Other' WHERE external_key = 'BER-DOCK-1'", "location DOCK-1"),
        ("UPDATE tag SET deleted_at = 1 WHERE value = 'E2'", "asset P-3"),
    ],
)
def test_records_that_differ_are_detected_and_repaired(ber: SiteBox, damage: str, difference: str) -> None:
    ber.add_asset("P-3", "E2", "E1")
    ber.sync()
    assert ask(ber) == []
    with closing(sqlite3.connect(ber.hub.folder / FILE_NAME)) as connection:
        connection.execute(damage)
        connection.commit()
    assert ask(ber) == [difference]
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)
    assert ask(ber) == []


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


def test_a_passage_of_the_future_is_compared_only_when_the_hub_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the hub set it aside each time, and each comparison reported and sent it again."""
    now = EPOCH + 100 * HOUR
    monkeypatch.setattr(clock, "now", lambda: now)
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    pallet = site.add_asset("P-1")
    site.scan(pallet, 0, EPOCH)
    with site.in_use():
        door = doors.add_door(site.actor, "Gate", site.docks[0])
        with writing():
            for at, decided_at in ((now, now), (now + 30 * HOUR, now + 30 * HOUR), (now, now + 30 * HOUR)):
                execute(
                    "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
                    "outer_reads, since, until, decided_at) VALUES (?, ?, ?, ?, 2, 900, 5, 6, ?, ?, ?)",
                    (site.organization_id, door, pallet, at, at, at, decided_at),
                )
    site.join()
    site.sync()
    held = "SELECT count(*) FROM passage"
    assert site.hub.rows(held) == [(1,)]
    assert site.rows("SELECT what FROM set_aside") == [("passages",)]
    assert [ask(site), ask(site)] == [[], []]
    now += 30 * HOUR
    assert len(ask(site)) == 2
    site.sync()
    assert site.hub.rows(held) == [(3,)]
    assert ask(site) == []


def test_a_position_of_the_future_is_compared_only_when_the_hub_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = EPOCH + 100 * HOUR
    monkeypatch.setattr(clock, "now", lambda: now)
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    pallet = site.add_asset("P-1")
    site.scan(pallet, 0, EPOCH)
    site.scan(pallet, 1, now + 30 * HOUR)
    site.join()
    site.sync()
    assert [ask(site), ask(site)] == [[], []]
    now += 30 * HOUR
    assert len(ask(site)) == 2
    site.sync()
    assert ask(site) == []
    assert hub_dump(site) == site_dump(site)
