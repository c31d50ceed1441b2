"""Machines restored from a backup, and copies of machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.database import change_log
from edge.people.secrets import hash_secret
from edge.readers import readers
from edge.sync import batch_format, verify
from edge.sync.sender import LinkError, Sender, Stopped
from edge.sync.store import hub_link, recovered_history, sites
from edge.sync.store.exchange import Batch, Cursor
from tests.sync.world import EPOCH, GAP, HOUR, Hub, SiteBox, assert_equal, hub_dump, site_dump

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1")
    site.join()
    travel(site, 0)
    site.sync()
    return site


def travel(site: SiteBox, first: int) -> None:
    for step in range(first, first + 5):
        site.scan(site.pallet, step % 3, EPOCH + step * HOUR)


def test_a_restored_hub_is_filled_again(ber: SiteBox) -> None:
    saved = ber.hub.back_up()
    for first in (10, 20, 30):
        travel(ber, first)
        ber.add_asset(f"P-{first}")
        ber.sync()
    ber.hub.restore(saved)
    travel(ber, 40)
    ber.sync()
    assert_equal(ber)


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_pending_batch_is_resent_to_a_restored_hub(ber: SiteBox, is_trimmed: bool) -> None:
    """The line broke before the batch arrived, and the hub lost data."""
    saved = ber.hub.back_up()
    travel(ber, 10)
    ber.sync()
    ber.scan(ber.pallet, 14 % 3, EPOCH + 14 * HOUR + GAP // 2)  # changes only the last-seen time
    ber.spoil = lambda _send: (_ for _ in ()).throw(LinkError("the line is cut"))
    with ber.in_use():
        if is_trimmed:
            change_log.trim(change_log.newest(), 1000)
        with pytest.raises(LinkError):
            Sender(ber.call).push()
        here = hub_link.find()
        assert here
        assert here.pending
    ber.spoil = lambda send: send()
    ber.hub.restore(saved)
    ber.settle()
    assert_equal(ber)


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4, 5, 6])
def test_a_restored_hub_is_filled_from_the_feed_and_by_comparison(ber: SiteBox, kept: int) -> None:
    """Covers the case where the first change after the hub's cursor is missing, which only a comparison detects."""
    saved = ber.hub.back_up()
    travel(ber, 10)
    ber.sync()
    with ber.in_use():
        change_log.trim(change_log.newest() - kept, 1000)
    ber.hub.restore(saved)
    ber.settle()
    assert_equal(ber)


def test_a_restored_hub_gets_last_seen_times_again(ber: SiteBox) -> None:
    ber.scan(ber.add_asset("P-2"), 0, EPOCH)
    ber.sync()
    saved = ber.hub.back_up()
    crate = ber.rows("SELECT id FROM asset WHERE external_key = 'P-2'")[0][0]
    ber.scan(crate, 0, EPOCH + 60_000_000)  # changes no row of history
    ber.sync()
    ber.hub.restore(saved)
    ber.sync()
    assert_equal(ber)


def test_a_hub_older_than_the_feed_is_filled_by_comparison(ber: SiteBox) -> None:
    saved = ber.hub.back_up()
    travel(ber, 10)
    ber.add_asset("P-2")
    ber.sync()
    with ber.in_use():
        hub_link.trim(EPOCH * 1000, 1000)
    assert ber.rows("SELECT count(*) FROM change") == [(0,)]
    ber.hub.restore(saved)
    travel(ber, 20)
    ber.sync()
    with ber.in_use():
        here = hub_link.find()
        assert here
        assert here.verify_wanted
        assert "Sent again" in verify.repair(here, verify.compare(here, ber.call))
    ber.sync()
    assert_equal(ber)


def test_a_hub_restored_to_before_a_site_joined_is_filled_again(tmp_path: Path) -> None:
    ham = SiteBox(tmp_path / "ham", "HAM", Hub(tmp_path / "hub", "hub"))
    saved = ham.hub.back_up()
    ham.pallet = ham.add_asset("P-1")
    travel(ham, 0)
    ham.join()
    ham.sync()
    ham.hub.restore(saved)
    ham.sync()
    assert_equal(ham)


@pytest.mark.parametrize("has_reported", [True, False])
def test_a_hub_restored_to_before_a_restore_of_the_site_is_filled_again(ber: SiteBox, has_reported: bool) -> None:
    saved_hub = ber.hub.back_up()
    travel(ber, 10)
    ber.add_asset("P-2")
    ber.sync()
    ber.restore(ber.back_up())
    if has_reported:
        travel(ber, 20)
        ber.add_asset("P-3")
        ber.sync()
    ber.hub.restore(saved_hub)
    ber.sync()
    assert_equal(ber)


def test_a_restored_site_continues_and_the_hub_keeps_newer_data(ber: SiteBox) -> None:
    saved = ber.back_up()
    travel(ber, 10)
    ber.sync()
    newer = hub_dump(ber)["history"]
    ber.restore(saved)
    ber.sync()
    assert hub_dump(ber)["history"] == newer
    assert hub_dump(ber)["tracks"][0][3] == EPOCH + 14 * HOUR
    travel(ber, 20)
    ber.sync()
    kept = hub_dump(ber)["history"]
    assert set(site_dump(ber)["history"]) < set(kept)
    assert {row[3] for row in kept} == {EPOCH + hours * HOUR for hours in (*range(5), *range(10, 15), *range(20, 25))}


def test_the_hub_has_the_names_of_a_restored_site(ber: SiteBox) -> None:
    """Names of readers are part of no comparison."""
    saved = ber.back_up()
    with ber.in_use():
        readers.change_reader(ber.actor, ber.reader_id, {"name": "Gate 7"})
    ber.sync()
    assert {row[6] for row in hub_dump(ber)["history"]} == {"Gate 7"}
    ber.restore(saved)
    ber.sync()
    with ber.in_use():
        recovered_history.begin(ber.actor)
    ber.settle()
    assert {row[6] for row in hub_dump(ber)["history"]} == {row[6] for row in site_dump(ber)["history"]} == {"Gate BER"}


def test_copied_files_start_one_new_epoch(ber: SiteBox) -> None:
    copied = ber.copy_files()
    travel(ber, 10)
    crate = ber.add_asset("P-2")
    ber.scan(crate, 0, EPOCH)
    ber.sync()
    ber.copy_back(copied)
    other = ber.add_asset("P-3")
    ber.scan(other, 1, EPOCH)
    ber.sync()
    kept = {(row[0], row[3]) for row in hub_dump(ber)["history"]}
    assert {("P-2", EPOCH), ("P-3", EPOCH), ("P-1", EPOCH + 10 * HOUR)} <= kept
    ber.copy_back(copied)
    with pytest.raises(Stopped, match="another database reports as this site"):
        ber.sync()


def test_the_first_of_two_copies_stops_when_the_second_reports(ber: SiteBox) -> None:
    copied = ber.copy_files()
    travel(ber, 10)
    ber.sync()
    first = ber.copy_files()
    ber.copy_back(copied)
    ber.sync()
    ber.copy_back(first)
    with pytest.raises(Stopped):
        ber.sync()


def test_a_restore_starts_a_new_epoch_before_any_contact(ber: SiteBox) -> None:
    saved = ber.back_up()
    [(epoch,)] = ber.rows("SELECT epoch FROM target")
    ber.scan(ber.pallet, 0, EPOCH + 20 * HOUR)
    ber.restore(saved)
    [(present, former)] = ber.rows("SELECT epoch, former_epochs FROM target")
    assert present != epoch
    assert epoch in former


def test_a_batch_for_another_cursor_is_not_applied(ber: SiteBox) -> None:
    with ber.in_use():
        here = hub_link.find()
        assert here
    late = Batch(here.acked_seq + 5, 0, [], [], {}, {}, [], [1], [], [])
    for base in (
        Cursor(here.epoch, here.acked_seq, b"another"),
        Cursor(here.epoch, here.acked_seq - 1, here.chain),
        Cursor("another", here.acked_seq, here.chain),
    ):
        assert not ber.hub.answer(ber.site_no, "changes", batch_format.encode(base, late))["applied"]
    assert_equal(ber)
    assert ber.hub.answer(ber.site_no, "changes", batch_format.encode(here.cursor, late))["applied"]


def test_a_copy_that_reports_first_to_a_restored_hub_is_detected(ber: SiteBox) -> None:
    saved, copied = ber.hub.back_up(), ber.copy_files()
    travel(ber, 10)
    ber.sync()
    original = ber.copy_files()
    checkpoints = {row[0] for row in ber.rows("SELECT seq FROM checkpoint")}
    ber.hub.restore(saved)
    ber.copy_back(copied)
    for step in range(30, 60):
        ber.scan(ber.pallet, step % 3, EPOCH + step * HOUR)
        ber.sync()
        if ber.rows("SELECT acked_seq FROM target")[0][0] in checkpoints:
            break
    else:
        pytest.fail("the copy never got to a number the original had, too")
    ber.copy_back(original)
    ber.sync()
    assert ber.rows("SELECT former_epochs FROM target") != [("[]",)]


def test_a_replaced_database_cannot_report_before_the_new_one(ber: SiteBox) -> None:
    with ber.hub.in_use():
        sites.renew_code(ber.hub.actor, ber.site_no, hash_secret("again"))
        sites.join(hash_secret("again"), hash_secret("another secret"))
    with ber.in_use(), pytest.raises(Stopped):
        Sender(ber.call).connect()
