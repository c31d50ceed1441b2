"""Boxes that come back from a backup, and boxes that are copies of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.sync import batch_format, verify
from edge.sync.sender import LinkError, Sender, Stopped
from edge.sync.store import change_feed, hub_link
from edge.sync.store.exchange import Batch, Cursor
from tests.sync.world import EPOCH, GAP, HOUR, Hub, SiteBox, assert_equal, hub_dump, site_dump


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
def test_a_batch_that_waits_is_not_taken_for_accepted_by_a_hub_that_was_restored(
    ber: SiteBox, is_trimmed: bool
) -> None:
    """Two faults at once: the line broke before the batch arrived, and the hub lost what it had."""
    saved = ber.hub.back_up()
    travel(ber, 10)
    ber.sync()
    ber.scan(ber.pallet, 14 % 3, EPOCH + 14 * HOUR + GAP // 2)  # changes no row but when it was last seen
    ber.spoil = lambda _send: (_ for _ in ()).throw(LinkError("the line is cut"))
    with ber.in_use():
        if is_trimmed:
            change_feed.trim(change_feed.newest(), 1000)
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
def test_a_restored_hub_gets_what_the_feed_still_has_and_the_rest_by_comparing(ber: SiteBox, kept: int) -> None:
    """Up to the very change after the one that the hub has: with that one gone, only comparing finds it."""
    saved = ber.hub.back_up()
    travel(ber, 10)
    ber.sync()
    with ber.in_use():
        change_feed.trim(change_feed.newest() - kept, 1000)
    ber.hub.restore(saved)
    ber.settle()
    assert_equal(ber)


def test_a_restored_hub_learns_again_when_things_were_seen(ber: SiteBox) -> None:
    ber.scan(ber.add_asset("P-2"), 0, EPOCH)
    ber.sync()
    saved = ber.hub.back_up()
    crate = ber.rows("SELECT id FROM asset WHERE external_key = 'P-2'")[0][0]
    ber.scan(crate, 0, EPOCH + 60_000_000)  # changes no row of history
    ber.sync()
    ber.hub.restore(saved)
    ber.sync()
    assert_equal(ber)


def test_a_hub_restored_from_before_what_the_site_remembers_is_filled_by_comparing(ber: SiteBox) -> None:
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
        assert here.is_verify_requested
        assert "Sent again" in verify.repair(here, verify.compare(here, ber.call))
    ber.sync()
    assert_equal(ber)


def test_a_hub_restored_from_before_the_first_word_of_a_site_is_filled_again(tmp_path: Path) -> None:
    ham = SiteBox(tmp_path / "ham", "HAM", Hub(tmp_path / "hub", "hub"))
    saved = ham.hub.back_up()
    ham.pallet = ham.add_asset("P-1")
    travel(ham, 0)
    ham.join()
    ham.sync()
    ham.hub.restore(saved)
    ham.sync()
    assert_equal(ham)


@pytest.mark.parametrize("told_before", [True, False])
def test_a_hub_restored_from_before_a_restore_of_the_site_is_filled_again(ber: SiteBox, told_before: bool) -> None:
    saved_hub = ber.hub.back_up()
    travel(ber, 10)
    ber.add_asset("P-2")
    ber.sync()
    ber.restore(ber.back_up())
    if told_before:
        travel(ber, 20)
        ber.add_asset("P-3")
        ber.sync()
    ber.hub.restore(saved_hub)
    ber.sync()
    assert_equal(ber)


def test_a_restored_site_goes_on_and_the_hub_keeps_what_it_has_more(ber: SiteBox) -> None:
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


def test_files_copied_back_are_another_state_of_the_site_once(ber: SiteBox) -> None:
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
    with pytest.raises(Stopped, match="another database speaks for this site"):
        ber.sync()


def test_of_two_boxes_from_one_image_the_first_stops_when_the_second_speaks(ber: SiteBox) -> None:
    copied = ber.copy_files()
    travel(ber, 10)
    ber.sync()
    first = ber.copy_files()
    ber.copy_back(copied)
    ber.sync()
    ber.copy_back(first)
    with pytest.raises(Stopped):
        ber.sync()


def test_a_restored_site_is_another_state_before_it_says_a_word(ber: SiteBox) -> None:
    saved = ber.back_up()
    [(epoch,)] = ber.rows("SELECT epoch FROM target")
    ber.scan(ber.pallet, 0, EPOCH + 20 * HOUR)
    ber.restore(saved)
    [(present, former)] = ber.rows("SELECT epoch, former_epochs FROM target")
    assert present != epoch
    assert epoch in former


def test_a_batch_that_follows_on_another_past_is_not_applied(ber: SiteBox) -> None:
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


def test_a_copy_that_spoke_first_to_a_restored_hub_is_noticed(ber: SiteBox) -> None:
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
