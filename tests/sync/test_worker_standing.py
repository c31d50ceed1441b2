"""Traffic of a site without moves, and behavior when the daily limit is reached.

The long form measures a day: python -m tests.sync.test_worker_standing
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.database import change_log
from edge.database import connection as database_module
from edge.database.connection import database
from edge.sync import files, hub, sender, worker
from edge.sync.sender import Sender
from edge.sync.store import hub_link
from edge.sync.worker import SyncPace, SyncWorker
from tests.sync.http import SECRET, Connected, Send
from tests.sync.world import EPOCH, HOUR, SECOND, Hub, SiteBox, assert_equal

ASSETS = 300
GOAL = 2_000_000  # bytes per day
TLS_AND_TCP = 350  # bytes per request: two TLS records, four packets of 52 bytes and a share of others
MINUTE = 60 * SECOND


class Standing:
    """A site with assets that are read continuously at one place, and a worker with a test clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, megabytes_a_day: int = 0) -> None:
        self.now, self.wire, self.requests = EPOCH, 0, 0
        monkeypatch.setattr(clock, "now", lambda: self.now)
        self.site = SiteBox(folder / "ber", "BER", Hub(folder / "hub", "hub"))
        self.assets = [self.site.add_asset(f"P-{number}") for number in range(ASSETS)]
        with self.site.in_use():
            for number, asset in enumerate(self.assets):
                self.site.scan_now(asset, number % 3, self.now)
        link = Connected(self.site)
        link.line.spoil = self._count
        self.site.join()
        files.write(self.site.folder, SECRET, "")
        monkeypatch.setattr(worker, "HubClient", lambda *_: link.client)
        self.worker = SyncWorker(self.site.folder, SyncPace(5.0, megabytes_a_day << 20, 14), lambda: False)
        self._chance = random.Random(3)

    def _count(self, send: Send) -> Send:
        def counted(path: str, body: bytes, headers: dict[str, str]) -> Any:
            answer = send(path, body, headers)
            sent = len(body) + sum(len(name) + len(value) + 4 for name, value in headers.items())
            received = len(answer.content) + sum(len(name) + len(value) + 4 for name, value in answer.headers)
            self.wire += sent + received + len("https://hub" + path) + 60 + TLS_AND_TCP
            self.requests += 1
            return answer

        return counted

    def pass_time(self, duration: int, step: int = 30 * SECOND) -> None:
        """Read all assets once per step, each at its own microsecond, and run one worker round per step."""
        until = self.now + duration
        while self.now < until:
            self.now += step
            with self.site.in_use():
                rows = [(self.now - self._chance.randrange(5 * SECOND), asset) for asset in self.assets]
                with database.atomic():
                    database.connection().executemany("UPDATE track SET last_seen_at = ? WHERE asset_id = ?", rows)
                self.round()

    def round(self) -> None:
        while self.worker._round() == 0:
            pass


def test_assets_without_moves_cost_less_than_two_megabytes_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = Standing(tmp_path, monkeypatch)
    standing.pass_time(5 * MINUTE)
    standing.wire = 0
    standing.pass_time(HOUR)
    assert standing.wire * 24 < GOAL


def test_a_move_is_reported_immediately_and_last_seen_times_within_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = Standing(tmp_path, monkeypatch)
    site, moved, still = standing.site, standing.assets[0], standing.assets[3]
    standing.pass_time(5 * MINUTE)
    standing.now += 5 * SECOND
    before = seen_at_hub(site)
    with site.in_use():
        site.scan_now(moved, 2, standing.now)
        site.scan_now(still, 0, standing.now)
        standing.round()
    after = seen_at_hub(site)
    assert [key for key in before if before[key] != after[key]] == ["P-0"]
    standing.now += worker.SEEN_EVERY
    with site.in_use():
        standing.round()
    assert_equal(site)


def seen_at_hub(site: SiteBox) -> dict[str, int]:
    rows = site.hub.rows("SELECT external_key, last_seen_at FROM track JOIN asset ON asset.id = asset_id ORDER BY 1")
    return dict(rows)


def test_the_daily_limit_stops_history_but_not_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standing = Standing(tmp_path, monkeypatch, megabytes_a_day=1)
    standing.pass_time(5 * MINUTE)
    site, moved = standing.site, standing.assets[0]
    rows = site.hub.rows("SELECT count(*) FROM history")
    with site.in_use():
        hub_link.count_bytes(2 << 20, 0)
        late = site.add_asset_now("LATE")
        for turn in range(4):
            standing.now += 15 * MINUTE
            site.scan_now(moved, (turn + 1) % 3, standing.now)
            site.scan_now(late, turn % 3, standing.now)
            standing.round()
    sql = "SELECT l.external_key FROM track JOIN asset a ON a.id = asset_id JOIN location l ON l.id = location_id "
    assert site.hub.rows(sql + "WHERE a.external_key = 'P-0'") == [("BER-DOCK-1",)]
    assert site.hub.rows(sql + "WHERE a.external_key = 'LATE'") == [("BER-DOCK-0",)]
    assert site.hub.rows("SELECT count(*) FROM history") == rows
    assert "history continues tomorrow" in site.rows("SELECT last_error FROM target")[0][0]
    standing.now += clock.DAY
    with site.in_use():
        standing.round()
    assert_equal(site)


def test_a_hub_of_an_earlier_release_gets_full_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standing = Standing(tmp_path, monkeypatch)
    monkeypatch.setattr("edge.sync.batch_format.SEEN", "unheard of")
    monkeypatch.setattr("edge.sync.hub.hello", without("accepts"))
    sent: list[bytes] = []
    tell = Sender._send
    monkeypatch.setattr(Sender, "_send", lambda self, body: (sent.append(body), tell(self, body))[1])
    standing.pass_time(5 * MINUTE)
    standing.now += worker.SEEN_EVERY
    with standing.site.in_use():
        standing.round()
    assert_equal(standing.site)
    assert sent
    assert not any("seen" in sender.batch_format.unpack(body) for body in sent)


def test_the_daily_limit_holds_with_a_hub_of_an_earlier_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a hub accepts no batch without changes, so it gets one change with the positions of each minute."""
    standing = Standing(tmp_path, monkeypatch, megabytes_a_day=1)
    monkeypatch.setattr("edge.sync.hub.hello", without("accepts"))
    standing.pass_time(5 * MINUTE)
    site, moved = standing.site, standing.assets[0]
    count = "SELECT count(*) FROM history"
    before = site.hub.rows(count)[0][0]
    with site.in_use():
        hub_link.count_bytes(2 << 20, 0)
        for turn in range(40):
            site.scan_now(moved, (turn + 1) % 3, standing.now + turn * SECOND)
        for _ in range(3):
            standing.now += 15 * MINUTE
            site.scan_now(moved, 2, standing.now)
            standing.worker._round()
    assert 1 <= site.hub.rows(count)[0][0] - before <= 3
    sql = "SELECT l.external_key FROM track JOIN asset a ON a.id = asset_id JOIN location l ON l.id = location_id "
    assert site.hub.rows(sql + "WHERE a.external_key = 'P-0'") == [("BER-DOCK-2",)]
    standing.now += clock.DAY
    with site.in_use():
        standing.round()
    assert_equal(site)


def without(key: str) -> Any:
    """Return the greeting of an earlier release."""
    hello = hub.hello
    return lambda *arguments: {name: value for name, value in hello(*arguments).items() if name != key}


def main() -> None:
    database_module.PRAGMAS["synchronous"] = "off"
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        standing = Standing(Path(folder), monkeypatch)
        standing.pass_time(5 * MINUTE)
        standing.wire = standing.requests = 0
        standing.pass_time(clock.DAY, MINUTE)
        print(f"{standing.wire} bytes on the wire in a day, {standing.requests} requests")


def test_the_bytes_of_a_round_that_leaves_changes_waiting_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = Standing(tmp_path, monkeypatch)
    standing.pass_time(MINUTE)
    standing.worker._hang_up()
    monkeypatch.setattr(sender, "MAX_ROWS", 2)  # of the next connection
    monkeypatch.setattr(hub, "MAX_ROWS", 2)
    with standing.site.in_use():
        standing.now += MINUTE
        for number, asset_id in enumerate(standing.assets[:6]):
            standing.site.scan_now(asset_id, (number + 1) % 3, standing.now)
        before = hub_link.find()
        assert standing.worker._round() == 0
        here = hub_link.find()
        assert before
        assert here
        assert here.acked_seq < change_log.newest(), "changes wait"
        assert here.bytes_sent > before.bytes_sent
        assert standing.worker._client is not None
        assert standing.worker._client.sent == 0


def test_the_bytes_of_a_round_beyond_the_daily_limit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = Standing(tmp_path, monkeypatch, megabytes_a_day=1)
    standing.pass_time(MINUTE)
    with standing.site.in_use():
        hub_link.count_bytes(2 << 20, 0)
        standing.now += 15 * MINUTE
        standing.site.scan_now(standing.assets[0], 1, standing.now)
        standing.round()
        here = hub_link.find()
        assert here
        assert here.bytes_sent > 2 << 20
        assert standing.worker._client is not None
        assert standing.worker._client.sent == 0


if __name__ == "__main__":
    sys.exit(main())
