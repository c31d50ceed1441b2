"""A wrong wall clock never deletes data."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.config.settings import Config
from edge.database import instance
from edge.database.connection import execute
from edge.operations import backup, integrity, metrics
from edge.operations.backup import Rotation, list_backups, make_backup
from edge.operations.counted_time import MEANWHILE, CountedTime, confirm
from edge.operations.retention import sweep
from edge.people import api_keys, organizations, people, sessions, tokens
from edge.people.secrets import hash_secret, new_client_secret, new_token
from tests.operations.history import Stay, add_asset, stays_of

YEAR = 365 * clock.DAY
NOW = 1_772_439_330 * clock.SECOND  # 2026-03-02T08:15:30Z
LIMITS = Config(retention_low_disk_mb=0)


class Box:
    """A box with a controllable clock: `run` passes time, `set` changes only the wall clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.wall, self.running, self.is_vouched = NOW, 1000.0, False
        self._folder = folder
        monkeypatch.setattr(clock, "now", lambda: self.wall)
        self.start()

    def start(self) -> None:
        self.running = 0.0
        self.counted = CountedTime(self._folder, lambda: self.is_vouched, lambda: self.running)

    def run(self, micros: int) -> None:
        self.wall += micros
        self.running += micros / clock.SECOND
        self.counted.now()


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch, site: Path) -> Box:
    return Box(monkeypatch, site)


def test_what_is_counted_goes_with_a_clock_that_is_right(box: Box) -> None:
    box.run(3 * clock.HOUR)
    assert box.counted.now() == box.wall
    box.wall += 3 * clock.DAY  # switched off over the weekend
    box.start()
    assert box.counted.now() == box.wall


@pytest.mark.parametrize("leap", [5 * clock.DAY, YEAR, 60 * YEAR])
def test_a_leap_ahead_is_not_counted_until_somebody_vouches_for_it(box: Box, leap: int) -> None:
    box.run(clock.HOUR)
    before = box.counted.now()
    box.wall += leap
    box.run(clock.HOUR)
    assert box.counted.now() == before + clock.HOUR
    box.start()  # also after a restart
    assert box.counted.now() == before + clock.HOUR
    box.is_vouched = True
    assert box.counted.now() == box.wall


def test_a_clock_that_goes_back_is_followed_since_that_deletes_less(box: Box) -> None:
    box.wall = 0  # 1970
    assert box.counted.now() == 0
    box.wall = NOW  # the time server answers late
    assert box.counted.now() < clock.DAY
    box.is_vouched = True
    assert box.counted.now() == NOW


def test_history_and_audit_survive_scans_with_a_clock_years_ahead(box: Box) -> None:
    box.run(clock.HOUR)
    position = add_asset([Stay(NOW - days * clock.DAY, 0) for days in (390, 100, 0)])
    audited = execute("SELECT count(*) FROM audit").fetchone()[0]
    box.wall += 9 * YEAR
    other = add_asset([Stay(box.wall, 0)])
    organizations.add_organization(shell(), "Of the future")
    sweep(LIMITS, box.counted.now(), 10**12, lambda: False)
    sweep(replace(LIMITS, retention_low_disk_mb=1), box.counted.now(), 1, lambda: False)
    assert len(stays_of(other)) == 1
    assert len(stays_of(position)) == 3 - 1  # low disk: one slice was dropped, measured in counted time
    assert execute("SELECT count(*) FROM audit").fetchone()[0] > audited


def test_neither_a_token_nor_a_session_of_a_clock_years_ahead_outlives_it(box: Box, site: Path) -> None:
    instance.use_signing_key(None)
    organization = organizations.list_organizations()[0].id
    box.wall = NOW + 9 * YEAR
    secret, cookie = new_client_secret(), new_token()
    key = api_keys.add_key(shell(organization), "Key", api_keys.SCOPES, hash_secret(secret))
    pair = tokens.exchange("production", key.id, secret)
    person = people.add_person(shell(organization), "Ann", people.Role.VIEWER)
    sessions.add_session(
        actors.person(organization, person.id, person.name), hash_secret(cookie), clock.now() + clock.DAY
    )
    assert pair is not None
    assert tokens.principal("production", pair.access_token) is not None
    box.wall = NOW
    assert tokens.principal("production", pair.access_token) is None
    assert tokens.refresh("production", pair.refresh_token) is None
    assert sessions.find_session(hash_secret(cookie)) is None
    assert tokens.exchange("production", key.id, secret) is not None


def test_a_backup_made_in_1970_is_not_the_first_to_go(box: Box, site: Path) -> None:
    kept = Rotation(daily=2, weekly=0)
    for _ in range(3):
        make_backup(site, site / "backups", kept)
        box.wall += clock.DAY
    box.wall = clock.HOUR
    made = make_backup(site, site / "backups", kept)
    assert made.backup.path.exists()
    assert len(list_backups(site / "backups")) == 3


def test_the_counted_time_is_never_half_written(tmp_path: Path) -> None:
    """A full disk or a power cut keeps the old file: without it the wall clock would be trusted."""
    file, before = tmp_path / "counted-time", tmp_path / "before"
    CountedTime(tmp_path, lambda: True).now()
    before.hardlink_to(file)
    written = before.read_text()
    CountedTime(tmp_path, lambda: True).now()
    assert before.read_text() == written != file.read_text()


def test_a_backup_of_the_future_is_not_taken_for_the_newest(box: Box, site: Path) -> None:
    right = make_backup(site, site / "backups", Rotation(7, 8))
    box.wall += 9 * YEAR
    make_backup(site, site / "backups", Rotation(7, 8))
    box.wall = NOW + clock.DAY
    newest = backup.newest_backup(site / "backups")
    assert newest is not None
    assert newest.path == right.backup.path
    assert str(right.backup.path) in integrity.repair_advice(site / "backups")
    times = {
        metric.name: metric.samples[0].value
        for metric in metrics.sample(site, site / "backups", dict)
        if metric.samples
    }
    assert times["edge_backup_timestamp_seconds"] == right.backup.made_at.timestamp()


def test_a_confirmation_counts_for_scans_recorded_meanwhile_and_for_no_later_ones(box: Box, site: Path) -> None:
    newest = NOW + 3 * clock.HOUR
    confirm(site, newest)
    assert clock.is_vouched(site, newest + MEANWHILE)
    assert not clock.is_vouched(site, newest + MEANWHILE + 1)
    confirm(site, NOW - 1)
    assert not clock.is_vouched(site, NOW), "no scan was ahead"
    assert clock.confirmed_at(site) == NOW


def test_a_confirmation_replaces_the_earlier_one_at_once(box: Box, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = NOW + 3 * clock.HOUR
    confirm(site, newest)
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append((clock.is_vouched(site, newest), clock.confirmed_at(site))))
    confirm(site, newest)
    assert seen == [(True, NOW)] * 2
