"""The health report of a site: sent rarely and after changes, checked by the hub, and understood by other releases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.database.connection import execute, writing
from edge.sync import batch_format, hub
from edge.sync.sender import SILENCE, Sender
from edge.sync.store import hub_link, site_health, site_lifecycle, sites
from edge.sync.store import state as sync_state
from edge.sync.store.site_health import SiteHealth
from edge.sync.store.sites import Site
from edge.sync.store.state import SiteStatus
from tests.sync.test_worker_standing import GOAL, HOUR, MINUTE, Standing
from tests.sync.world import EPOCH, SECOND, Hub, SiteBox

NOW = EPOCH // SECOND
REPORT = SiteHealth("0.2.0", {"backup": 2, "disk": 1}, NOW, NOW + 30 * 86400, NOW - 3600, 12_000, 340)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [EPOCH]
    monkeypatch.setattr(clock, "now", lambda: now[0])
    return now


@pytest.fixture
def ber(tmp_path: Path, time: list[int]) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.join()
    return site


def at_hub(site: SiteBox) -> SiteHealth | None:
    with site.hub.in_use():
        found = site_health.find(site.site_no)
        return found.health if found else None


def status_at_hub(site: SiteBox) -> SiteStatus:
    with site.hub.in_use():
        return sync_state.site_statuses(site.hub.organization_id)[0]


class Box:
    """Health of a box, with the number of times it was read and sent."""

    def __init__(self) -> None:
        self.health, self.read, self.sent = REPORT, 0, 0
        self.lane = site_health.HealthLane(self._read)

    def _read(self, _: int) -> SiteHealth:
        self.read += 1
        return self.health

    def session(self, site: SiteBox) -> Sender:
        def call(path: str, body: bytes) -> Any:
            self.sent += "health" in batch_format.unpack(body)
            return site.call(path, body)

        return Sender(call, 0, 5, self.lane)


def test_the_hub_has_the_report_of_a_new_session(ber: SiteBox) -> None:
    box = Box()
    with ber.in_use():
        box.session(ber).connect()
    assert at_hub(ber) == REPORT
    assert status_at_hub(ber).level == site_health.PROBLEM
    assert status_at_hub(ber).site_problems == "backup"


def test_a_report_is_sent_after_a_change_and_at_most_every_five_minutes(ber: SiteBox, time: list[int]) -> None:
    box = Box()
    with ber.in_use():
        session = box.session(ber)
        session.connect()
        for turn in range(10):  # moves in each minute
            time[0] += MINUTE
            ber.scan_now(ber.pallet if hasattr(ber, "pallet") else ber.add_asset_now(f"P-{turn}"), turn % 3, time[0])
            session.push()
        assert box.sent == 1, "nothing has changed"
        assert box.read <= 3
        box.health = REPORT._replace(findings={})
        time[0] += site_health.EVERY
        ber.add_asset_now("P-NEW")
        session.push()
        assert box.sent == 2
        box.health = REPORT
        ber.add_asset_now("P-NEWER")
        session.push()
        assert box.sent == 2
    assert at_hub(ber) == REPORT._replace(findings={})


def test_an_idle_site_adds_no_request_for_its_report(ber: SiteBox, time: list[int]) -> None:
    box = Box()
    with ber.in_use():
        session = box.session(ber)
        session.connect()
        box.health = REPORT._replace(reads_per_minute=0)
        while session.push().rows:
            pass
        time[0] += max(site_health.EVERY, SILENCE) + SECOND
        session.push()
    assert at_hub(ber) == REPORT._replace(reads_per_minute=0)


def test_a_lost_report_is_sent_again(ber: SiteBox) -> None:
    box = Box()

    def lose(_: Callable[[], Any]) -> Any:
        raise OSError("no line")

    ber.spoil = lose
    with ber.in_use(), pytest.raises(OSError, match="no line"):
        box.session(ber).connect()
    ber.spoil = lambda send: send()
    with ber.in_use():
        box.session(ber).connect()
    assert at_hub(ber) == REPORT


def test_a_new_session_repeats_the_report_for_a_hub_that_lost_it(ber: SiteBox, time: list[int]) -> None:
    box = Box()
    with ber.in_use():
        box.session(ber).connect()
    with ber.hub.in_use(), writing():
        execute("DELETE FROM site_health")
    time[0] += site_health.EVERY
    with ber.in_use():
        box.session(ber).connect()
    assert at_hub(ber) == REPORT


def test_an_earlier_hub_and_an_earlier_site_work_with_this_release(
    ber: SiteBox, monkeypatch: pytest.MonkeyPatch, time: list[int]
) -> None:
    ber.sync()  # a site that sends none
    assert at_hub(ber) is None
    assert status_at_hub(ber).level == site_health.OK
    monkeypatch.setattr(hub.site_health, "keep", lambda *_: None)  # a hub that ignores it
    monkeypatch.setattr(hub.site_health, "checked", lambda _: None)
    box = Box()
    with ber.in_use():
        session = box.session(ber)
        session.connect()
        ber.add_asset_now("P-1")
        assert session.push().is_all
    assert at_hub(ber) is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, None),
        ([], None),
        ("x", None),
        ({}, SiteHealth("", {})),
        ({"version": 7, "findings": [], "examined_at": "now"}, SiteHealth("", {})),
        ({"version": "v" * 5000}, SiteHealth("v" * site_health.MAX_VERSION, {})),
        ({"version": "1\n2\x1b[31m\u202e"}, SiteHealth("1 2 [31m", {})),
        ({"findings": {"disk": 3, "backup": True, "clock": "2", "memory": 0}}, SiteHealth("", {})),
        ({"examined_at": 2**80, "backup_at": -5, "certificate_ends_at": 2**52}, SiteHealth("", {})),
        ({"disk_free_mb": 1.5, "reads_per_minute": True}, SiteHealth("", {})),
    ],
)
def test_a_hostile_report_is_cut_and_never_stops_sync(
    ber: SiteBox, content: object, expected: SiteHealth | None
) -> None:
    with ber.in_use():
        answer = ber.call("hello", batch_format.pack({**_greeting(ber), "health": content}))
    assert answer["version"] == batch_format.VERSION
    assert at_hub(ber) == expected


def test_many_findings_of_a_hostile_site_stay_small(ber: SiteBox) -> None:
    content = {
        "version": "\U0001f9ea" * 50,
        "findings": {f"{number:05}" + "\U0001f9ea" * 99: 2 for number in range(9000)},
    }
    with ber.in_use():
        ber.call("hello", batch_format.pack({**_greeting(ber), "health": content}))
    stored = ber.hub.rows("SELECT length(CAST(content AS BLOB)) FROM site_health")[0][0]
    assert stored <= site_health.MAX_FINDINGS * (4 * site_health.MAX_CHECK + 8) + 500


def _greeting(site: SiteBox) -> dict[str, Any]:
    here = hub_link.find()
    assert here
    return {
        "versions": [1],
        "instance": site.name,
        "cursor": [here.epoch, 0, ""],
        "former": [],
        "report": {},
    }


def test_a_removed_site_leaves_no_report(ber: SiteBox) -> None:
    with ber.in_use():
        Box().session(ber).connect()
    with ber.hub.in_use():
        site_lifecycle.remove(ber.hub.actor, ber.site_no)
        assert sync_state.site_statuses(ber.hub.organization_id) == []
    assert ber.hub.rows("SELECT * FROM site_health") == []


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, 0),
        ({"backup_at": NOW - 37 * 3600}, 1),
        ({"backup_at": NOW - 8 * 86400}, 2),
        ({"certificate_ends_at": NOW + 20 * 86400}, 1),
        ({"certificate_ends_at": NOW + 6 * 86400}, 2),
        ({"certificate_ends_at": None, "backup_at": None}, 0),
        ({"examined_at": NOW - 4 * 3600}, 1),
        ({"findings": {"disk": 1}}, 1),
        ({"findings": {"disk": 2, "clock": 1}}, 2),
    ],
)
def test_ages_are_judged_at_the_hub(time: list[int], change: dict[str, Any], level: int) -> None:
    assert REPORT._replace(findings={})._replace(**change).level() == level


def test_the_worst_site_comes_first(tmp_path: Path, time: list[int]) -> None:
    central = Hub(tmp_path / "hub", "hub")
    numbers = {code: central.add_site(code) for code in ("AOK", "BWARN", "CBAD", "DSILENT", "EWORSE")}
    findings = {"AOK": {}, "BWARN": {"x": 1}, "CBAD": {"x": 2}, "DSILENT": {}, "EWORSE": {"x": 2, "y": 2}}
    with central.in_use():
        for code, found in findings.items():
            time[0] = EPOCH if code == "DSILENT" else EPOCH + HOUR
            sites.note_contact(numbers[code], {}, 0)
            site_health.keep(numbers[code], REPORT._replace(findings=found, examined_at=NOW + 3600))
        rows = sync_state.worst_first(sync_state.site_statuses(central.organization_id))
    assert [row.site.code for row in rows] == ["DSILENT", "EWORSE", "CBAD", "BWARN", "AOK"]
    assert [row.is_silent for row in rows] == [True, False, False, False, False]


def test_a_site_with_a_long_interval_is_not_silent(ber: SiteBox, time: list[int]) -> None:
    """It reports every hour: neither a silent site, nor one that a copy of it may replace."""
    with ber.in_use():
        Sender(ber.call, 0, 3600).connect()
    time[0] += 3600 * SECOND + MINUTE
    status = status_at_hub(ber)
    assert (status.is_silent, status.trouble) == (False, "")
    with ber.hub.in_use():
        before = sites.get_site(ber.hub.organization_id, ber.site_no)
        with pytest.raises(sites.SecondBox):
            sites.admit(before, "a copy")
    time[0] += 2 * HOUR
    assert status_at_hub(ber).is_silent
    with ber.hub.in_use():
        sites.admit(_site(ber), "a copy")
        assert _site(ber).box == "a copy"


def _site(ber: SiteBox) -> Site:
    return sites.get_site(ber.hub.organization_id, ber.site_no)


def test_a_site_cannot_claim_a_longer_interval_than_the_setting_allows(ber: SiteBox, time: list[int]) -> None:
    with ber.hub.in_use():
        sites.note_contact(ber.site_no, {sites.INTERVAL: 10**12}, 0)
        assert _site(ber).silent_after == (2 * 3600 + 60) * SECOND
        sites.note_contact(ber.site_no, {sites.INTERVAL: -5}, 0)
        assert _site(ber).silent_after == sites.SILENT


def test_reports_of_a_metered_site_fit_into_the_daily_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that changes each time costs a few bytes with messages that are sent anyway."""
    standing = Standing(tmp_path, monkeypatch, megabytes_a_day=2)
    reads = iter(range(10**6))
    standing.worker._health = site_health.HealthLane(
        lambda _: REPORT._replace(reads_per_minute=next(reads)), site_health.EVERY_METERED
    )
    standing.pass_time(5 * MINUTE)
    requests, standing.wire = standing.requests, 0
    standing.pass_time(HOUR)
    with_report, made = standing.wire, standing.requests - requests
    assert json.loads(standing.site.hub.rows("SELECT content FROM site_health")[0][0])["reads_per_minute"]
    standing.worker._health = None
    requests, standing.wire = standing.requests, 0
    standing.pass_time(HOUR)
    assert made <= standing.requests - requests, "no request of its own"
    assert with_report * 24 < GOAL
    assert (with_report - standing.wire) * 24 < 40_000
