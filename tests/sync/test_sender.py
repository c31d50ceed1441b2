"""The hub has the site's data, row for row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.sync import hub, sender
from edge.sync.sender import Sender
from edge.sync.store import change_feed, incoming, state
from edge.tracking.late_reads import take_back
from tests.sync.world import EPOCH, GAP, HOUR, SECOND, Hub, SiteBox, hub_dump, site_dump

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    return SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))


def test_a_first_copy_contains_everything(ber: SiteBox) -> None:
    pallet = ber.add_asset("P-1", "AA01")
    for step in range(30):
        ber.scan(pallet, step % 3, EPOCH + step * HOUR)
    ber.join()
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)
    assert len(site_dump(ber)["history"]) == 30


def test_a_first_copy_is_split_into_small_batches(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        ber.scan(ber.add_asset(f"P-{number}", f"AA{number:02}"), number % 3, EPOCH)
    ber.join()
    monkeypatch.setattr(sender, "MAX_RECORDS", 2)
    records: list[int] = []
    take = incoming.take

    def counted(*args: Any) -> Any:
        records.append(len(args[2].assets) + len(args[2].locations))
        return take(*args)

    monkeypatch.setattr(incoming, "take", counted)
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)
    assert max(records) <= 2 + 2 + 3  # two due, the assets of two tracks, and their three locations
    assert ber.rows("SELECT board_at IS NOT NULL FROM target") == [(1,)]


def test_a_batch_has_a_maximum_number_of_records_but_any_number_of_their_rows(
    ber: SiteBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "MAX_RECORDS", 4)
    sizes: list[tuple[int, int]] = []
    take = incoming.take

    def counted(*args: Any) -> Any:
        sizes.append((len(args[2].assets), sum(len(patch.stays) for patch in args[2].patches)))
        return take(*args)

    monkeypatch.setattr(incoming, "take", counted)
    pallet = ber.add_asset("P-1")
    ber.join()
    ber.sync()
    sizes.clear()
    for step in range(20):
        ber.scan(pallet, step % 3, EPOCH + step * HOUR)
    ber.sync()
    assert sizes[0][1] == 20
    sizes.clear()
    for number in range(10):
        ber.add_asset(f"C-{number}")
    ber.sync()
    assert [records for records, _ in sizes] == [4, 4, 2]


def test_many_rows_of_one_instant_are_sent_together(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    pallet = ber.add_asset("P-1")
    for at in (EPOCH, EPOCH + HOUR):
        for dock in (0, 1, 2, 0, 1):
            ber.scan(pallet, dock, at)
    ber.join()
    for module in (sender, hub):
        monkeypatch.setattr(module, "MAX_ROWS", 2)
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)


def test_a_change_that_arrives_while_last_seen_times_are_prepared_is_sent_with_them(
    ber: SiteBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    pallet = ber.add_asset("P-1")
    ber.join()
    ber.scan(pallet, 0, EPOCH)
    ber.sync()
    ber.scan(pallet, 0, EPOCH + SECOND)  # changes no row of history
    claim = change_feed.claim

    def interrupted(after: int) -> int | None:
        monkeypatch.setattr(change_feed, "claim", claim)
        ber.add_asset_now("P-2")
        return claim(after)

    monkeypatch.setattr(change_feed, "claim", interrupted)
    with ber.in_use():
        one = Sender(ber.call)
        one.connect()
        assert one.push().rows == 1
    assert hub_dump(ber) == site_dump(ber)


def test_a_site_reports_until_when_its_history_is_at_the_hub(ber: SiteBox) -> None:
    pallet = ber.add_asset("P-1")
    ber.scan(pallet, 0, EPOCH)
    ber.join()
    ber.sync()
    ber.scan(pallet, 1, EPOCH + HOUR)
    with ber.in_use():
        Sender(ber.call).connect()
    with ber.hub.in_use():
        [row] = state.site_statuses(ber.hub.organization_id)
        assert row.history_until == EPOCH + HOUR, "the first stay that waits"


def test_what_the_hub_sets_aside_is_listed_with_its_reason(ber: SiteBox) -> None:
    ber.join()
    ber.sync()
    ber.add_asset("P-1")

    def refused(send: Any) -> Any:
        answer = send()
        return {**answer, "aside": ["asset P-1: its tag: AA is taken"]} if "aside" in answer else answer

    ber.spoil = refused
    with ber.in_use():
        one = Sender(ber.call)
        one.connect()
        one.push()
    assert ber.rows("SELECT what, reason FROM set_aside") == [("asset P-1", "its tag: AA is taken")]


def test_later_changes_follow(ber: SiteBox) -> None:
    ber.join()
    ber.sync()
    pallet, crate = ber.add_asset("P-1", "AA01"), ber.add_asset("P-2", "AA02")
    for step in range(10):
        ber.scan(pallet, step % 2, EPOCH + step * HOUR)
        ber.scan(crate, 2, EPOCH + step * SECOND)  # one stay, read repeatedly
        ber.sync()
        assert hub_dump(ber) == site_dump(ber)


def test_last_seen_times_are_sent_without_other_changes(ber: SiteBox) -> None:
    pallet = ber.add_asset("P-1")
    ber.join()
    ber.scan(pallet, 0, EPOCH)
    ber.sync()
    for seconds in (1, 2, 3):
        ber.scan(pallet, 0, EPOCH + seconds * SECOND)  # changes no row of history
        ber.sync()
        assert hub_dump(ber) == site_dump(ber)
    ber.scan(pallet, 1, EPOCH + HOUR)
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)


def test_late_scans_and_undos_change_sent_history(ber: SiteBox) -> None:
    pallet = ber.add_asset("P-1")
    ber.join()
    for dock, hours in ((0, 0), (1, 10), (0, 20), (2, 5), (2, 5), (1, 15)):
        ber.scan(pallet, dock, EPOCH + hours * HOUR)
        ber.sync()
        assert hub_dump(ber) == site_dump(ber)
    for hours in (20, 5, 0):
        with ber.in_use():
            take_back(pallet, EPOCH + hours * HOUR, 0, GAP)
        ber.sync()
        assert hub_dump(ber) == site_dump(ber)


def test_an_asset_with_all_scans_undone_was_never_seen(ber: SiteBox) -> None:
    pallet = ber.add_asset("P-1")
    ber.join()
    ber.scan(pallet, 0, EPOCH)
    ber.sync()
    with ber.in_use():
        take_back(pallet, EPOCH, 0, GAP)
    ber.sync()
    assert hub_dump(ber)["tracks"] == site_dump(ber)["tracks"] == []
    ber.scan(pallet, 1, EPOCH + HOUR)
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)


def test_records_are_identified_by_id_not_by_key(ber: SiteBox) -> None:
    first, second = ber.add_asset("P-1", "AA01"), ber.add_asset("P-2", "AA02")
    ber.join()
    ber.sync()
    with ber.in_use():
        org, actor = ber.organization_id, ber.actor
        assets.rename(actor, first, "P-3")
        assets.rename(actor, second, "P-1")  # a reused key
        assets.rename(actor, first, "P-2")  # and two swapped keys
        tag = assets.get(org, first).tags[0]
        assets.detach_tag(actor, first, tag.id)
        assets.attach_tag(actor, second, NewTag(tag.tag_type, tag.value))
        locations.rename(actor, ber.docks[0], "GATE")
        locations.patch(actor, ber.docks[1], {"parent_id": ber.docks[2]})
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)
    with ber.in_use():
        assets.delete(ber.actor, first)
        third = assets.create(ber.actor, name="Another", external_key="P-2").id
    ber.scan(third, 0, EPOCH)
    ber.sync()
    assert hub_dump(ber) == site_dump(ber)


def test_a_batch_has_a_maximum_size(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.sync.sender.MAX_ROWS", 7)
    monkeypatch.setattr("edge.sync.hub.MAX_ROWS", 7)
    pallet = ber.add_asset("P-1")
    for step in range(50):
        ber.scan(pallet, step % 3, EPOCH + step * HOUR)
    ber.join()
    ber.sync(rounds=200)
    assert hub_dump(ber) == site_dump(ber)
