"""A hub writes a batch in slices, so that other writers wait only briefly. A kill between two of them loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from edge.database import sliced_writing
from edge.database.change_log import Kind
from edge.database.connection import database, execute, writing
from edge.errors import Unavailable
from edge.records import assets
from edge.sync.hub import Retired
from edge.sync.store import change_feed, incoming, incoming_stays, known_records, sites
from edge.sync.store.exchange import Cursor, Origin, Patch, Peer, Stay, TrackState
from edge.tracking import copies
from tests.sync.company import Company
from tests.sync.test_hub_costs import asset, location, send
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_equal, kill_at_each_commit

LONGEST = 1 << 61


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_writing, "SLICE_SECONDS", 0)
    for module in (sliced_writing, incoming_stays):
        monkeypatch.setattr(module, "ROWS_OF_STEP", 2)


@pytest.fixture
def box(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.join()
    site.sync()
    return site


def at_each_commit(monkeypatch: pytest.MonkeyPatch, look: Callable[[], object]) -> list[object]:
    """Return the list that gets what `look` returns before each commit."""
    commit, seen = database.commit, []

    def commit_and_look() -> None:
        seen.append(look())
        commit()

    monkeypatch.setattr(database, "commit", commit_and_look)
    return seen


def test_a_batch_of_many_records_is_written_in_many_transactions(box: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: 12,000 records in one batch kept the write lock of the hub for 13 seconds."""
    monkeypatch.setattr(sliced_writing, "SLICE_SECONDS", 0)
    sql = "SELECT (SELECT count(*) FROM asset) + (SELECT count(*) FROM location)"
    counts = at_each_commit(monkeypatch, lambda: execute(sql).fetchone()[0])
    assert send(box, assets=[asset(n) for n in range(200)], locations=[location(900 + n, box.yard) for n in range(99)])
    numbers = [number for number in counts if isinstance(number, int)]
    steps = [after - before for before, after in pairwise(numbers)]
    assert sum(steps) > 290
    assert max(steps) <= 1


def test_others_write_between_the_slices_of_a_batch(box: SiteBox) -> None:
    """They take turns for the lock, so one that waits gets it after the present slice."""
    seen: list[int] = []
    is_done = threading.Event()

    def write() -> None:
        while not is_done.is_set():
            with writing():
                seen.append(execute("SELECT count(*) FROM asset").fetchone()[0])
        database.close()

    with box.hub.in_use():
        other = threading.Thread(target=write)
        other.start()
    send(box, assets=[asset(n) for n in range(1, 1001)])
    with box.hub.in_use():
        is_done.set()
        other.join()
    assert len({count for count in seen if 0 < count < 1000}) > 1


@pytest.mark.usefixtures("_small")
def test_a_kill_at_each_commit_loses_and_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    company = Company(tmp_path, monkeypatch)
    ber = company.ber
    with ber.in_use():
        first, second, third = company.own
        assets.rename(ber.actor, first, "B-x")
        assets.rename(ber.actor, second, "B-0")
        assets.rename(ber.actor, first, "B-1")
        assets.delete(ber.actor, third)
        new = [ber.add_asset_now(f"B-new-{number}", f"AC{number}") for number in range(3)]
        for hour in range(6):
            for number, one in enumerate((first, *new)):
                ber.scan_now(one, (hour + number) % 3, EPOCH + (60 + hour) * HOUR)
        change_feed.add(Kind.RANGE, 1, -LONGEST, LONGEST)
    with company.hub.in_use():  # a repair also deletes what should not be there
        execute("INSERT INTO history SELECT position_no, 7, 0, 7, source_no, 0, 0, 0, 0 FROM history LIMIT 1")
    kill_at_each_commit(monkeypatch, ber.settle)
    company.assert_settled()
    assert_equal(ber)


@pytest.mark.usefixtures("_small")
def test_assets_that_swap_their_keys_are_never_retired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    company = Company(tmp_path, monkeypatch)
    ber = company.ber
    with ber.in_use():
        first, second, third = company.own
        for asset_id, key in ((first, "B-x"), (second, "B-0"), (third, "B-1"), (first, "B-2")):
            assets.rename(ber.actor, asset_id, key)
    keys = "SELECT group_concat(external_key, ' ') FROM asset WHERE deleted_at IS NULL AND external_key LIKE 'B-%'"
    with monkeypatch.context() as patched:
        seen = at_each_commit(patched, lambda: str(execute(keys).fetchone()[0]).count("B-"))
        ber.sync()
    assert set(seen) == {3}
    company.assert_settled()


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(("count", "at_once"), [(0, False), (1, False), (7, False), (8, False), (9, True)])
def test_a_range_of_a_track_is_replaced_whatever_was_there(box: SiteBox, count: int, at_once: bool) -> None:
    dock = box.docks[0]
    origins = [Origin(dock, None, None, None)]
    track = [TrackState(1, 1, dock, EPOCH, EPOCH, EPOCH, 0, 1)]

    def rows(numbers: range) -> list[Stay]:
        return [Stay(EPOCH + (0 if at_once else n * HOUR), n, 5, 0, 0, 0, 1, None) for n in numbers]

    for numbers in (range(count), range(3, count + 3), range(0, count, 2), range(0)):
        patch = Patch(1, -LONGEST, LONGEST, rows(numbers))
        assert send(box, assets=[asset(1)], tracks=track, origins=origins, patches=[patch])["applied"]
        assert box.hub.rows("SELECT seq FROM history ORDER BY seq") == [(n,) for n in numbers]
        assert box.hub.rows("SELECT history_rows FROM track") == [(len(numbers),)]
    patch = Patch(1, EPOCH, EPOCH, [Stay(EPOCH, n, 5, 0, 0, 0, 1, None) for n in range(30)])
    send(box, tracks=track, origins=origins, patches=[patch])
    assert box.hub.rows("SELECT count(*), max(history_rows) FROM history, track") == [(30, 30)]
    send(box, gone_tracks=[1])
    assert box.hub.rows("SELECT * FROM history UNION ALL SELECT no, 0, 0, 0, 0, 0, 0, 0, 0 FROM track") == []


def test_a_site_that_is_retired_meanwhile_writes_nothing_more(box: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_writing, "SLICE_SECONDS", 0)
    real = known_records.resolve_assets

    def retire(peer: Peer, *rest: object) -> dict[int, int]:
        execute("UPDATE site SET retired_at = 1")
        return real(peer, *rest)  # type: ignore[arg-type]

    send(box, assets=[asset(1)])
    monkeypatch.setattr(known_records, "resolve_assets", retire)
    track = [TrackState(1, 1, box.docks[0], EPOCH, EPOCH, EPOCH, 0, 1)]
    assert not send(box, tracks=track)["applied"]
    assert box.hub.rows("SELECT * FROM track") == []


def test_two_batches_of_one_site_are_not_written_at_once(box: SiteBox) -> None:
    assert incoming._begin(box.site_no)
    try:
        with pytest.raises(Unavailable):
            send(box, assets=[asset(1)])
    finally:
        incoming._busy_sites.clear()
    assert send(box, assets=[asset(1)])["applied"]


def test_a_new_machine_takes_over_in_slices_also_after_a_kill_in_between(
    box: SiteBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the numbers of 200,000 tracks were changed in one transaction of 0.8 seconds."""
    send(
        box,
        assets=[asset(number) for number in range(1, 6)],
        tracks=[TrackState(number, number, box.docks[0], *[EPOCH] * 3, 0, 1) for number in range(1, 6)],
    )
    monkeypatch.setattr(sliced_writing, "SLICE_SECONDS", 0)
    monkeypatch.setattr(copies, "ROWS_OF_STEP", 2)
    following = Cursor("another", 0, b"")

    def begin_epoch() -> None:
        site = sites.get_site(box.hub.organization_id, box.site_no)
        sites.begin_epoch(site, "another machine", following, is_recovery=False)

    with box.hub.in_use():
        stale = sites.get_site(box.hub.organization_id, box.site_no)
        steps = copies.release_numbers

        def killed(site_no: int) -> Iterator[None]:
            yield next(steps(site_no))
            raise ZeroDivisionError

        monkeypatch.setattr(copies, "release_numbers", killed)
        with pytest.raises(ZeroDivisionError):
            begin_epoch()
        monkeypatch.setattr(copies, "release_numbers", steps)
        assert execute(POSITIVE).fetchone()[0] == 3
    with pytest.raises(Retired):  # the former machine cannot add tracks meanwhile
        send(box, assets=[asset(9)])
    with box.hub.in_use():
        begin_epoch()
        assert execute(POSITIVE).fetchone()[0] == 0
        assert sites.cursor_of(box.site_no) == following
        with pytest.raises(Unavailable):  # a repeated greeting that was read before
            sites.begin_epoch(stale, "another machine", following, is_recovery=False)


POSITIVE = "SELECT count(*) FROM track WHERE remote_no > 0"
