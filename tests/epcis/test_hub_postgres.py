"""A hub with its stays in PostgreSQL sends the events that it shows, like one with a file; also when it dies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.clock import SECOND
from edge.database.connection import execute, writing
from edge.epcis import subscriptions
from edge.errors import Conflict
from edge.sync.sender import LinkError
from edge.tracking import deletion, history_engine
from edge.tracking.postgres import batches, pool, replaced
from tests.epcis.test_hub import scan_by_hand
from tests.epcis.test_same_events import (
    ACTIONS,
    EPOCH,
    MOMENTS,
    SETTINGS,
    Partner,
    Steps,
    Yard,
    add_webhook,
    by_id,
    queried,
)
from tests.sync.test_sender_every_step import Crash, dies_at, line_to_one_that_dies
from tests.sync.world import HOUR, Hub, SiteBox
from tests.tracking.postgres.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


class Company:
    """A hub with two subscribers, one of which reads seldom, and two sites."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.sites = [SiteBox(folder / code, code, self.hub) for code in ("BER", "HAM")]
        self.yards = []
        for site in self.sites:
            site.join()
            with site.in_use():
                self.yards.append(Yard(site.organization_id))
            site.settle()
        with self.hub.in_use():
            self.partners = [Partner(add_webhook(self.hub.actor, name)) for name in ("ERP", "WMS")]
            subscriptions.log_changes(is_needed=True)

    def begin(self) -> None:
        for site, yard in zip(self.sites, self.yards, strict=True):
            with site.in_use():
                yard.begin([])

    def act(self, number: int, action: str, which: int, place: int, at: int) -> None:
        with self.sites[number].in_use(), suppress(Conflict):  # the other site may have its key meanwhile
            self.yards[number].act(action, which, place, at)

    def correct(self, number: int, which: int, place: int) -> None:
        """Move the last stay of an asset to another location, as a correction does."""
        yard = self.yards[number]
        with self.sites[number].in_use():
            source = execute("SELECT no FROM source WHERE location_id = ?", (yard.places[place],)).fetchone()
            if source:
                execute(
                    "UPDATE history SET source_no = ? WHERE (position_no, observed_at, seq) = (SELECT h.position_no, "
                    "h.observed_at, h.seq FROM history h JOIN track t ON t.no = h.position_no WHERE t.asset_id = ? "
                    "ORDER BY h.observed_at DESC, h.seq DESC LIMIT 1)",
                    (source[0], yard.assets[which]),
                )

    def look(self) -> None:
        with self.hub.in_use():
            log_all()

    def receive(self, most: int) -> None:
        with self.hub.in_use():
            self.partners[0].receive(most)

    def assert_same(self) -> dict[str, object]:
        for site in self.sites:
            site.settle()
        with self.hub.in_use():
            log_all()
            shown = by_id(queried(self.hub.organization_id))
            for partner in self.partners:
                partner.receive(100_000)
                assert by_id(partner.events.values()) == shown
        return dict(shown)


def log_all() -> None:
    while subscriptions.log_changes(is_needed=True):
        pass


@pytest.fixture
def _postgres(postgres_server: Server) -> Iterator[None]:
    Hub.server = postgres_server
    yield
    Hub.server = None


@pytest.fixture
def company(tmp_path: Path, _postgres: None) -> Company:
    return Company(tmp_path)


def check(company: Company, steps: Steps) -> None:
    company.begin()
    for action, which, place, at in steps:
        number = which % 2
        if action == "send":
            company.sites[number].settle()
        elif action == "look":
            company.look()
        elif action == "follow":
            for site in company.sites:
                site.settle()
            company.look()
            company.receive(1_000)
        elif action == "receive":
            company.receive(1 + which)
        elif action == "correct":
            company.correct(number, which, place)
        else:
            company.act(number, action, which, place, at)
    company.assert_same()


ACT = st.tuples(
    st.sampled_from((*ACTIONS, "read", "undo", "correct", "correct")), st.integers(0, 2), st.integers(0, 2), MOMENTS
)
EXCHANGE = st.tuples(st.sampled_from(("send", "look", "receive")), st.integers(0, 2), st.just(0), st.just(0))
ROUND = st.tuples(st.lists(ACT, min_size=1, max_size=8), st.one_of(st.just(("follow", 0, 0, 0)), EXCHANGE))
STEPS = st.lists(ROUND, min_size=1, max_size=6).map(
    lambda rounds: [step for steps, exchange in rounds for step in (*steps, exchange)]
)


@settings(SETTINGS, max_examples=10)
@given(STEPS)
def test_webhooks_and_the_query_have_the_same_events(company: Company, steps: Steps) -> None:
    check(company, steps)


@settings(SETTINGS, max_examples=5)
@given(STEPS, st.integers(1, 12))
def test_they_have_the_same_events_though_the_hub_died(company: Company, steps: Steps, commit: int) -> None:
    check(company, steps)
    with pytest.MonkeyPatch.context() as patched:
        for site, yard in zip(company.sites, company.yards, strict=True):
            with site.in_use():
                yard.hand(0, 0, EPOCH + 7 * SECOND)
                yard.undo(0, 0, 0)
                yard.hand(1, 1, EPOCH + 8 * SECOND)
            die_at(site, commit, patched)
    company.look()
    company.assert_same()


def die_at(site: SiteBox, commit: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let the hub, or the site, die before this commit of an exchange. Returns False if there were fewer."""
    with monkeypatch.context() as patched:
        patched.setattr(site, "spoil", line_to_one_that_dies)
        dies_at(commit, patched)
        try:
            site.settle()
        except (Crash, LinkError):
            return True
    return False


@pytest.fixture
def site(tmp_path: Path, _postgres: None) -> SiteBox:
    """A site with a pallet at a dock, of a hub that has no webhook yet."""
    made = SiteBox(tmp_path / "BER", "BER", Hub(tmp_path / "hub", "hub"))
    made.pallet = made.add_asset("P-1")
    made.join()
    made.scan(made.pallet, 0, EPOCH)
    made.settle()
    return made


def subscribe(hub: Hub) -> Partner:
    with hub.in_use():
        partner = Partner(add_webhook(hub.actor))
        subscriptions.log_changes(is_needed=True)
    return partner


def logged(hub: Hub) -> Counter[int]:
    """Log what the hub has noted. Returns how often each moment is in the log."""
    with hub.in_use():
        log_all()
        rows = execute("SELECT data FROM event WHERE kind = 'asset.history'").fetchall()
    return Counter(at for (data,) in rows for at in json.loads(data)["moments"])


def receive(hub: Hub, partner: Partner) -> dict[str, bool]:
    """Return whether the events that the partner has now are declared as errors."""
    with hub.in_use():
        log_all()
        partner.receive()
    return {event["eventTime"][11:19]: "errorDeclaration" in event for event in partner.events.values()}


def test_each_change_is_sent_once_wherever_the_hub_dies(site: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch with a new stay, a late one, one that begins earlier than it was sent, and one that was undone."""
    hub, number, deaths = site.hub, 0, 0
    partner = subscribe(hub)
    expected: Counter[int] = Counter()
    while True:
        number += 1
        began = EPOCH + number * 30 * HOUR
        with site.in_use():
            undo = scan_by_hand(site, 2, began + 8 * HOUR)
        site.scan(site.pallet, 0, began + 5 * HOUR)
        site.settle()
        expected += Counter([began + 5 * HOUR, began + 8 * HOUR])
        assert logged(hub) == expected
        site.scan(site.pallet, 1, began + 9 * HOUR)
        site.scan(site.pallet, 0, began + 5 * HOUR - 60 * SECOND)
        with site.in_use():
            undo()
        is_dead = die_at(site, number, monkeypatch)
        expected += Counter(began + hours * HOUR for hours in (5, 8, 9))
        expected[began + 5 * HOUR - 60 * SECOND] += 1
        assert logged(hub) <= expected
        site.settle()
        assert logged(hub) == expected
        with hub.in_use():
            partner.receive()
            shown = queried(hub.organization_id, since=EPOCH + HOUR)
            assert by_id(partner.events.values()) == by_id(shown)
        if not is_dead:
            break
        deaths += 1
    assert deaths > 5


def test_a_webhook_that_is_added_during_a_batch_gets_its_changes(
    site: SiteBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch began without one, so the site sends it again."""
    replace, added = batches.replace_rows, []

    def add_and_replace(*values: object) -> None:
        if not added:
            added.append(Partner(add_webhook(site.hub.actor)))
            subscriptions.log_changes(is_needed=True)
        replace(*values)  # type: ignore[arg-type]

    monkeypatch.setattr(batches, "replace_rows", add_and_replace)
    site.scan(site.pallet, 1, EPOCH + HOUR)
    with pytest.raises(LinkError, match="webhook"):
        site.settle()
    site.settle()
    assert receive(site.hub, added[0]) == {"23:13:20": False}


def test_a_stay_that_is_only_seen_longer_is_not_sent_again(site: SiteBox) -> None:
    partner = subscribe(site.hub)
    site.scan(site.pallet, 0, EPOCH + 100 * SECOND)
    site.scan(site.pallet, 1, EPOCH + HOUR)
    site.settle()
    assert receive(site.hub, partner) == {"23:13:20": False}
    assert logged(site.hub) == Counter([EPOCH + HOUR])


def test_a_very_large_batch_is_noted_in_parts(site: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaced, "MOST", 2)
    partner = subscribe(site.hub)
    for hour in range(2, 9):
        site.scan(site.pallet, hour % 2, EPOCH + hour * HOUR)
    site.settle()
    with site.hub.in_use(), pool.connected() as connection:
        [(effects,)] = connection.execute("SELECT effects FROM site_cursor").fetchall()
    assert len(effects[6]) == 4
    assert len(receive(site.hub, partner)) == 7


def test_nothing_is_noted_without_a_webhook(site: SiteBox) -> None:
    with site.hub.in_use():
        assert execute("SELECT count(*) FROM change WHERE kind > 13").fetchone() == (0,)
        with pool.connected() as connection:
            [(effects,)] = connection.execute("SELECT effects FROM site_cursor").fetchall()
    assert len(effects) == 4


def test_a_removed_asset_keeps_its_events_and_a_removed_track_has_errors(site: SiteBox) -> None:
    partner = subscribe(site.hub)
    site.scan(site.pallet, 1, EPOCH + HOUR)
    with site.in_use():
        undo = scan_by_hand(site, 2, EPOCH + 2 * HOUR)
    site.settle()
    receive(site.hub, partner)
    with site.in_use():
        undo()
        with writing():
            execute("DELETE FROM history WHERE observed_at = ?", (EPOCH + HOUR,))
    site.settle()
    assert receive(site.hub, partner) == {"23:13:20": True, "00:13:20": True}


def test_events_deleted_by_age_are_no_errors(site: SiteBox) -> None:
    partner = subscribe(site.hub)
    for hour in range(1, 4):
        site.scan(site.pallet, hour % 2, EPOCH + hour * HOUR)
    site.settle()
    with site.hub.in_use():
        assert deletion.drop_history(EPOCH + 99 * HOUR) == 3
    assert set(receive(site.hub, partner).values()) == {False}
    assert site.hub.rows("SELECT count(*) FROM epcis_withdrawn") == [(0,)]


def test_a_message_asks_postgresql_once(site: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    partner = subscribe(site.hub)
    for hour in range(1, 30):
        site.scan(site.pallet, hour % 2, EPOCH + hour * HOUR)
    site.settle()
    asked = []
    fetch: Callable[..., list[tuple[object, ...]]] = pool.fetch

    def counted(*values: object) -> list[tuple[object, ...]]:
        asked.append(values)
        return fetch(*values)

    monkeypatch.setattr(history_engine.lent_rows, "fetch", counted)
    assert len(receive(site.hub, partner)) == 24  # of a day
    assert len(partner.events) == 29
    assert len(asked) == 1
