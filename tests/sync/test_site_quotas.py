"""A site that has used its quota, or a hub with a nearly full disk: data waits at the site, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from edge import clock
from edge.database.connection import execute
from edge.operations.doctor import sync as checks
from edge.operations.doctor.findings import Level
from edge.sync.sender import HistoryWaits, Sender
from edge.sync.store import digests, hub_link, site_quotas, state
from edge.sync.store.site_quotas import MB, PERIOD
from edge.tracking import copies
from tests.sync.company import Company
from tests.sync.world import EPOCH, HOUR, SiteBox

SEEN = "SELECT remote_no, last_seen_at FROM track WHERE site_no = 1 ORDER BY 1"
ADDED = "SELECT added_bytes FROM site WHERE no = 1"


class Disk(NamedTuple):
    free: int


@pytest.fixture(autouse=True)
def _no_limits() -> Iterator[None]:
    yield
    site_quotas.set_limits(0, 0)


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Company:
    return Company(tmp_path, monkeypatch)


def push_known_positions(box: SiteBox) -> None:
    with box.in_use():
        sender = Sender(box.call)
        sender.connect()
        sender.push(with_history=False, with_new=False)


def assert_waits(company: Company) -> None:
    """Check that a full hub takes positions only, both sides report it, and everything arrives once it has room."""
    ber, hub = company.ber, company.hub
    ber.scan(ber.add_asset("B-new"), 0, EPOCH + 50 * HOUR)
    ber.scan(company.own[0], 2, EPOCH + 51 * HOUR)
    with pytest.raises(HistoryWaits):
        ber.sync()
    before = hub.rows("SELECT count(*) FROM history")
    push_known_positions(ber)
    assert (1, EPOCH + 51 * HOUR) in hub.rows(SEEN)
    assert hub.rows("SELECT count(*) FROM history") == before
    assert hub.rows("SELECT 1 FROM asset WHERE external_key = 'B-new'") == []
    with ber.in_use():
        assert "waits there" in state.site_trouble()
    with hub.in_use():
        finding = checks.downstream(None)  # type: ignore[arg-type]  # it checks the database only
    assert finding.level is Level.WARNING
    assert "BER" in finding.text


def test_a_site_over_its_quota_waits_and_continues(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    site_quotas.set_limits(MB, 0)
    with company.hub.in_use():
        site_quotas.charge(1, MB)
    assert_waits(company)
    later = clock.now() + PERIOD
    monkeypatch.setattr(clock, "now", lambda: later)
    company.assert_settled()
    assert company.hub.rows("SELECT history_waits FROM site") == [(None,), (None,)]
    with company.ber.in_use():
        here = hub_link.find()
        assert here
        assert here.history_waits is None


def test_an_asset_at_a_new_location_does_not_hold_up_others(company: Company) -> None:
    ber, hub = company.ber, company.hub
    site_quotas.set_limits(MB, 0)
    with hub.in_use():
        site_quotas.charge(1, MB)
    ber.add_dock("DOCK-NEW")
    ber.scan(company.own[0], 3, EPOCH + 50 * HOUR)
    ber.scan(company.own[1], 2, EPOCH + 51 * HOUR)
    with pytest.raises(HistoryWaits):
        ber.sync()
    with ber.in_use():
        sender = Sender(ber.call)
        sender.connect()
        sender.push(with_history=False, with_new=False)  # the hub answers that it does not know the location
        sender.push(with_history=False, with_new=False)
        ber.scan_now(company.own[2], 0, EPOCH + 52 * HOUR)
        sender.push(with_history=False, with_new=False)
        assert not sender.push(with_history=False, with_new=False).rows
    assert hub.rows(SEEN)[:3] == [(1, EPOCH), (2, EPOCH + 51 * HOUR), (3, EPOCH + 52 * HOUR)]
    site_quotas.set_limits(0, 0)
    company.assert_settled()
    assert hub.rows(SEEN)[0] == (1, EPOCH + 50 * HOUR)


def test_a_hub_keeps_a_reserve_of_its_disk(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    site_quotas.set_limits(0, 10 * MB)
    free = [9 * MB]
    monkeypatch.setattr("shutil.disk_usage", lambda _: Disk(free[0]))
    assert_waits(company)
    free[0] = 11 * MB
    company.assert_settled()


def test_what_a_site_adds_is_counted_once(company: Company) -> None:
    site_quotas.set_limits(1000 * MB, 0)
    for number in range(200):
        with company.ber.in_use():
            company.ber.add_asset_now(f"B-many-{number}", f"AB{number}")
    company.settle()
    [(added,)] = company.hub.rows(ADDED)
    assert 200 * 200 < added < 200 * 2000
    with company.ber.in_use():
        hub_link.update(verify_wanted=1)
    company.settle()
    assert company.hub.rows(ADDED)[0][0] <= added


def test_the_quota_returns_with_time(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    site_quotas.set_limits(30 * MB, 0)
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    with company.hub.in_use():
        site_quotas.charge(1, 20 * MB)
        for days, left in ((0, 20), (1, 19), (10, 10), (40, 0)):
            monkeypatch.setattr(clock, "now", lambda days=days: now + days * clock.DAY)
            assert site_quotas.added_bytes(1) == left * MB
        monkeypatch.setattr(clock, "now", lambda: now - clock.DAY)
        assert site_quotas.added_bytes(1) == 20 * MB


def test_a_charge_by_a_clock_that_was_ahead_does_not_block_for_years(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    site_quotas.set_limits(MB, 0)
    now = clock.now()
    with company.hub.in_use():
        with monkeypatch.context() as ahead:
            ahead.setattr(clock, "now", lambda: now + 3650 * clock.DAY)
            site_quotas.charge(1, MB)
        company.ber.scan(company.ber.add_asset("B-new"), 0, EPOCH + 50 * HOUR)
        with pytest.raises(HistoryWaits):
            company.ber.sync()
    monkeypatch.setattr(clock, "now", lambda: now + PERIOD)
    company.assert_settled()


def test_the_hub_shows_the_present_reason(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    site_quotas.set_limits(MB, 10 * MB)
    with company.hub.in_use():
        site_quotas.charge(1, MB)
    company.ber.scan(company.ber.add_asset("B-new"), 0, EPOCH + 50 * HOUR)
    for free, reason in ((9 * MB, "free disk"), (11 * MB, "in 30 days")):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: Disk(free))
        with pytest.raises(HistoryWaits):
            company.ber.sync()
        assert reason in company.hub.rows("SELECT history_waits FROM site")[0][0]


def test_stored_digests_count_toward_the_quota_of_the_site(company: Company) -> None:
    """Two stays far apart make the hub store the digests of all days in between."""
    hub, site_no = company.hub, company.ber.site_no
    days = digests.Days(-20_000, clock.now() // clock.DAY)
    with hub.in_use(), pytest.MonkeyPatch.context() as patched:
        scope = digests.Scope(hub.organization_id, site_no)
        patched.setattr(copies, "extent", lambda *_: (days.first * clock.DAY, clock.now()))
        site_quotas.set_limits(MB, 0)
        before = site_quotas.added_bytes(site_no)
        digests.kept_by_day(scope, days)
        added = site_quotas.added_bytes(site_no) - before
        assert added > MB // 4
        site_quotas.charge(site_no, MB)
        digests.forget(scope.site_no or 0)
        digests.kept_by_day(scope, days)
        assert execute("SELECT count(*) FROM history_digest").fetchone()[0] == 0
