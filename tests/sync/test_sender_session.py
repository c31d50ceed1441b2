"""A session of a site with its hub: its requests, and the limits of its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.database import change_log
from edge.database.change_log import Change, Kind
from edge.database.connection import execute, writing
from edge.sync import batch_format, hub, sender
from edge.sync.sender import BatchRefused, LinkError, Sender
from edge.sync.store import epochs, hub_link, outgoing, recovered_history
from edge.sync.store.exchange import Batch, Origin, Patch, Stay, TrackState
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_equal


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.join()
    return site


def recorded_calls(site: SiteBox) -> tuple[list[str], Any]:
    paths: list[str] = []

    def call(path: str, body: bytes) -> Any:
        paths.append(path)
        return site.call(path, body)

    return paths, call


def test_a_batch_whose_answer_was_lost_is_not_sent_again(ber: SiteBox) -> None:
    ber.add_asset("P-1")
    paths, call = recorded_calls(ber)
    with ber.in_use():
        one = Sender(call)
        one.connect()

        def lose_answer(send: Any) -> Any:
            send()
            raise LinkError("the line is cut")

        ber.spoil = lose_answer
        with pytest.raises(LinkError):
            one.push()
        ber.spoil = lambda send: send()
        Sender(call).connect()
        here = hub_link.find()
        assert here
        assert here.pending is None
        assert here.acked_seq == change_log.newest()
    assert paths == ["hello", "changes", "hello"]


def test_one_handshake_is_enough_for_a_restored_hub(ber: SiteBox) -> None:
    ber.sync()
    saved = ber.hub.back_up()
    ber.add_asset("P-1")
    ber.sync()
    ber.hub.restore(saved)
    paths, call = recorded_calls(ber)
    with ber.in_use():
        Sender(call).connect()
    assert paths == ["hello"]
    ber.sync()
    assert_equal(ber)


def test_a_site_that_was_never_in_contact_connects_without_changes(ber: SiteBox) -> None:
    ber.sync()
    paths, call = recorded_calls(ber)
    with ber.in_use():
        hub_link.update(last_contact_at=None)
        Sender(call, seen_every=HOUR).push()
        here = hub_link.find()
        assert here
        assert here.last_contact_at is not None
    assert paths == ["hello"]


def test_a_greeting_without_an_epoch_is_refused(ber: SiteBox) -> None:
    """It is no first contact of the site: each joined site has an epoch."""
    greeting = {"versions": batch_format.VERSIONS, "instance": "x", "cursor": [None, 0, ""], "former": [], "report": {}}
    with pytest.raises(hub.Retired):
        ber.hub.answer(ber.site_no, "hello", batch_format.pack(greeting))
    assert ber.hub.rows("SELECT last_contact_at FROM site") == [(None,)]


def test_a_database_that_did_not_follow_the_known_one_is_refused(ber: SiteBox) -> None:
    """Its epoch is new, but it does not name the present one as its former: it is a copy or another site."""
    ber.sync()
    known = ber.hub.rows("SELECT epoch, acked_seq FROM site")
    greeting = {"versions": batch_format.VERSIONS, "instance": "x", "cursor": ["another", 0, ""], "report": {}}
    with pytest.raises(hub.Retired):
        ber.hub.answer(ber.site_no, "hello", batch_format.pack({**greeting, "former": ["more", "others"]}))
    assert ber.hub.rows("SELECT epoch, acked_seq FROM site") == known
    ber.hub.answer(ber.site_no, "hello", batch_format.pack({**greeting, "former": ["more", known[0][0]]}))
    assert ber.hub.rows("SELECT epoch FROM site") == [("another",)]


def test_each_asset_is_sent_once_over_several_answers(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "MAX_MASTERS", 3)
    ber.sync()
    with ber.hub.in_use():
        after, epoch = change_log.newest(), epochs.hub_epoch()
    ham = SiteBox(ber.folder.parent / "ham", "HAM", ber.hub)
    ham.join()
    for number in range(7):
        ham.add_asset(f"P-{number}")
    ham.sync()
    sent: list[int] = []
    for _ in range(10):
        question = {"after": after, "epoch": epoch, "page": None, "hub": None}
        answer = ber.hub.answer(ber.site_no, "masters", batch_format.pack(question))
        sent += [row[0] for row in answer["assets"]]
        if answer["until"] == after:
            break
        after = answer["until"]
    assert len(sent) == len(set(sent)) == 7


def test_assets_that_were_never_reported_wait_for_a_later_batch(ber: SiteBox) -> None:
    for number in range(3):
        ber.scan(ber.add_asset(f"P-{number}"), 0, EPOCH)
    with ber.in_use():
        for most_new, is_all in ((2, False), (3, True)):
            due = outgoing.due_tracks(ber.organization_id, 10, most_new)
            assert (len(due.changed), due.is_all) == (most_new, is_all)


def test_a_batch_has_at_most_500_records() -> None:
    assets = [Change(number, Kind.ASSET, number, None, None) for number in range(1, 502)]
    assert sender._with_few_records(assets) == assets[:500]
    assert sender._with_few_records(assets[:500]) == assets[:500]


def test_a_location_has_its_home_at_the_hub(ber: SiteBox) -> None:
    ber.sync()
    homes = "SELECT DISTINCT home FROM mirror JOIN location ON location.id = record_id"
    assert ber.hub.rows(homes) == [("BER",)]


def test_recovered_history_of_missing_records_is_left_at_the_hub(ber: SiteBox) -> None:
    """The hub keeps it; the rest of the page is stored."""
    pallet, dock = ber.add_asset("P-1"), ber.docks[0]
    nowhere, nothing = 2**40, 2**41
    stay = Stay(EPOCH, 0, 0, 0, 0, 0, 1, None)
    batch = Batch(
        1,
        0,
        [],
        [],
        {},
        {},
        [TrackState(no, asset, dock, EPOCH, EPOCH, EPOCH, 0, 1) for no, asset in ((501, pallet), (502, nothing))],
        [],
        [Origin(dock, None, None, None), Origin(nowhere, None, None, None)],
        [
            Patch(501, EPOCH, EPOCH + HOUR, [stay, stay._replace(observed_at=EPOCH + HOUR, origin=1)]),
            Patch(502, EPOCH, EPOCH, [stay]),
        ],
    )
    with ber.in_use():
        here = hub_link.find()
        assert here
        recovered_history.take(here, batch, recovered_history.Progress("history", [1]))
        with writing():
            assert execute("SELECT position_no, observed_at FROM history").fetchall() == [(501, EPOCH)]
        assert [what for (what,) in execute("SELECT what FROM set_aside")] == ["history 502"]


@pytest.mark.parametrize(("since", "paths"), [(HOUR - 1, 1), (HOUR, 2)])
def test_a_site_that_disagrees_renews_its_epoch_at_most_once_in_a_while(
    ber: SiteBox, monkeypatch: pytest.MonkeyPatch, since: int, paths: int
) -> None:
    """It greets once more with the new epoch, and no third time."""
    monkeypatch.setattr(sender, "RENEW_AGAIN", HOUR)
    ber.sync()
    ber.spoil = lambda send: {**send(), "cursor": ["another epoch", 5, ""]}
    asked, call = recorded_calls(ber)
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    with ber.in_use():
        hub_link.update(renewed_at=now - since)
        with pytest.raises(LinkError):
            Sender(call).connect()
    assert asked == ["hello"] * paths


def test_a_site_greets_at_most_twice(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    ber.sync()
    asked, call = recorded_calls(ber)
    with ber.in_use():
        monkeypatch.setattr(Sender, "_reconcile", lambda *_: False)
        with pytest.raises(LinkError):
            Sender(call).connect()
    assert asked == ["hello"] * 2


def test_a_change_that_the_hub_refuses_alone_is_not_sent_again_and_stops_no_other(ber: SiteBox) -> None:
    ber.sync()
    ber.add_asset("P-1")
    refused = BatchRefused("the hub responded 400: no")

    def refuse(_send: Any) -> Any:
        raise refused

    with ber.in_use():
        one = Sender(ber.call)
        one.connect()
        ber.spoil = refuse
        while execute("SELECT 1 FROM set_aside").fetchone() is None:
            one.push()
        ber.spoil = lambda send: send()
    ber.sync()
    assert ber.rows("SELECT count(*) FROM set_aside") == [(1,)]
    assert ber.hub.rows("SELECT 1 FROM asset WHERE external_key = 'P-1'") == []
    ber.add_asset("P-2")
    ber.sync()
    assert ber.hub.rows("SELECT 1 FROM asset WHERE external_key = 'P-2'") == [(1,)]
